//! What happens when a part of the kernel side is refused: nothing is lost, or it is counted. Without privileges these
//! skip and say so.

use std::mem::offset_of;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use libbpf_rs::libbpf_sys::BPF_F_NO_PREALLOC;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::Kernel;
use crate::abi::skeleton::types;
use crate::memory::{growing_bytes, grows, map_bytes, tables_can_grow};
use crate::object::find_map;
use crate::{Error, KernelMapping, KernelProcess, MappingKind, Message, OffCpu, Settings};

#[path = "../../tests/whole/following/mod.rs"]
mod following;

use following::{following, now_ns};

/// The programs, which record the threads of this process once they are entered.
fn loaded() -> Option<Kernel> {
    following(Duration::ZERO, now_ns())
}

/// Runs `body` with the number of a thread that sleeps meanwhile.
fn beside_a_sleeper(body: impl FnOnce(u32)) {
    let (tell, told) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            // SAFETY: the call takes nothing and cannot fail.
            let _ = tell.send(unsafe { libc::gettid() } as u32);
            let _ = ended.recv();
        });
        let tid = told.recv().expect("it sends its number first");
        let status = format!("/proc/self/task/{tid}/stat");
        testkit::until("it sleeps", || {
            std::fs::read_to_string(&status).is_ok_and(|status| status.contains(") S "))
        });
        body(tid);
        drop(end);
    });
}

#[test]
fn equal_mappings_are_not_written_again() {
    let Some(mut kernel) = loaded() else { return };
    let mapping = |at: u64| KernelMapping {
        start: at << 13,
        end: (at << 13) + 4096,
        bias: 0,
        kind: MappingKind::FramePointers,
    };
    let all: Vec<_> = (1..=1000).map(mapping).collect();
    let mut add = |mappings: &[KernelMapping]| {
        let process = KernelProcess { pid: 4_194_300, exec_id: 1, mappings, waker_only: false };
        kernel.add_process(&process).unwrap();
        let room = kernel.table_room();
        (room.limit_bytes - room.free_bytes, room.soon_free_bytes)
    };
    let once = add(&all);
    assert_eq!(once, (32_000, 0));
    assert_eq!(add(&all), once);
    assert_eq!(add(&all[1..]), (32_000 + 31_968, 32_000));
    assert_eq!(add(&[]), (32_000 + 31_968, 32_000 + 31_968));
}

#[test]
fn tables_for_a_crowd_are_empty_at_the_start_and_no_memory_is_left_out() {
    let Some(kernel) = loaded() else { return };
    let grow = tables_can_grow();
    let mut whole = 0;
    for map in kernel.programs.object().maps() {
        let name = map.name().to_string_lossy().into_owned();
        let kept = MapHandle::try_from(&map).expect("it is there");
        // libbpf has a place for each map of the object, also for one that it does not make.
        let Ok(description) = kept.info() else { continue };
        let full = map_bytes(map.map_type(), map.key_size(), map.value_size(), map.max_entries());
        let told = growing_bytes(&kept);
        // The kernel rounds up to pages, and each map has a head.
        assert!(told <= full + full / 8 + 32768, "{name}: the kernel tells {told}, we {full}");
        assert_eq!(
            description.info.map_flags & BPF_F_NO_PREALLOC != 0,
            grow && grows(&name) || name == "threads",
            "{name}"
        );
        whole += full;
    }
    let now = kernel.memory().fixed_bytes;
    assert!(if grow { now < whole } else { now == whole }, "{now} of {whole}");
}

/// Memory of all loaded maps, as the kernel tells it.
fn told_bytes(kernel: &Kernel) -> usize {
    let kept = kernel.programs.object().maps().filter_map(|map| MapHandle::try_from(&map).ok());
    kept.filter(|map| map.info().is_ok()).map(|map| growing_bytes(&map)).sum()
}

#[test]
fn each_possible_cpu_takes_bounded_memory() {
    if loaded().is_none() {
        return;
    }
    let off_cpu = OffCpu { states: Vec::new(), min_block_ns: 0, wall_clock: false, wakers: true };
    let both = |python| Settings { off_cpu: Some(off_cpu.clone()), python, ..Settings::default() };
    let on = |python| Settings { python, ..Settings::default() };
    for (settings, most_kib) in [(on(false), 64), (on(true), 64), (both(false), 128), (both(true), 128)] {
        let bytes = |cpus| told_bytes(&Kernel::load_for(&settings, cpus).expect("it loads as before"));
        let [few, more, many] = [2, 256, 512].map(bytes);
        // Maps are rounded up to pages.
        let each = (many - more + 8192) / 256;
        assert!(each < most_kib << 10, "{each} bytes with {settings:?}");
        // Pools are full before so many CPUs.
        assert!((many - few) / 512 < (most_kib + 8) << 10, "{few} {more} {many} with {settings:?}");
    }
}

#[test]
fn the_cut_after_one_that_failed_has_the_time_before_both() {
    // The thread is there before the programs.
    beside_a_sleeper(|tid| {
        let Some(mut kernel) = loaded() else { return };
        let begin_ns = now_ns();
        let asleep = kernel.enter_threads(begin_ns).expect("the iterator runs");
        let key = asleep.iter().find_map(|message| match message {
            Message::Raw(raw) if raw.stack.tid == tid => Some(raw.stack.hash),
            _ => None,
        });
        assert!(key.is_some(), "{asleep:?}");
        let refuse = || Err(Error::Missing { kind: "pass", name: "of the test" });
        for _ in 0..2 {
            thread::sleep(Duration::from_millis(10));
            let Kernel { sides, pool, .. } = &mut kernel;
            assert!(sides.cut(pool, Some(refuse), |_, _| ()).is_err());
        }
        thread::sleep(Duration::from_millis(10));
        let cut = kernel.cut(|_, _| ()).expect("the iterator runs");
        let of_sleeper = cut.open.iter().filter(|open| Some(open.key) == key);
        assert_eq!(of_sleeper.map(|open| open.value).sum::<u64>(), cut.at_ns - begin_ns);
    });
}

#[test]
fn threads_are_counted_as_lost_while_all_slots_are_claimed() {
    beside_a_sleeper(|_| {
        let Some(mut kernel) = loaded() else { return };
        let states = find_map(kernel.programs.object(), "sampler_states").expect("it is in the object");
        // The slots that can be claimed are the last ones.
        let slot = (states.max_entries() - 1).to_ne_bytes();
        let claim = |claims: u64| {
            let state = states.lookup(&slot, MapFlags::ANY).expect("it can be read");
            let mut state = state.expect("there is such a slot");
            state[offset_of!(types::sampler_state, claims)..][..8].copy_from_slice(&claims.to_ne_bytes());
            states.update(&slot, &state, MapFlags::ANY).expect("it can be written");
        };
        claim(1);
        let asleep = kernel.enter_threads(now_ns()).expect("the iterator runs");
        assert!(asleep.is_empty());
        assert!(kernel.off_cpu_counters().threads_lost >= 1);
        kernel.cut(|_, _| ()).expect("the iterator runs");
        // What is lost at a seam is counted after it.
        assert!(kernel.off_cpu_counters().seams_lost >= 1);
        claim(0);
        let cut = kernel.cut(|_, _| ()).expect("the iterator runs");
        assert!(!cut.open.is_empty() && cut.off_cpu.seams_lost >= 1, "{cut:?}");
        claim(1);
        kernel.leave_threads(now_ns()).expect("the iterator runs");
        assert!(kernel.off_cpu_counters().lost_busy >= 1);
    });
}
