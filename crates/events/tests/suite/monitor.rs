//! The stream of events: order, losses, filters, sources, and what is left at the end.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use events::monitor::{
    Body, EventId, EventMonitor, EventRequest, MonitorBuilder, MonitorError, Source, Tracefs, parse_event,
};
use perf_abi::{EventAttr, RecordBody};
use testkit::until;
use tracepoints::Value;

use crate::permitted::permitted;

fn own_pid() -> u32 {
    std::process::id()
}

/// Calls a system call so many times that nothing else of this process calls.
fn call(times: u64) {
    for _ in 0..times {
        let _ = rustix::process::getpgid(None);
    }
}

/// A filter on the system call of [`call`].
fn getpgid() -> String {
    format!("id == {} && common_pid == {}", linux_raw(), rustix::thread::gettid().as_raw_nonzero())
}

/// The number of the system call.
fn linux_raw() -> u64 {
    if cfg!(target_arch = "x86_64") { 121 } else { 155 }
}

type Runner = std::thread::JoinHandle<Result<(), MonitorError>>;

/// Runs on a thread until it is told to stop, and counts items of each event.
fn run(monitor: &EventMonitor) -> (Runner, Arc<Mutex<HashMap<EventId, u64>>>) {
    let counts = Arc::new(Mutex::new(HashMap::new()));
    let shared = Arc::clone(&counts);
    let thread = monitor.spawn(move |item| {
        if let (Some(id), Body::Event(_)) = (item.event, &item.body) {
            *shared.lock().unwrap().entry(id).or_insert(0) += 1;
        }
    });
    let thread = thread.unwrap();
    (thread, counts)
}

/// Minor faults of this thread so far.
fn minor_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields = stat.rsplit_once(") ").unwrap().1;
    fields.split(' ').nth(7).unwrap().parse().unwrap()
}

fn begun(monitor: &EventMonitor) {
    until("the monitor runs", || monitor.is_running());
}

#[test]
fn every_format_of_this_kernel_is_understood() {
    let tracefs = permitted!(Tracefs::find(None));
    let names = permitted!(tracefs.names());
    assert!(names.len() > 100, "{}", names.len());
    let mut unknown = 0;
    for name in &names {
        let format = match tracefs.format(name) {
            // A probe of another program, which is gone by now.
            Err(_) if !tracefs.root().join("events").join(name.replace(':', "/")).exists() => continue,
            format => format.unwrap(),
        };
        assert!(format.id > 0 && format.fields.len() >= 4, "{name}");
        let record = vec![0; 1 << 12];
        for field in &format.fields {
            assert!(field.value(&record).is_some(), "{name}: {}", field.name);
            unknown += usize::from(field.kind == tracepoints::FieldKind::Bytes);
        }
    }
    println!("{} formats; {unknown} fields are only bytes", names.len());
    assert!(unknown * 20 < names.len(), "{unknown} fields of {} tracepoints are only bytes", names.len());
    let error = tracefs.format("sched:sched_swich").unwrap_err().to_string();
    assert!(error.contains("sched/sched_swich"), "{error}");
}

#[test]
fn delivered_and_lost_are_what_happened_with_one_page_and_a_slow_reader() {
    let monitor = permitted!(MonitorBuilder::default().source(Source::Pid(own_pid())).ring_pages(1).build());
    let filter = getpgid();
    let event =
        permitted!(monitor.register(EventRequest::tracepoint("raw_syscalls:sys_enter").filter(&filter)));
    let format = Tracefs::find(None).unwrap().format("raw_syscalls:sys_enter").unwrap();
    let counter = independent_counter(format.id, &filter);
    let delivered = Arc::new(AtomicU64::new(0));
    let lost = Arc::new(AtomicU64::new(0));
    let (seen, missed) = (Arc::clone(&delivered), Arc::clone(&lost));
    let thread = monitor.spawn(move |item| match item.body {
        Body::Event(_) if seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(50) => {
            std::thread::sleep(Duration::from_millis(1));
        }
        Body::Lost(count) if item.event.is_some() => {
            missed.fetch_add(count, Ordering::Relaxed);
        }
        _ => {}
    });
    let thread = thread.unwrap();
    begun(&monitor);
    until("the first one is seen", || {
        call(1);
        delivered.load(Ordering::Relaxed) > 0
    });
    call(50_000);
    let happened = sys::perf::read_count(counter.as_fd()).unwrap().value;
    monitor.stop(true).unwrap();
    thread.join().unwrap().unwrap();
    let (delivered, lost) = (delivered.load(Ordering::Relaxed), lost.load(Ordering::Relaxed));
    assert!(lost > 0, "a ring of one page is full soon");
    // Occurrences before the monitor ran are only in the counter.
    assert!(
        delivered + lost <= happened && delivered + lost >= 50_001,
        "{delivered} + {lost}, {happened} happened"
    );
    let stats = monitor.stats().of(Some(event));
    assert_eq!((stats.delivered, stats.lost), (delivered, lost));
    assert_eq!((monitor.stats().corrupt_bytes, monitor.stats().unknown_id), (0, 0));
}

/// Counts a tracepoint for this thread without a ring.
fn independent_counter(id: u64, filter: &str) -> std::os::fd::OwnedFd {
    let attr = sys::perf::Attr {
        kind: 2,
        config: id,
        read_format: sys::perf::FORMAT_TOTAL_TIME_ENABLED | sys::perf::FORMAT_TOTAL_TIME_RUNNING,
        ..sys::perf::Attr::default()
    };
    let fd = sys::perf::open(&attr, 0, -1, None).unwrap();
    sys::perf::set_filter(fd.as_fd(), &std::ffi::CString::new(filter).unwrap()).unwrap();
    fd
}

#[test]
fn items_come_in_order_of_time() {
    let monitor = permitted!(MonitorBuilder::default().ring_pages(512).build());
    permitted!(monitor.register(EventRequest::tracepoint("sched:sched_switch")));
    permitted!(monitor.register(EventRequest::tracepoint("raw_syscalls:sys_enter")));
    let (mut last, mut inversions, mut switches, mut crossings, mut last_cpu) = (0, 0, 0u32, 0, None);
    let stopper = monitor.clone();
    monitor
        .run(|item| {
            let meta = item.meta;
            if let Body::Event(fields) = &item.body {
                inversions += u32::from(meta.time_ns < last && !meta.late);
                last = last.max(meta.time_ns);
                crossings += u32::from(last_cpu.replace(meta.cpu).is_some_and(|cpu| cpu != meta.cpu));
                switches += u32::from(fields.get("next_pid").is_some());
            }
            call(1);
            if switches == 1000 {
                stopper.stop(false).unwrap();
            }
        })
        .unwrap();
    assert!(switches >= 1000);
    assert!(monitor.cpus().len() == 1 || crossings > 10, "items of all CPUs: {crossings}");
    assert_eq!(inversions, 0);
}

#[test]
fn filters_are_set_replaced_and_removed_while_it_runs() {
    let monitor = permitted!(
        MonitorBuilder::default()
            .source(Source::Tid(rustix::thread::gettid().as_raw_nonzero().get() as u32))
            .build()
    );
    let request = || EventRequest::tracepoint("raw_syscalls:sys_enter");
    let one = permitted!(monitor.register(request().filter("id == 99999")));
    let two = permitted!(monitor.register(request().filter(&getpgid())));
    assert_eq!((one, two), (EventId(1), EventId(2)));
    let (thread, counts) = run(&monitor);
    begun(&monitor);
    let count = |id| counts.lock().unwrap().get(&id).copied().unwrap_or(0);
    call(100);
    until("the second one passes", || count(two) == 100);
    assert_eq!(count(one), 0);
    monitor.set_filter(one, &getpgid()).unwrap();
    call(100);
    until("the new filter passes", || count(one) == 100 && count(two) == 200);
    let refused = monitor.set_filter(one, "no_such_field == 1");
    assert!(matches!(refused, Err(MonitorError::Filter { .. })), "{refused:?}");
    assert!(matches!(monitor.set_filter(one, &"x".repeat(5000)), Err(MonitorError::Filter { .. })));
    call(100);
    until("the old filter stays", || count(one) == 200 && count(two) == 300);
    monitor.disable(two).unwrap();
    call(100);
    until("the first one goes on", || count(one) == 300);
    monitor.enable(two).unwrap();
    monitor.set_filter(one, "").unwrap();
    call(100);
    until("without a filter more is seen", || count(one) >= 400 && count(two) == 400);
    monitor.unregister(two).unwrap();
    assert!(matches!(monitor.unregister(two), Err(MonitorError::NotRegistered(EventId(2)))));
    call(100);
    monitor.stop(true).unwrap();
    thread.join().unwrap().unwrap();
    assert_eq!(count(two), 400);
    let three = monitor.register(request()).unwrap();
    assert_eq!(three, EventId(3), "numbers are not used again");
}

#[test]
fn a_change_of_filters_neither_loses_nor_repeats() {
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let monitor = permitted!(MonitorBuilder::default().source(Source::Tid(tid)).ring_pages(256).build());
    let event =
        permitted!(monitor.register(EventRequest::tracepoint("raw_syscalls:sys_enter").filter(&getpgid())));
    let (thread, counts) = run(&monitor);
    begun(&monitor);
    let (changer, filter) = (monitor.clone(), getpgid());
    let changes =
        std::thread::spawn(move || (0..10).for_each(|_| changer.set_filter(event, &filter).unwrap()));
    let mut calls = 0;
    while !changes.is_finished() {
        call(100);
        calls += 100;
    }
    changes.join().unwrap();
    monitor.stop(true).unwrap();
    thread.join().unwrap().unwrap();
    let lost = monitor.stats().of(Some(event)).lost;
    let seen = counts.lock().unwrap().get(&event).copied().unwrap_or(0);
    assert_eq!(seen + lost, calls);
}

#[test]
fn everything_may_be_called_from_inside_of_the_callback() {
    let monitor = permitted!(MonitorBuilder::default().source(Source::Pid(own_pid())).build());
    let request =
        || EventRequest::tracepoint("raw_syscalls:sys_enter").filter(&format!("id == {}", linux_raw()));
    let first = permitted!(monitor.register(request()));
    let done = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&done);
    let caller = std::thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            call(1);
            std::thread::yield_now();
        }
    });
    let inner = monitor.clone();
    let (mut of_first, mut of_second) = (0, 0);
    let result = monitor.run(|item| {
        let Body::Event(_) = item.body else { return };
        if item.event == Some(first) {
            of_first += 1;
            inner.unregister(first).unwrap();
            inner.register(request()).unwrap();
        } else {
            of_second += 1;
            assert!(matches!(inner.stop(true), Err(MonitorError::WouldDeadlock)));
            assert!(matches!(inner.run(|_| {}), Err(MonitorError::AlreadyRunning)));
        }
    });
    done.store(true, Ordering::Relaxed);
    caller.join().unwrap();
    result.unwrap();
    assert_eq!((of_first, of_second > 0), (1, true));
}

#[test]
fn nothing_is_left_of_monitors_that_were_closed() {
    let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    let maps =
        || std::fs::read_to_string("/proc/self/maps").unwrap().matches("anon_inode:[perf_event]").count();
    let cycle = || -> Result<(), MonitorError> {
        let monitor = MonitorBuilder::default().source(Source::Tid(1)).ring_pages(1).build()?;
        monitor.register(EventRequest::tracepoint("sched:sched_switch"))?;
        monitor.close(true)?;
        monitor.close(true)?;
        assert!(matches!(monitor.run(|_| {}), Err(MonitorError::Closed)));
        assert!(matches!(
            monitor.register(EventRequest::tracepoint("sched:sched_switch")),
            Err(MonitorError::Closed)
        ));
        Ok(())
    };
    permitted!(cycle());
    // Other tests of this process open descriptors too; a leak would add several in each cycle.
    let before = (count("/proc/self/fd"), maps());
    (0..100).for_each(|_| cycle().unwrap());
    let after = (count("/proc/self/fd"), maps());
    assert!(after.0 < before.0 + 100 && after.1 < before.1 + 50, "{before:?} {after:?}");
}

#[test]
fn a_process_is_followed_with_its_children_to_its_end() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "read line; /bin/true; /bin/true"]).stdin(std::process::Stdio::piped());
    let mut shell = testkit::Process::start(&mut shell).unwrap();
    let pid = shell.id();
    let monitor = permitted!(MonitorBuilder::default().source(Source::Pid(pid)).build());
    permitted!(monitor.register(EventRequest::tracepoint("sched:sched_process_exec")));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (copy, programs) = (Arc::clone(&seen), Arc::new(AtomicU64::new(0)));
    let execs = Arc::clone(&programs);
    let thread = monitor.spawn(move |item| match &item.body {
        Body::Event(fields) => {
            let Some(Value::Text { text, .. }) = fields.get("filename") else { panic!("no file name") };
            assert_eq!(text, b"/bin/true");
            execs.fetch_add(1, Ordering::Relaxed);
        }
        Body::Record(RecordBody::Fork(task)) => copy.lock().unwrap().push(format!("fork of {}", task.ppid)),
        Body::Record(RecordBody::Comm { comm, exec: true, .. }) => {
            copy.lock().unwrap().push(format!("exec {}", String::from_utf8_lossy(comm)));
        }
        Body::Record(RecordBody::Exit(task)) => {
            copy.lock().unwrap().push(format!("exit of child of {}", task.ppid))
        }
        _ => {}
    });
    let thread = thread.unwrap();
    begun(&monitor);
    drop(shell.stdin.take());
    shell.wait().unwrap();
    // The run ends by itself.
    thread.join().unwrap().unwrap();
    let seen = seen.lock().unwrap();
    let count = |text: &str| seen.iter().filter(|one| *one == text).count();
    assert_eq!(programs.load(Ordering::Relaxed), 2, "{seen:?}");
    assert_eq!(count("exec true"), 2, "{seen:?}");
    // Some shells replace themselves by the last command.
    assert!(
        count(&format!("fork of {pid}")) >= 1 && count(&format!("exit of child of {pid}")) >= 1,
        "{seen:?}"
    );
}

#[test]
fn missing_sources_are_told_apart() {
    let build = |source| MonitorBuilder::default().source(source).build().map(|_| ());
    let missing = build(Source::Pid(4_194_304));
    assert!(matches!(missing, Err(MonitorError::NoSuchProcess { what: "process", .. })), "{missing:?}");
    assert!(matches!(build(Source::Tid(4_194_304)), Err(MonitorError::NoSuchProcess { what: "thread", .. })));
    let gone = build(Source::Cgroup("/no/such/group".to_owned()));
    assert!(matches!(gone, Err(MonitorError::CgroupNotFound { .. })), "{gone:?}");
    let root =
        MonitorBuilder::default().source(Source::Cgroup("x".to_owned())).perf_event_dir("/nowhere").build();
    assert!(matches!(root, Err(MonitorError::CgroupRoot { .. })));
    let folder = tempfile::tempdir().unwrap();
    let plain = build(Source::Cgroup(folder.path().display().to_string()));
    match plain {
        Err(error) if error.is_permission() => testkit::skip!("{error}"),
        plain => assert!(matches!(plain, Err(MonitorError::NotACgroup { .. })), "{plain:?}"),
    }
}

#[test]
fn attributes_are_checked_before_anything_is_opened() {
    let monitor = permitted!(MonitorBuilder::default().source(Source::Tid(1)).build());
    let attr = EventAttr { sample_freq: 5, freq: true, ..EventAttr::tracepoint(0) };
    let refused = monitor.register(EventRequest::tracepoint("sched:sched_switch").attr(attr.clone()));
    assert!(
        matches!(refused, Err(MonitorError::InvalidAttr(_) | MonitorError::Tracefs { .. })),
        "{refused:?}"
    );
    assert!(matches!(
        MonitorBuilder::default().default_attr(attr).build(),
        Err(MonitorError::InvalidAttr(_))
    ));
    let unknown = monitor.register(EventRequest::tracepoint("sched:no_such_event"));
    assert!(matches!(unknown, Err(MonitorError::UnknownTracepoint { .. } | MonitorError::Tracefs { .. })));
}

#[test]
fn software_events_have_a_period() {
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let monitor = permitted!(MonitorBuilder::default().source(Source::Tid(tid)).build());
    let tenth = permitted!(monitor.register(parse_event("minor-faults period=10").unwrap()));
    let again = monitor.register(parse_event("minor-faults").unwrap());
    assert!(matches!(again, Err(MonitorError::Repeated { .. })), "{again:?}");
    // Its pages are released and touched again; memory that the allocator gives may have its pages already.
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![1; 4 << 20]).unwrap();
    let map = sys::filemap::FileMap::new(&file).unwrap();
    let (thread, _) = run(&monitor);
    begun(&monitor);
    let before = minor_faults();
    while minor_faults() - before < 1000 {
        assert!(map.iter().step_by(4096).all(|byte| *byte == 1));
        map.release();
    }
    let happened = minor_faults() - before;
    monitor.stop(true).unwrap();
    thread.join().unwrap().unwrap();
    let tenth = monitor.stats().of(Some(tenth));
    let ratio = happened as f64 / (tenth.delivered + tenth.lost) as f64;
    assert!((8.0..12.0).contains(&ratio), "{happened}: {tenth:?}");
}

#[test]
fn a_decoder_makes_values_or_errors() {
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let monitor = permitted!(MonitorBuilder::default().source(Source::Tid(tid)).build());
    let mut number = 0u64;
    let decoder = move |fields: &events::monitor::Fields<'_>| {
        number += 1;
        let id = fields.get("id").and_then(|value| value.as_u64()).ok_or("no id")?;
        if number.is_multiple_of(2) {
            Err("every second".into())
        } else {
            Ok(Box::new(id) as events::monitor::Decoded)
        }
    };
    let request =
        EventRequest::tracepoint("raw_syscalls:sys_enter").filter(&getpgid()).decoder(Box::new(decoder));
    let event = permitted!(monitor.register(request));
    let results = Arc::new(Mutex::new(Vec::new()));
    let copy = Arc::clone(&results);
    let thread = monitor.spawn(move |item| {
        if let Body::Decoded(result) = &item.body {
            copy.lock()
                .unwrap()
                .push(result.as_ref().ok().and_then(|value| value.downcast_ref::<u64>().copied()));
        }
    });
    let thread = thread.unwrap();
    begun(&monitor);
    call(4);
    monitor.stop(true).unwrap();
    thread.join().unwrap().unwrap();
    let expected = Some(linux_raw());
    assert_eq!(*results.lock().unwrap(), [expected, None, expected, None]);
    assert_eq!(monitor.stats().of(Some(event)).decode_errors, 2);
}
