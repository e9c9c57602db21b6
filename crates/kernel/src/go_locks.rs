//! Waits of goroutines: the programs at functions of Go's runtime.

/// Goroutines that wait at one moment.
pub(crate) const MAX_GO_WAITS: u32 = 131_072;

/// A program, by what happens where its probes are. They are for x86-64, and Go 1.18 and later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GoProgram {
    /// The current goroutine begins to wait for the first argument of the function that calls `gopark`.
    ParkForFirst,
    /// It begins to wait for one of several things.
    ParkForAny,
    /// The entry of `ready`, behind its check of the stack: the wait of a goroutine is over.
    Ready,
}

impl GoProgram {
    /// All of them, in the order in which they are opened and attached: a wait whose begin is seen must have its end seen.
    pub const ALL: [Self; 3] = [Self::Ready, Self::ParkForFirst, Self::ParkForAny];

    /// Its name in the object.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ParkForFirst => "go_park_first",
            Self::ParkForAny => "go_park_any",
            Self::Ready => "go_ready",
        }
    }
}
