//! Fixed profiles for tests.

use profile::{Builder, Function, Label, Line, Mapping, Profile, ValueType};

/// A thread with its stacks: from the outermost function to the leaf with `;` between them, and samples of 10 ms. `name@file` is in a file, a
/// name alone is a fact.
pub(crate) struct Thread<'a> {
    pub(crate) comm: &'a str,
    pub(crate) pid: i64,
    pub(crate) tid: i64,
    pub(crate) stacks: &'a [(&'a str, i64)],
}

/// A second of on-CPU time.
pub(crate) fn second(start: i64, threads: &[Thread<'_>]) -> Profile {
    let cpu = ValueType::new("cpu", "nanoseconds");
    let types = [ValueType::new("samples", "count"), cpu.clone()];
    let mut builder = Builder::new(&types, cpu, 10_000_000);
    for thread in threads {
        for (stack, count) in thread.stacks {
            let mut locations = Vec::new();
            for (depth, frame) in (1u64..).zip(stack.split(';')) {
                let Some((name, file)) = frame.split_once('@') else {
                    locations.push(builder.synthetic(frame));
                    continue;
                };
                let path = if file == "kernel" {
                    profile::KERNEL_MAPPING.to_owned()
                } else {
                    format!("/usr/lib/{file}")
                };
                let mapping = builder.mapping(Mapping { filename: path, ..Mapping::default() });
                let function = builder.function(Function { name: name.to_owned(), ..Function::default() });
                let lines =
                    if name.is_empty() { Vec::new() } else { vec![Line { function, line: 0, column: 0 }] };
                locations.push(builder.location(Some(mapping), depth, lines));
            }
            locations.reverse();
            let labels = vec![
                Label::num("pid", thread.pid),
                Label::str("comm", thread.comm),
                Label::num("tid", thread.tid),
                Label::str("thread", thread.comm),
            ];
            builder.add(labels, locations, &[*count, count * 10_000_000]);
        }
    }
    builder.finish(start * 1_000_000_000, 1_000_000_000, Vec::new())
}
