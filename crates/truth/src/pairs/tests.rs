use std::fs;
use std::process::Command;

use object::{Object, ObjectSymbol};

use super::*;

/// Each label behind a call is the return address of that call.
const SOURCE: &str = r"
    .text
    .macro function name
    .type \name, @function
\name:
    .cfi_startproc
    .endm
    .macro end name
    .cfi_endproc
    .size \name, . - \name
    .endm

    function caller
    call called
after_called:
    call jumper
after_jumper:
    call conditional
after_conditional:
    call *%rax
after_register:
    call imported@PLT
after_imported:
    call *imported@GOTPCREL(%rip)
after_slot:
    call switch
after_switch:
    call falls
after_falls:
    lea called(%rip), %rax
after_none:
    ret
    end caller

    function called
    nop
    ret
    end called
    function other
    nop
    ret
    end other
    function jumper
    test %rdi, %rdi
    jmp called
    end jumper
    function conditional
    test %rdi, %rdi
    jne conditional.cold
    ret
    end conditional
    function conditional.cold
    nop
    ud2
    end conditional.cold
    function switch
    jmp *%rax
    end switch
    function falls
    xor %eax, %eax
    end falls
    function fallen
    ret
    end fallen
    .skip 16
    function restorer
    mov $15, %rax
    syscall
    end restorer
";

const LIBRARY: &str = "
    .text
    .globl imported
    .type imported, @function
imported:
    .cfi_startproc
    nop
    ret
    .cfi_endproc
    .size imported, . - imported
";

/// A program and its library, and their symbols.
struct Case {
    judge: Judge,
    symbols: HashMap<(&'static str, String), u64>,
}

/// Returns `None` if the compiler is missing.
fn case() -> Option<Case> {
    let gcc = testkit::need("gcc").map_err(testkit::skipped).ok()?;
    let folder = tempfile::tempdir().unwrap();
    let build = |name: &str, source: &str, more: &[&str]| {
        let (input, output) = (folder.path().join(format!("{name}.s")), folder.path().join(name));
        fs::write(&input, source).unwrap();
        let arguments = ["-nostdlib", "-shared", "-Wl,--no-relax", "-o"];
        let status = Command::new(&gcc).args(arguments).arg(&output).arg(&input).args(more).status().unwrap();
        assert!(status.success());
        fs::read(output).unwrap()
    };
    let files = [("/program", build("program", SOURCE, &[])), ("/library", build("library", LIBRARY, &[]))];
    let mut symbols = HashMap::new();
    for (path, bytes) in &files {
        let elf = object::File::parse(&**bytes).unwrap();
        for symbol in elf.symbols() {
            symbols.insert((*path, symbol.name().unwrap().to_owned()), symbol.address());
        }
    }
    Some(Case { judge: Judge::of(files.map(|(path, bytes)| (path.to_owned(), bytes))), symbols })
}

impl Case {
    fn address(&self, module: &'static str, name: &str) -> u64 {
        self.symbols[&(module, name.to_owned())]
    }

    /// The fate of a pair: the return address at a label of the program, and the first byte of a function.
    fn pair(&mut self, returns: &str, module: &'static str, callee: &str) -> Fate {
        let caller = self.address("/program", returns) - 1;
        let callee = self.address(module, callee);
        let frame = |module: &str, svma| Frame { name: None, module: module.into(), svma };
        self.judge.pair(&frame("/program", caller), &frame(module, callee), false)
    }
}

#[test]
fn a_direct_call_leads_to_its_target_and_on_by_jumps() {
    let Some(mut case) = case() else { return };
    let mut fate = |returns, callee| case.pair(returns, "/program", callee);
    assert_eq!(fate("after_called", "called"), Fate::Right);
    assert_eq!(fate("after_called", "other"), Fate::OtherTarget);
    assert_eq!(fate("after_jumper", "jumper"), Fate::Right);
    assert_eq!(fate("after_jumper", "called"), Fate::Right, "a tail call");
    assert_eq!(fate("after_jumper", "other"), Fate::OtherTarget);
    assert_eq!(fate("after_conditional", "conditional.cold"), Fate::Right, "the cold part");
    assert_eq!(fate("after_conditional", "called"), Fate::OtherTarget);
    assert_eq!(fate("after_falls", "fallen"), Fate::Right, "code that continues in the next function");
}

#[test]
fn without_a_call_a_pair_is_wrong() {
    let Some(mut case) = case() else { return };
    assert_eq!(case.pair("after_none", "/program", "called"), Fate::NoCall);
    // The middle of an instruction, and the first byte of a function.
    let frame = |svma| Frame { name: None, module: "/program".into(), svma };
    let (called, other) = (case.address("/program", "after_called"), case.address("/program", "other"));
    assert_eq!(case.judge.pair(&frame(called - 2), &frame(other), false), Fate::NoCall);
    assert_eq!(case.judge.pair(&frame(other - 1), &frame(called), false), Fate::NoCall);
}

#[test]
fn imported_functions_are_found_in_other_files() {
    let Some(mut case) = case() else { return };
    for returns in ["after_imported", "after_slot"] {
        assert_eq!(case.pair(returns, "/library", "imported"), Fate::Right, "{returns}");
        assert_eq!(case.pair(returns, "/program", "called"), Fate::OtherTarget, "{returns}");
    }
}

#[test]
fn what_cannot_be_judged_is_counted_apart() {
    let Some(mut case) = case() else { return };
    assert_eq!(case.pair("after_register", "/program", "other"), Fate::IndirectCall);
    assert_eq!(case.pair("after_switch", "/program", "other"), Fate::IndirectJump);
    assert_eq!(case.pair("after_called", "/program", "restorer"), Fate::Signal);
    let address = case.address("/program", "after_called") - 1;
    let caller = Frame { name: None, module: "/program".into(), svma: address };
    for module in ["[jit]", ""] {
        let callee = Frame { name: None, module: module.into(), svma: 1 };
        assert_eq!(case.judge.pair(&caller, &callee, false), Fate::NoFile);
        assert_eq!(case.judge.pair(&callee, &caller, false), Fate::NoFile);
    }
}
