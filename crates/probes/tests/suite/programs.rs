//! Programs that the tests compile.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A program with a function of known bytes, functions in several files, an indirect function, and two USDT probes.
pub const SOURCE: &str = r#"
#define NOTE(PROVIDER, NAME, SEMAPHORE, ARGS) asm volatile( \
    "990: nop\n" \
    ".pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n" \
    "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte " SEMAPHORE "\n" \
    ".asciz \"" PROVIDER "\"\n.asciz \"" NAME "\"\n.asciz \"" ARGS "\"\n994: .balign 4\n.popsection\n" \
    ".ifndef _.stapsdt.base\n.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
    ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.size _.stapsdt.base,1\n.popsection\n.endif\n")

__attribute__((section(".probes"), used)) unsigned short counter = 0x4711;
asm(".text\n.globl known\n.type known,@function\nknown: endbr64\nmovl $0x12345678,%eax\npush %rbp\npop %rbp\nret\n.size known,.-known\n"
    ".globl second_entry\n.type second_entry,@function\nsecond_entry: endbr64\n.Lmiddle: push %rbp\npop %rbp\nret\n.size second_entry,.-second_entry\n"
    ".globl middle\n.set middle,.Lmiddle\n.type middle,@function\n");
int known(void), second_entry(void);
__attribute__((noinline)) int twice(int n) { NOTE("app", "work", "0", "-4@%edi"); NOTE("app", "work", "counter", "-4@%edi 8@-8(%rsp)"); return n * 2; }
static int chosen(void) { return 1; }
static void *choose(void) { return chosen; }
int indirect(void) __attribute__((ifunc("choose")));
int datum = 1;
int main(int argc, char **argv) { NOTE("app", "start", "0", ""); return twice(argc) + known() + second_entry() + indirect() + datum; }
"#;

/// Compiles a program. `None` without a compiler: then the reason of the skip is printed.
pub fn compiled(folder: &Path, name: &str, source: &str, options: &[&str]) -> Option<PathBuf> {
    compiled_by("cc", folder, &format!("{name}.c"), source, &[&["-O2", "-w"], options].concat())
}

/// The same with another compiler.
pub fn compiled_by(
    compiler: &str,
    folder: &Path,
    file: &str,
    source: &str,
    options: &[&str],
) -> Option<PathBuf> {
    let compiler = testkit::needed(compiler)?;
    let input = folder.join(file);
    let output = input.with_extension("");
    std::fs::write(&input, source).unwrap();
    let done = Command::new(compiler).arg("-o").arg(&output).arg(&input).args(options).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(output)
}
