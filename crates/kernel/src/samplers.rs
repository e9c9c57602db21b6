//! The programs of the sampled events. Each event is read, filtered and counted by a program with settings of its own, so each has an object
//! of its own; all of them share the maps of the first one.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::{MapCore, Object};

use crate::error::load_error;
use crate::layout::{self, Layout};
use crate::object;
use crate::settings::SampledIn;
use crate::{Error, Settings};

/// A sampled event.
struct Sampler {
    /// Of a further event, the object with its program. The program of the first one is in that of all others.
    object: Option<Object>,
    program: &'static str,
    /// The slot of the program on the first CPU.
    first_slot: u32,
}

/// The sampled events, in their order.
pub(crate) struct Samplers(Vec<Sampler>);

impl Samplers {
    /// Loads the objects of further events. `first`: the loaded object, `layout`: how it was laid out.
    ///
    /// # Errors
    /// [`Error::Load`], [`Error::Missing`].
    pub(crate) fn load(first: &Object, layout: &Layout<'_>) -> Result<Self, Error> {
        let settings = layout.settings;
        let mut samplers = vec![Sampler::of(settings, layout.cpus, 0, settings.sampled_in, None)];
        if settings.further.is_empty() {
            return Ok(Self(samplers));
        }
        let maps = maps_of(first)?;
        for (number, event) in (1..).zip(&settings.further) {
            let object = load_further(&Layout { event: number, ..*layout }, event.sampled_in, &maps)?;
            samplers.push(Sampler::of(settings, layout.cpus, number, event.sampled_in, Some(object)));
        }
        Ok(Self(samplers))
    }

    /// The program of an event. `first`: the object of all other programs.
    ///
    /// # Errors
    /// [`Error::Missing`] if the object lacks it, or there is no such event.
    pub(crate) fn with_program<T>(
        &self,
        number: usize,
        first: &Object,
        with: impl FnOnce(BorrowedFd<'_>) -> T,
    ) -> Result<T, Error> {
        let missing = |name| Error::Missing { kind: "program", name };
        let sampler = self.0.get(number).ok_or(missing("of a further event"))?;
        let object = sampler.object.as_ref().unwrap_or(first);
        let program = object.progs().find(|program| program.name() == sampler.program);
        program.map(|program| with(program.as_fd())).ok_or(missing(sampler.program))
    }

    /// The slot in which the program of an event runs on a CPU.
    pub(crate) fn slot(&self, number: usize, cpu: u32) -> u32 {
        self.0.get(number).map_or(u32::MAX, |sampler| sampler.first_slot + cpu)
    }

    /// The objects of further events.
    pub(crate) fn further(&self) -> impl Iterator<Item = &Object> {
        self.0.iter().filter_map(|sampler| sampler.object.as_ref())
    }
}

impl Sampler {
    fn of(
        settings: &Settings,
        cpus: u32,
        number: usize,
        sampled_in: SampledIn,
        object: Option<Object>,
    ) -> Self {
        let first_slot = layout::sampler_slot(settings, cpus, number);
        Self { object, program: object::sampler(sampled_in), first_slot }
    }
}

/// The maps of an object by name, without its settings.
fn maps_of(object: &Object) -> Result<HashMap<String, OwnedFd>, Error> {
    let mut maps = HashMap::new();
    for map in object.maps() {
        let name = map.name().to_string_lossy().into_owned();
        // libbpf has a place for each map of the object, also for one that it does not make.
        if layout::has_settings(&name) || map.info().is_err() {
            continue;
        }
        let kept = map.as_fd().try_clone_to_owned();
        let kept =
            kept.map_err(|source| Error::Map { action: "share", map: "of an event", source: source.into() })?;
        maps.insert(name, kept);
    }
    Ok(maps)
}

/// Loads one more object with the program of an event alone.
fn load_further(
    layout: &Layout<'_>,
    sampled_in: SampledIn,
    maps: &HashMap<String, OwnedFd>,
) -> Result<Object, Error> {
    let mut object = object::open()?;
    layout.apply(&mut object)?;
    for mut program in object.progs_mut() {
        let is_wanted = program.name() == object::sampler(sampled_in);
        program.set_autoload(is_wanted);
    }
    for mut map in object.maps_mut() {
        if let Some(shared) = maps.get(map.name().to_string_lossy().as_ref()) {
            map.reuse_fd(shared.as_fd()).map_err(load_error)?;
        }
    }
    object.load().map_err(load_error)
}
