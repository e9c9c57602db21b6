//! Rings that keep the newest records.
#![allow(clippy::unwrap_used)]

use events::flight_recorder::FlightRecorder;
use events::monitor::{MonitorError, RecordBody, Tracefs};
use perf_abi::EventAttr;

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Makes so many system calls.
fn call(times: u64) {
    for _ in 0..times {
        let _ = rustix::process::getpgid(None);
    }
}

#[test]
fn what_happened_last_is_there() {
    let format = match Tracefs::find(None).and_then(|tracefs| tracefs.format("raw_syscalls:sys_enter")) {
        Ok(format) => format,
        Err(error) => testkit::skip!("{error}"),
    };
    let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let recorder = match FlightRecorder::open(&EventAttr::tracepoint(format.id), Some(tid), 2) {
        Err(error) if error.is_permission() => testkit::skip!("{error}"),
        opened => opened.unwrap(),
    };
    call(50_000);
    let before_ns = now_ns();
    call(1000);
    recorder.switch(false).unwrap();
    call(1000);
    let after_ns = now_ns();
    let getpgid: i64 = if cfg!(target_arch = "x86_64") { 121 } else { 155 };
    let (mut times, mut calls) = (Vec::new(), 0u64);
    let malformed = recorder.snapshot(|recorded| {
        let RecordBody::Sample(sample) = &recorded.record.body else { return };
        assert_eq!(sample.id.tid, Some(tid));
        times.push(recorded.time_ns);
        let id =
            sample.raw.and_then(|raw| raw.get(8..16)).map(|id| i64::from_ne_bytes(id.try_into().unwrap()));
        calls += u64::from(id == Some(getpgid));
    });
    assert_eq!(malformed.unwrap(), 0);
    // A record has about 130 bytes; the thread may have been on another CPU before.
    assert!(calls > 40, "{calls} of {}", times.len());
    assert!(times.is_sorted());
    let newest = times.iter().filter(|time| (before_ns..after_ns).contains(time)).count();
    assert!(newest > 40, "{newest} of {} are of the last calls", times.len());
    let mut again = 0;
    recorder.snapshot(|_| again += 1).unwrap();
    assert!(again >= times.len(), "a snapshot takes nothing away");
    let gone = FlightRecorder::open(&EventAttr::tracepoint(format.id), Some(0x3f_ffff), 2);
    assert!(matches!(gone, Err(MonitorError::NoSuchProcess { .. })), "{gone:?}");
    assert!(FlightRecorder::open(&EventAttr::tracepoint(format.id), None, 3).is_ok(), "it has 4 pages");
}
