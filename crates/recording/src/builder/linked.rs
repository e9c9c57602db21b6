//! Occurrences that have more than a stack: further stacks by role, an object, a time bin. Their stacks are known by keys, which may come
//! later than they do.

use crate::count::{Link, Object, Role, TaskStackId};
use crate::event::EventId;
use crate::state::State;
use crate::values::Values;

/// A key of a waker or of a pair may come again, with a message of its own, this many times after its sums were taken.
pub(super) const KEPT_DRAINS: u32 = 2;

/// What a key has besides its stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    /// Further stacks by role, by their keys.
    pub links: Vec<(Role, u64)>,
    /// What it happened to, as a lock.
    pub object: Option<Object>,
    /// Number of the time bin.
    pub time_bin: Option<u32>,
}

/// What waits for a lock have in common whose sums come under one key.
#[derive(Clone, Debug)]
pub struct LockKey {
    /// The event: [`EventId::LOCKS`] or [`EventId::LOCK_LENGTHS`].
    pub event: EventId,
    /// What the waiters were doing.
    pub state: State,
    /// Key of the stack of the waiters.
    pub stack: u64,
    /// The process, and the time at which its program began: they tell when the key cannot come again.
    pub pid: u32,
    /// See `pid`; ns of the monotonic clock.
    pub exec_id: u64,
    /// The lock with the further stacks, and the bucket of lengths as time bin.
    pub attached: Attached,
    /// The lock as a stack of one frame, if it is a variable of a file.
    pub place: Option<TaskStackId>,
}

/// A stack, or the key of a stack that is still on its way.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    Stack(TaskStackId),
    Key(u64),
}

/// Occurrences in one place that have further stacks, an object or a time bin.
#[derive(Debug)]
pub(super) struct Linked {
    pub(super) event: EventId,
    pub(super) state: State,
    pub(super) stack: Side,
    /// The key of its stack, if that is the key of one interval alone.
    pub(super) once: Option<u64>,
    pub(super) links: Vec<(Role, Side)>,
    pub(super) object: Option<Object>,
    pub(super) time_bin: Option<u32>,
    /// The process and the begin of its program; none of a pair.
    pub(super) program: Option<(u32, u64)>,
    /// Sums that arrived while one of the stacks was not known.
    pub(super) sums: Values,
    pub(super) heard: u32,
}

impl Linked {
    pub(super) fn new(event: EventId, state: State, stack: Side, attached: &Attached) -> Self {
        Self {
            event,
            state,
            stack,
            once: None,
            links: attached.links.iter().map(|(role, key)| (*role, Side::Key(*key))).collect(),
            object: attached.object,
            time_bin: attached.time_bin,
            program: None,
            sums: Values::default(),
            heard: 0,
        }
    }

    /// Whether the key may come again though no message told of it lately. `may_come` is asked about the program.
    pub(super) fn may_come(&self, drains: u32, may_come: impl FnOnce(u32, u64) -> bool) -> bool {
        let by_program = || self.program.map(|(pid, exec_id)| may_come(pid, exec_id));
        self.sums.count() > 0 || by_program().unwrap_or(drains - self.heard < KEPT_DRAINS)
    }

    /// Where its sums belong; none while one of the stacks is not known.
    pub(super) fn place(&self) -> Option<Place> {
        let Side::Stack(stack) = self.stack else { return None };
        let link = |(role, side): &(Role, Side)| match side {
            Side::Stack(stack) => Some(Link { role: *role, stack: *stack }),
            Side::Key(_) => None,
        };
        let links = self.links.iter().map(link).collect::<Option<_>>()?;
        Some(Place { event: self.event, stack, links, object: self.object, time_bin: self.time_bin })
    }

    pub(super) fn sides(&mut self) -> impl Iterator<Item = &mut Side> {
        std::iter::once(&mut self.stack).chain(self.links.iter_mut().map(|(_, side)| side))
    }
}

/// Where sums belong.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) event: EventId,
    pub(super) stack: TaskStackId,
    pub(super) links: Vec<Link>,
    pub(super) object: Option<Object>,
    pub(super) time_bin: Option<u32>,
}

impl Place {
    pub(super) fn of(event: EventId, stack: TaskStackId) -> Self {
        Self { event, stack, links: Vec::new(), object: None, time_bin: None }
    }

    /// Whether nothing but a stack is attached.
    pub(super) fn is_bare(&self) -> bool {
        self.links.is_empty() && self.object.is_none() && self.time_bin.is_none()
    }
}
