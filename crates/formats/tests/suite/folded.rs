use crate::example;
use formats::folded;
use profile::{Builder, Function, Label, Line, Profile, ValueType};

fn text(profile: &Profile, value_index: usize) -> String {
    let mut out = Vec::new();
    folded::write(profile, value_index, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn golden() {
    assert_eq!(
        text(&example(), 1),
        "a b:c (8);[truncated: frame limit];main 10\n\
         app (7);main;[libz.so.1+0x40];vfs_read 20\n\
         app (7);main;outer(int: char);middle;inner 30\n"
    );
}

#[test]
fn one_process_has_no_frame_of_its_own() {
    let mut p = example();
    p.samples.pop();
    assert_eq!(text(&p, 0), "main;[libz.so.1+0x40];vfs_read 2\nmain;outer(int: char);middle;inner 3\n");
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
        text(&b.finish(0, 0, Vec::new()), 0),
        "(3) 5\nw (1);line\\nbreak\\t 10\nw (2);line\\nbreak\\t 5\n"
    );
}

#[test]
fn a_value_that_is_not_there_is_an_error() {
    let error = folded::write(&example(), 2, &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}
