//! The loaded programs: those of the object, and those of further sampled events. They are attached by name, or handed out to be attached to
//! events and functions; the kernel's counts of their runs are read here.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object};

use crate::counters::Skipped;
use crate::error::load_error;
use crate::layout::Layout;
use crate::memory::{MapMemory, tables_can_grow};
use crate::runs::{Runs, runs};
use crate::samplers::Samplers;
use crate::{Error, Settings, object};

/// The loaded programs. Nothing is attached at first.
pub(crate) struct Programs {
    object: Object,
    /// Links of programs that stay attached.
    links: Vec<Link>,
    samplers: Samplers,
    /// The tables that can grow do.
    growing: bool,
}

impl Programs {
    /// Loads the programs that the settings need, for a machine with so many possible CPUs. `chunks`: those of the table pool.
    ///
    /// # Errors
    /// [`Error::Load`], [`Error::Missing`]; [`Error::Map`] if a thread that is to be sampled cannot be entered.
    pub(crate) fn load(settings: &Settings, cpus: u32, chunks: u32) -> Result<Self, Error> {
        let growing = tables_can_grow();
        let layout = |task_storage| Layout { settings, chunks, cpus, task_storage, growing, event: 0 };
        if !settings.follows_threads() {
            return Self::load_with(&layout(false));
        }
        match Self::load_with(&layout(true)) {
            // Before Linux 5.12 these programs cannot use task storage.
            Err(Error::Load { .. } | Error::Map { .. }) => Self::load_with(&layout(false)),
            loaded => loaded,
        }
    }

    fn load_with(layout: &Layout<'_>) -> Result<Self, Error> {
        let mut object = object::open()?;
        layout.apply(&mut object)?;
        object::choose_programs(&mut object, layout.settings);
        let object = object.load().map_err(load_error)?;
        let samplers = Samplers::load(&object, layout)?;
        choose_threads(&object, &layout.settings.tids)?;
        Ok(Self { object, links: Vec::new(), samplers, growing: layout.growing })
    }

    /// A map of the programs by name.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Map`].
    pub(crate) fn map(&self, name: &'static str) -> Result<MapHandle, Error> {
        object::find_map(&self.object, name)
    }

    /// The memory of all maps but the table pool's chunks.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub(crate) fn map_memory(&self) -> Result<MapMemory, Error> {
        object::map_memory(&self.object, self.growing)
    }

    /// The object with all maps.
    #[cfg(test)]
    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    /// The object, to attach programs that do not stay attached.
    pub(crate) fn object_mut(&mut self) -> &mut Object {
        &mut self.object
    }

    /// Attaches the programs that follow process life until the end.
    ///
    /// # Errors
    /// [`Error::Attach`].
    pub(crate) fn follow_processes(&mut self) -> Result<(), Error> {
        self.links.extend(object::attach(&mut self.object, &object::FOLLOWERS)?);
        Ok(())
    }

    /// A program of the object.
    ///
    /// # Errors
    /// [`Error::Missing`] if the object lacks it.
    pub(crate) fn with<T>(
        &self,
        name: &'static str,
        attach: impl FnOnce(BorrowedFd<'_>) -> T,
    ) -> Result<T, Error> {
        let program = self.object.progs().find(|program| program.name() == name);
        program.map(|program| attach(program.as_fd())).ok_or(Error::Missing { kind: "program", name })
    }

    /// The program of a sampled event.
    ///
    /// # Errors
    /// [`Error::Missing`] if the object lacks it, or there is no such event.
    pub(crate) fn with_sampler<T>(
        &self,
        event: usize,
        attach: impl FnOnce(BorrowedFd<'_>) -> T,
    ) -> Result<T, Error> {
        self.samplers.with_program(event, &self.object, attach)
    }

    /// The slot in which the program of a sampled event runs on a CPU.
    pub(crate) fn sampler_slot(&self, event: usize, cpu: u32) -> u32 {
        self.samplers.slot(event, cpu)
    }

    /// Runs of the program of a sampled event that the kernel has skipped so far; 0 where it does not tell.
    pub(crate) fn sampler_skipped(&self, event: usize) -> u64 {
        let skipped = self.with_sampler(event, |program| runs(program).map(|runs| runs.skipped));
        skipped.ok().flatten().unwrap_or(0)
    }

    /// Runs of programs that follow threads that the kernel has skipped so far.
    pub(crate) fn skipped(&self) -> Skipped {
        let mut skipped = Skipped::default();
        self.runs().for_each(|(program, runs)| skipped.note(&program, runs.skipped));
        skipped
    }

    /// Run time of each program in ns, if the kernel counts it.
    pub(crate) fn run_times_ns(&self) -> Option<BTreeMap<String, u64>> {
        let mut times = BTreeMap::new();
        self.runs().for_each(|(name, runs)| *times.entry(name).or_default() += runs.time_ns);
        times.values().any(|time| *time > 0).then_some(times)
    }

    /// The kernel's counts for each loaded program, by name. Programs of several events may have one.
    fn runs(&self) -> impl Iterator<Item = (String, Runs)> {
        let objects = std::iter::once(&self.object).chain(self.samplers.further());
        let loaded = objects.flat_map(|object| object.progs().filter(|program| program.autoload()));
        loaded.filter_map(|program| {
            Some((program.name().to_string_lossy().into_owned(), runs(program.as_fd())?))
        })
    }
}

/// Enters the threads that are sampled, if the settings name them.
fn choose_threads(object: &Object, tids: &[u32]) -> Result<(), Error> {
    let chosen = object::find_map(object, "chosen_threads")?;
    tids.iter().try_for_each(|tid| {
        chosen.update(&tid.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY).map_err(|source| Error::Map {
            action: "enter a thread into",
            map: "chosen_threads",
            source,
        })
    })
}
