//! The kernel's verifier accepts the programs with each setting: it skips what a setting turns off. Without privileges these skip and say
//! so.

use std::time::Duration;

use kernel::{Error, FurtherEvent, Kernel, OffCpu, SampledIn, SchedStats, Settings, State};

/// The name of a setting, and how it is set.
type Change = (&'static str, fn(&mut Settings));

fn off_cpu(wakers: bool) -> Option<OffCpu> {
    let states = vec![State::Blocked, State::IoWait, State::Preempted];
    Some(OffCpu { states, min_block_ns: 0, wall_clock: true, wakers })
}

#[test]
fn the_programs_load_with_each_setting_and_with_all() {
    let _alone = crate::alone();
    if let Err(reason) = testkit::has_btf() {
        testkit::skip!("{reason}");
    }
    let stats = Some(SchedStats { each_process: true, split_events: 8 });
    let changes: [Change; 17] = [
        ("python", |settings| settings.python = true),
        ("whole system", |settings| settings.whole_system = true),
        ("kernel stacks", |settings| settings.kernel_stacks = true),
        ("kernel stacks by process", |settings| settings.kernel_stacks_by_process = true),
        ("single samples", |settings| settings.single_samples = true),
        ("single intervals", |settings| settings.single_intervals = Some(Duration::from_millis(1))),
        ("threads", |settings| settings.per_thread = true),
        ("checks", |settings| settings.check_memo = true),
        ("namespace", |settings| settings.pid_namespace = 1),
        ("events of threads", |settings| settings.sampled_in = SampledIn::Task),
        ("events of the hardware", |settings| settings.sampled_in = SampledIn::Hardware),
        ("tracepoints", |settings| {
            settings.sampled_in = SampledIn::Tracepoint;
            settings.sample_every = 10;
        }),
        ("probes of programs", |settings| settings.sampled_in = SampledIn::Program),
        ("returns of programs", |settings| settings.sampled_in = SampledIn::Return),
        ("probes of functions of the kernel", |settings| settings.sampled_in = SampledIn::Function),
        ("further events", |settings| {
            let each = [
                SampledIn::Task,
                SampledIn::Timer,
                SampledIn::Tracepoint,
                SampledIn::Program,
                SampledIn::Function,
            ];
            let further = |sampled_in| FurtherEvent { sampled_in, sample_every: 3, value: None };
            settings.further = each.map(further).to_vec();
        }),
        ("wakers", |settings| settings.off_cpu = off_cpu(true)),
    ];
    let with = |change: &dyn Fn(&mut Settings)| {
        let mut settings = Settings { off_cpu: off_cpu(false), ..Settings::default() };
        change(&mut settings);
        settings
    };
    let mut each: Vec<_> = changes.map(|(name, change)| (name, with(&change))).into();
    each.push((
        "all",
        with(&|all| {
            all.sched_stats = stats;
            changes.iter().for_each(|(_, change)| change(all));
        }),
    ));
    if matches!(Kernel::load(&Settings::default()), Err(Error::Privilege { .. })) {
        testkit::skip!("no privileges");
    }
    let load = |(name, settings): &(&str, Settings)| {
        drop(Kernel::load(settings).unwrap_or_else(|error| panic!("{name}: {error:?}")));
    };
    // The verifier takes a second for each on one CPU.
    std::thread::scope(|scope| {
        for half in each.chunks(each.len().div_ceil(2)) {
            scope.spawn(move || half.iter().for_each(load));
        }
    });
}
