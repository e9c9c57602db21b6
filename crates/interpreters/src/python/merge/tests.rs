use proptest::prelude::*;

use super::*;

/// A case in letters. Native frames, the innermost first: `E` is an evaluator, `N` the entry where opcodes are functions, others are neither. Python frames: a letter each, `|` after the
/// outermost of a segment, `-` for a segment without frames.
struct Case {
    family: Family,
    native: &'static str,
    python: &'static str,
    native_is_whole: bool,
    python_is_whole: bool,
    half_linked: bool,
    other_interpreters: bool,
    has_opcode_functions: bool,
}

const CASE: Case = Case {
    family: Family::Shims,
    native: "",
    python: "",
    native_is_whole: true,
    python_is_whole: true,
    half_linked: false,
    other_interpreters: false,
    has_opcode_functions: false,
};

/// The merged stack in the same letters, evaluators with frames in lower case, and the outcome.
fn merged(case: &Case) -> (String, Outcome) {
    let kind = |letter| match letter {
        b'E' => NativeFrame::Evaluator,
        b'N' => NativeFrame::Entry,
        _ => NativeFrame::Other,
    };
    let native: Vec<NativeFrame> = case.native.bytes().map(kind).collect();
    let mut python = Vec::new();
    let mut names = Vec::new();
    for letter in case.python.bytes() {
        if letter == b'|' {
            let last: &mut PythonFrame = python.last_mut().unwrap();
            last.outermost = true;
        } else {
            let is_empty = letter == b'-';
            python.push(PythonFrame { outermost: is_empty, is_empty });
            names.push(char::from(letter));
        }
    }
    let merged = merge(&Stack {
        family: case.family,
        native: &native,
        has_opcode_functions: case.has_opcode_functions,
        native_is_whole: case.native_is_whole,
        python: &python,
        python_is_whole: case.python_is_whole,
        half_linked: case.half_linked,
        other_interpreters: case.other_interpreters,
    });
    let letter = |position: &Position| match *position {
        Position::Native(at) => char::from(case.native.as_bytes()[at]),
        Position::Python(at) => names[at],
        Position::Evaluator(at) if case.native.as_bytes()[at] == b'N' => 'n',
        Position::Evaluator(_) => 'e',
    };
    (merged.positions.iter().map(letter).collect(), merged.outcome)
}

#[track_caller]
fn check(case: Case, positions: &str, outcome: Outcome) {
    assert_eq!(merged(&case), (positions.to_string(), outcome));
}

#[test]
fn each_evaluator_has_its_segment() {
    // sorted(key=…): the key function `k` was called by the C function `s`, that by `f`, called by `g` without C in between.
    check(Case { native: "EsEmr", python: "k|fg|", ..CASE }, "kesfgemr", Outcome::Paired);
    check(Case { native: "mr", python: "", ..CASE }, "mr", Outcome::Paired);
    check(
        Case { native: "jEmr", python: "f|", family: Family::EntryFrames, ..CASE },
        "jfemr",
        Outcome::Paired,
    );
}

#[test]
fn to_3_10_each_frame_is_a_segment() {
    let case = Case { family: Family::HeapFrames, native: "EfEfEmr", python: "abc", ..CASE };
    check(case, "aefbefcemr", Outcome::Paired);
}

#[test]
fn a_segment_may_be_empty() {
    // `d`, a `__del__`, runs while the only frame of the next evaluator is taken down; `f` called that.
    check(Case { native: "EdtEcEmr", python: "d|-f|", ..CASE }, "dedtEcfemr", Outcome::Paired);
    check(Case { native: "tEcEmr", python: "-f|", ..CASE }, "tEcfemr", Outcome::Paired);
    // The call of `__del__` is just beginning.
    check(Case { native: "EdtEcEmr", python: "-f|", ..CASE }, "EdtEcfemr", Outcome::HalfLinked);
}

#[test]
fn the_innermost_evaluator_may_have_no_frame() {
    for family in [Family::HeapFrames, Family::EntryFrames, Family::Shims, Family::DebugOffsets] {
        let case = || Case { family, ..CASE };
        check(Case { native: "EsEmr", python: "f|", ..case() }, "Esfemr", Outcome::HalfLinked);
        // It has called a C function, such as a check of its result.
        check(Case { native: "cEsEmr", python: "f|", ..case() }, "cEsfemr", Outcome::HalfLinked);
        check(Case { native: "Emr", python: "", ..case() }, "Emr", Outcome::HalfLinked);
        // The walk saw it.
        check(
            Case { native: "EsEmr", python: "f|", half_linked: true, ..case() },
            "Esfemr",
            Outcome::HalfLinked,
        );
    }
}

#[test]
fn a_cut_native_walk_is_paired_from_the_inside() {
    let case = || Case { native_is_whole: false, ..CASE };
    check(Case { native: "EsEc", python: "k|fg|h|i|", ..case() }, "kesfgechi", Outcome::Cut);
    check(Case { native: "EsEc", python: "f|h|i|", half_linked: true, ..case() }, "Esfechi", Outcome::Cut);
    // The same of a whole walk cannot be.
    check(Case { native: "EsEc", python: "k|fg|h|", ..CASE }, "EsEc", Outcome::Failed);
    check(Case { native: "mr", python: "f|", ..CASE }, "mr", Outcome::Failed);
}

#[test]
fn a_cut_python_walk_is_paired_from_the_inside() {
    let case = || Case { python_is_whole: false, ..CASE };
    check(Case { native: "EsEsEmr", python: "k|f", ..case() }, "kesfesEmr", Outcome::Cut);
    check(Case { native: "EsEmr", python: "f", half_linked: true, ..case() }, "Esfemr", Outcome::Cut);
    // Nothing could be read.
    check(Case { native: "EsEmr", python: "", ..case() }, "EsEmr", Outcome::Cut);
    // A chain whose end has no mark is open, even if it seems whole.
    check(Case { native: "EsEsEmr", python: "k|f", ..CASE }, "kesfesEmr", Outcome::Cut);
    check(Case { native: "EsEmr", python: "k|f", ..CASE }, "kesfemr", Outcome::Cut);
}

#[test]
fn another_interpreter_may_be_outside() {
    let case = || Case { other_interpreters: true, ..CASE };
    check(Case { native: "EsExEcEmr", python: "k|f|", ..case() }, "kesfexEcEmr", Outcome::OtherInterpreter);
    check(Case { native: "EsExEmr", python: "k|f|", ..case() }, "kesfexEmr", Outcome::OtherInterpreter);
    check(Case { native: "EsEmr", python: "k|f|", ..case() }, "kesfemr", Outcome::Paired);
    // More evaluators than one cannot have begun or ended just now.
    check(Case { native: "EsEsEmr", python: "f|", ..CASE }, "fesEsEmr", Outcome::OtherInterpreter);
    check(
        Case { native: "EsEsExEmr", python: "f|", half_linked: true, ..CASE },
        "EsfesExEmr",
        Outcome::OtherInterpreter,
    );
    let half_linked = Case { native: "EsEsEmr", python: "f|", half_linked: true, ..CASE };
    check(half_linked, "EsfesEmr", Outcome::OtherInterpreter);
}

#[test]
fn what_does_not_fit_keeps_its_native_frames_only() {
    check(Case { native: "cmr", python: "", half_linked: true, ..CASE }, "cmr", Outcome::Failed);
}

#[test]
fn where_opcodes_are_functions_their_caller_belongs_to_them() {
    let case = || Case { family: Family::DebugOffsets, has_opcode_functions: true, ..CASE };
    check(Case { native: "cENsENmr", python: "k|fg|", ..case() }, "ckensfgenmr", Outcome::Paired);
    // It is inlined into its callers.
    check(Case { native: "cEsENmr", python: "k|fg|", ..case() }, "ckesfgenmr", Outcome::Paired);
    // The innermost one has not called its first opcode yet; where it is inlined its function is on top.
    check(Case { native: "cNsENmr", python: "k|fg|", ..case() }, "cknsfgenmr", Outcome::Paired);
    check(Case { native: "isENmr", python: "k|fg|", ..case() }, "kisfgenmr", Outcome::Paired);
    check(Case { native: "imr", python: "k|", ..case() }, "kimr", Outcome::Paired);
    // It is over.
    check(Case { native: "ENsENmr", python: "fg|", ..case() }, "ENsfgenmr", Outcome::HalfLinked);
    check(Case { native: "NsENmr", python: "fg|", ..case() }, "Nsfgenmr", Outcome::Paired);
    // No more than one has called no opcode.
    check(Case { native: "isENmr", python: "j|k|fg|", ..case() }, "isENmr", Outcome::Failed);
    check(
        Case { native: "cENs", python: "k|fg|", native_is_whole: false, ..case() },
        "ckensfg",
        Outcome::Cut,
    );
    // Where they are no functions, each evaluator has a segment.
    let other = Case { has_opcode_functions: false, ..case() };
    check(Case { native: "isEmr", python: "k|fg|", ..other }, "isEmr", Outcome::Failed);
}

proptest! {
    #[test]
    fn each_frame_stands_once_and_in_order(
        family in prop::sample::select(vec![Family::HeapFrames, Family::EntryFrames, Family::Shims]),
        native in proptest::collection::vec(
            prop::sample::select(vec![NativeFrame::Other, NativeFrame::Evaluator, NativeFrame::Entry]), 0..20),
        python in proptest::collection::vec(any::<(bool, bool)>(), 0..20),
        flags: [bool; 5],
    ) {
        let python: Vec<_> =
            python.into_iter().map(|(outermost, is_empty)| PythonFrame { outermost, is_empty }).collect();
        let [native_is_whole, python_is_whole, half_linked, other_interpreters, has_opcode_functions] = flags;
        let stack = Stack {
            family,
            native: &native,
            has_opcode_functions,
            native_is_whole,
            python: &python,
            python_is_whole,
            half_linked,
            other_interpreters,
        };
        let merged = merge(&stack);
        let natives = merged.positions.iter().filter_map(|position| match position {
            Position::Native(at) | Position::Evaluator(at) => Some(*at),
            Position::Python(_) => None,
        });
        prop_assert!(natives.eq(0..native.len()));
        let found = merged.positions.iter().filter_map(|position| match position {
            Position::Python(at) => Some(*at),
            _ => None,
        });
        let wanted = (0..python.len()).filter(|at| merged.outcome != Outcome::Failed && !python[*at].is_empty);
        prop_assert!(found.eq(wanted));
    }
}
