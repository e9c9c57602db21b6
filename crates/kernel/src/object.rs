//! The object with all programs and maps: its bytes, which of its programs are loaded, and how they and its maps are found by name.

#[cfg(test)]
mod stack_depth;

use libbpf_rs::{Link, MapCore, MapHandle, Object, ObjectBuilder, OpenObject};

use crate::error::load_error;
use crate::go_locks::GoProgram;
use crate::heap::HeapProgram;
use crate::memory::{self, MapMemory, map_bytes};
use crate::settings::SampledIn;
use crate::{Error, Settings, thread_iter};

/// The object that build.rs compiled, aligned because libelf reads it in place.
pub(crate) static OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/perf_agent.bpf.o")));

#[repr(C, align(8))]
pub(crate) struct Aligned<T: ?Sized>(pub(crate) T);

/// The object before it is loaded.
///
/// # Errors
/// [`Error::Load`].
pub(crate) fn open() -> Result<OpenObject, Error> {
    let mut builder = ObjectBuilder::default();
    builder.name("perf_agent").and_then(|named| named.open_memory(&OBJECT.0)).map_err(load_error)
}

/// Programs that follow process life.
pub(crate) const FOLLOWERS: [&str; 4] = ["process_fork", "process_exec", "process_renamed", "process_exit"];

/// The program of the sampling events.
pub(crate) fn sampler(sampled_in: SampledIn) -> &'static str {
    match sampled_in {
        SampledIn::Timer => "cpu_sample",
        SampledIn::Task => "task_sample",
        SampledIn::Hardware => "nmi_sample",
        SampledIn::Tracepoint => "tracepoint_sample",
        SampledIn::Program => "probe_sample",
        SampledIn::Return => "probe_return_sample",
        SampledIn::Function => "kprobe_sample",
        SampledIn::Allocator => HeapProgram::Sized.name(),
    }
}

/// The memory of all maps but the table pool's chunks. `growing`: the tables that can grow do.
pub(crate) fn map_memory(object: &Object, growing: bool) -> Result<MapMemory, Error> {
    let mut fixed = 0;
    let mut tables = Vec::new();
    for map in object.maps() {
        let kept = MapHandle::try_from(&map);
        let kept = kept.map_err(|source| Error::Map { action: "keep", map: "of a table", source })?;
        // libbpf has a place for each map of the object, also for one that it does not make.
        if kept.info().is_err() {
            continue;
        }
        if growing && memory::grows(&map.name().to_string_lossy()) {
            tables.push(kept);
        } else {
            fixed += map_bytes(map.map_type(), map.key_size(), map.value_size(), map.max_entries());
        }
    }
    Ok(MapMemory::new(fixed, tables))
}

/// A map of the loaded object by name.
pub(crate) fn find_map(object: &Object, name: &'static str) -> Result<MapHandle, Error> {
    let missing = Error::Missing { kind: "map", name };
    let map = object.maps().find(|map| map.name() == name);
    MapHandle::try_from(&map.ok_or(missing)?).map_err(|source| Error::Map {
        action: "keep",
        map: name,
        source,
    })
}

/// Attaches programs by name.
pub(crate) fn attach(object: &mut Object, names: &[&str]) -> Result<Vec<Link>, Error> {
    let mut links = Vec::new();
    for program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        if names.contains(&name.as_str()) {
            links.push(program.attach().map_err(|source| Error::Attach { program: name, source })?);
        }
    }
    Ok(links)
}

/// Selects the programs to load: those that the settings need.
pub(crate) fn choose_programs(object: &mut OpenObject, settings: &Settings) {
    let mut wanted = thread_iter::programs(settings);
    if settings.follows_threads() {
        wanted.extend(thread_iter::follows_exits(settings).then_some(thread_iter::EXITS));
        wanted.extend([thread_iter::BEGIN, thread_iter::STILL_ASLEEP, thread_iter::SEAM, thread_iter::END]);
    }
    wanted.extend(FOLLOWERS);
    if settings.go_locks {
        wanted.extend(GoProgram::ALL.map(GoProgram::name));
    }
    match settings.sampled_in {
        SampledIn::Allocator => wanted.extend(HeapProgram::ALL.map(HeapProgram::name)),
        sampled_in => wanted.push(sampler(sampled_in)),
    }
    for mut program in object.progs_mut() {
        let is_wanted = wanted.iter().any(|name| program.name() == *name);
        program.set_autoload(is_wanted);
    }
}
