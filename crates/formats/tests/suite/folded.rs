use crate::example;
use formats::{Merge, folded};
use profile::{Builder, Function, Label, Line, Profile, ValueType};

fn text(profile: &Profile, value_index: usize, merge: Merge) -> String {
    let mut out = Vec::new();
    folded::write(profile, value_index, merge, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn golden() {
    assert_eq!(
        text(&example(), 1, Merge::Pid),
        "a b:c (8);[truncated: frame limit];main 10\n\
         app (7);main;[libz.so.1+0x40];vfs_read 20\n\
         app (7);main;outer(int: char);middle;inner 30\n"
    );
}

#[test]
fn one_process_has_no_frame_of_its_own() {
    let mut p = example();
    p.samples.pop();
    assert_eq!(
        text(&p, 0, Merge::Pid),
        "main;[libz.so.1+0x40];vfs_read 2\nmain;outer(int: char);middle;inner 3\n"
    );
}

#[test]
fn threads_are_told_apart_and_equal_stacks_summed() {
    let count = ValueType::new("samples", "count");
    let mut b = Builder::new(std::slice::from_ref(&count), count.clone(), 1);
    let f = b.function(Function { name: "line\nbreak\t".into(), ..Function::default() });
    let l = b.location(None, 0, vec![Line { function: f, line: 0, column: 0 }]);
    for (tid, state) in [(1, "blocked"), (1, "iowait"), (2, "blocked")] {
        let labels = vec![Label::num("tid", tid), Label::str("thread", "w"), Label::str("state", state)];
        b.add(labels, vec![l], &[5]);
    }
    b.add(vec![Label::num("tid", 3)], vec![], &[5]);
    assert_eq!(
        text(&b.finish(0, 0, Vec::new()), 0, Merge::Pid),
        "(3) 5\nw (1);line\\nbreak\\t 10\nw (2);line\\nbreak\\t 5\n"
    );
}

#[test]
fn a_value_that_is_not_there_is_an_error() {
    let error = folded::write(&example(), 2, Merge::All, &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn processes_of_a_name_share_a_tower_unless_all_or_each_is_asked_for() {
    let count = ValueType::new("samples", "count");
    let mut b = Builder::new(std::slice::from_ref(&count), count.clone(), 1);
    let main = b.synthetic("main");
    for (pid, comm) in [(1, "make"), (2, "cc1"), (3, "cc1")] {
        let labels = vec![Label::num("pid", pid), Label::str("comm", comm), Label::num("tid", pid)];
        b.add(labels, vec![main], &[1]);
    }
    let mut profile = b.finish(0, 0, Vec::new());
    assert_eq!(text(&profile, 0, Merge::Comm), "cc1;main 2\nmake;main 1\n");
    assert_eq!(text(&profile, 0, Merge::All), "main 3\n");
    assert_eq!(
        text(&profile, 0, Merge::Pid),
        "cc1 (2);(2);main 1\ncc1 (3);(3);main 1\nmake (1);(1);main 1\n"
    );
    // There is nothing to tell apart.
    profile.samples.remove(0);
    assert_eq!(text(&profile, 0, Merge::Comm), "main 2\n");
}

#[test]
fn anonymous_functions_of_javascript_differ() {
    let count = ValueType::new("samples", "count");
    let mut b = Builder::new(std::slice::from_ref(&count), count.clone(), 1);
    for line in [3, 9] {
        let function = b.function(Function {
            name: "JS:*(anonymous)".into(),
            filename: "/srv/app.js".into(),
            start_line: line,
            ..Function::default()
        });
        let location = b.location(None, 0, vec![Line { function, line, column: 0 }]);
        b.add(Vec::new(), vec![location], &[1]);
    }
    assert_eq!(
        text(&b.finish(0, 0, Vec::new()), 0, Merge::Comm),
        "JS:*(anonymous) /srv/app.js:3 1\nJS:*(anonymous) /srv/app.js:9 1\n"
    );
}
