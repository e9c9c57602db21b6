//! Symbols without a size name their own code only.

use std::path::Path;

use crate::{names, run, symbolize};

/// A program that exports one assembly function without a size, which is the only symbol that is left when it is stripped.
const MARKER: &str = r#"
#include <stdint.h>
volatile uint64_t sink;
#if defined(__x86_64__)
__asm__(".text\n.globl exported_marker\n.type exported_marker,@function\nexported_marker:\n xor %eax,%eax\n ret\n");
#else
__asm__(".text\n.globl exported_marker\n.type exported_marker,@function\nexported_marker:\n mov w0, #0\n ret\n");
#endif
extern int exported_marker(void);
#define N __attribute__((noinline, noclone))
N static uint64_t secret_leaf(uint64_t x) { for (int i = 0; i < 30000; i++) x = x * 6364136223846793005u + 99; return x; }
N static uint64_t secret_middle(uint64_t x) { return secret_leaf(x) + secret_leaf(x + 1); }
int main(void) { for (int i = 0; i < 3; i++) sink += secret_middle(sink) + exported_marker(); }
"#;

/// A function in assembly whose label the assembler drops, between `frame_dummy`, which has no size, and `enter`.
const DROPPED_LABEL: &str = r#"
#include <stdint.h>
volatile uint64_t sink;
__asm__(".text\n.Llocal_code:\n mov $30000,%ecx\n1: imul $31,%rdi,%rdi\n inc %rdi\n dec %ecx\n jnz 1b\n mov %rdi,%rax\n ret\n"
	".globl enter\n.type enter,@function\nenter:\n sub $8,%rsp\n call .Llocal_code\n add $8,%rsp\n ret\n.size enter,.-enter\n");
uint64_t enter(uint64_t);
int main(void) { for (int i = 0; i < 3; i++) sink += enter(sink); }
"#;

/// Functions in assembly without sizes, as those of musl: loops, jumps, a tail call, a call, code behind which nothing is known.
const ASSEMBLY: &str = r#"
    .text
    .globl looping
    .type looping, @function
looping:
    mov %rdi, %rax
    cmp $8, %rdx
    jc 1f
2:  movsb
    dec %rdx
    jnz 2b
1:  test %edx, %edx
    jz 3f
    ret
3:  xor %eax, %eax
    ret
hidden_one:
    nop
    jmp hidden_one
    .globl calling
    .type calling, @function
calling:
    sub $8, %rsp
    call looping
    add $8, %rsp
    ret
hidden_two:
    nop
    jmp hidden_two
    .globl ending
    .type ending, @function
ending:
    jmp looping
hidden_three:
    nop
    jmp hidden_three
"#;

/// The address of a symbol.
fn address(dir: &Path, file: &str, name: &str) -> u64 {
    let text = run(dir, &["nm", file]).unwrap();
    let line = text.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
    u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
}

fn named(path: &Path, address: u64) -> String {
    symbolize(path, &[address]).iter().map(|lines| names(lines).join(" ")).collect()
}

#[test]
fn only_its_own_code_has_the_name_of_an_exported_function() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.c"), MARKER).unwrap();
    run(dir.path(), &["gcc", "-O2", "-rdynamic", "-o", "a", "a.c"]).unwrap();
    let path = dir.path().join("a");
    let [marker, leaf, middle] =
        ["exported_marker", "secret_leaf", "secret_middle"].map(|name| address(dir.path(), "a", name));
    assert_eq!(
        [marker, leaf, middle].map(|at| named(&path, at)),
        ["exported_marker", "secret_leaf", "secret_middle"]
    );
    run(dir.path(), &["strip", "a"]).unwrap();
    let stripped = [marker, marker + 2, leaf, leaf + 20, middle, middle + 8].map(|at| named(&path, at));
    assert_eq!(stripped, ["exported_marker", "exported_marker", "", "", "", ""]);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn code_whose_label_was_dropped_has_no_name() {
    /// The length of the code behind the dropped label.
    const DROPPED: u64 = 20;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.c"), DROPPED_LABEL).unwrap();
    run(dir.path(), &["gcc", "-O2", "-o", "a", "a.c"]).unwrap();
    let path = dir.path().join("a");
    let at = |name: &str| address(dir.path(), "a", name);
    let enter = at("enter");
    assert!(at("frame_dummy") < enter - DROPPED);
    let found = [enter - DROPPED, enter - 9, enter - 1, enter, enter + 10].map(|at| named(&path, at));
    assert_eq!(found, ["", "", "", "enter", "enter"]);
    assert_eq!(named(&path, at("frame_dummy")), "frame_dummy");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn functions_in_assembly_keep_their_names_as_far_as_control_goes() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.s"), ASSEMBLY).unwrap();
    run(dir.path(), &["gcc", "-shared", "-nostdlib", "-o", "a.so", "a.s"]).unwrap();
    let path = dir.path().join("a.so");
    let at = |name: &str| address(dir.path(), "a.so", name);
    let borders = ["looping", "hidden_one", "calling", "hidden_two", "ending", "hidden_three"].map(at);
    run(dir.path(), &["strip", "a.so"]).unwrap();
    let names = ["looping", "", "calling", "", "ending", ""];
    for ((from, to), name) in borders.iter().zip(&borders[1..]).zip(names) {
        for address in *from..*to {
            assert_eq!(named(&path, address), name, "{address:#x} of {from:#x} to {to:#x}");
        }
    }
    assert_eq!(named(&path, borders[5]), "");
}

/// `.debug_frame` describes the first of two functions without sizes.
const DESCRIBED: &str = r#"
    .cfi_sections .debug_frame
    .text
    .globl described
    .type described, @function
described:
    .cfi_startproc
    nop
    nop
    nop
    ret
    .cfi_endproc
    .Lhidden_one:
    nop
    ret
    .globl alone
    .type alone, @function
alone:
    nop
    ret
"#;

#[test]
#[cfg(target_arch = "x86_64")]
fn a_debug_file_alone_names_what_its_frame_section_describes() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.s"), DESCRIBED).unwrap();
    run(dir.path(), &["gcc", "-shared", "-nostdlib", "-o", "a.so", "a.s"]).unwrap();
    let described = address(dir.path(), "a.so", "described");
    run(dir.path(), &["objcopy", "--only-keep-debug", "a.so", "a.debug"]).unwrap();
    let names: Vec<_> = (described..described + 8).map(|at| named(&dir.path().join("a.debug"), at)).collect();
    let own = ["described"; 4];
    assert_eq!(names, [&own[..], &["", "", "alone", ""]].concat());
}
