//! The writers against goldens, their own reader and `go tool pprof`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod difference;
mod difference_page;
mod flamegraph;
mod folded;
mod html;
mod pprof;
mod registry;
mod report_page;

use profile::{Builder, FileOffset, Function, Label, Line, Mapping, Profile, Svma, ValueType};

/// Two processes, an inlined chain of three functions, an unnamed location, kernel code and a truncated stack.
fn example() -> Profile {
    let cpu = ValueType::new("cpu", "nanoseconds");
    let mut b = Builder::new(&[ValueType::new("samples", "count"), cpu.clone()], cpu, 10_101_010);
    let app = b.mapping(Mapping {
        start: Svma(0x1000),
        limit: Svma(0x9000),
        file_offset: FileOffset(0x1000),
        filename: "/opt/my app/bin".into(),
        build_id: Some("00ffa0b1".parse().unwrap()),
    });
    let kernel = b.mapping(Mapping {
        filename: "[kernel.kallsyms]".into(),
        limit: Svma(u64::MAX),
        ..Mapping::default()
    });
    let lib = b.mapping(Mapping {
        start: Svma(0),
        limit: Svma(0x1000),
        filename: "/lib/libz.so.1".into(),
        ..Mapping::default()
    });
    let mut line = |name: &str, file: &str, line: u32| {
        let function = b.function(Function {
            name: name.into(),
            system_name: format!("_Z{name}"),
            filename: file.into(),
            start_line: line.saturating_sub(2),
        });
        Line { function, line, column: line % 7 }
    };
    let chain =
        vec![line("inner", "a.c", 12), line("middle", "a.c", 30), line("outer(int; char)", "a.c", 44)];
    let main = vec![line("main", "a.c", 99)];
    let read = vec![line("vfs_read", "", 0)];
    let chain = b.location(Some(app), 0x1234, chain);
    let main = b.location(Some(app), 0x1300, main);
    let read = b.location(Some(kernel), 0xffff_ffff_8100_0000, read);
    let unnamed = b.location(Some(lib), 0x40, Vec::new());
    let cut = b.synthetic("[truncated: frame limit]");
    let labels = |pid: i64, comm: &str| vec![Label::num("pid", pid), Label::str("comm", comm)];
    b.add(labels(7, "app"), vec![chain, main], &[3, 30]);
    b.add(labels(7, "app"), vec![read, unnamed, main], &[2, 20]);
    b.add(labels(8, "a b;c"), vec![main, cut], &[1, 10]);
    b.finish(1_700_000_000_000_000_000, 5_000_000_000, vec!["run=1".into(), "ledger.samples=6".into()])
}
