//! Kernel names on this machine, and lines from an image that was moved.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::oracle::functions;
use crate::{names, options, run};
use symbols::{KernelNames, Options, Symbolizer};

#[test]
fn functions_of_the_running_kernel() {
    let mut symbolizer = Symbolizer::new(options());
    let list = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let text: Vec<(u64, &str)> = list
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            (words.next()? == "T").then_some((address, words.next()?))
        })
        .collect();
    if text.iter().all(|(address, _)| *address == 0) {
        assert_eq!(symbolizer.kernel_names(), KernelNames::Hidden);
        assert_eq!(symbolizer.kernel(&[0xffff_ffff_8100_0000]), [Vec::new()]);
        return;
    }
    assert!(matches!(symbolizer.kernel_names(), KernelNames::Known(n) if n > 1000));
    let known: HashSet<(u64, String)> = list.lines().filter_map(at_with_module).collect();
    let addresses: Vec<u64> = text.iter().map(|t| t.0).collect();
    for ((address, name), lines) in text.iter().zip(symbolizer.kernel(&addresses)) {
        let found = names(&lines).join(" ");
        assert!(known.contains(&(*address, found.clone())), "{address:#x}: {found} instead of {name}");
    }
}

fn at_with_module(line: &str) -> Option<(u64, String)> {
    let (address, rest) = line.split_once(' ')?;
    let name = rest.split_once(' ')?.1.replace('\t', " ");
    Some((u64::from_str_radix(address, 16).ok()?, name))
}

#[test]
fn lines_from_an_image_with_the_same_build_id() {
    let dir = tempfile::tempdir().unwrap();
    let text = "\n\
                __attribute__((noinline)) int do_work(int x) { return x + 1; }\n\
                __asm__(\".globl _text\\n.set _text, 0x400000\");\n\
                int main(int c, char **v) { return do_work(c); }\n";
    std::fs::write(dir.path().join("a.c"), text).unwrap();
    let id = "-Wl,--build-id=0x00112233445566778899aabbccddeeff00112233";
    run(dir.path(), &["gcc", "-g", "-O1", "-no-pie", id, "-o", "vmlinux", "a.c"]).unwrap();
    let image = dir.path().join("vmlinux");
    let linked = functions(&image, &[]).into_iter().find(|f| f.2 == "do_work").unwrap().0;
    run(dir.path(), &["objcopy", "-O", "binary", "--only-section=.note.gnu.build-id", "vmlinux", "notes"])
        .unwrap();
    let (kallsyms, notes) = (dir.path().join("kallsyms"), dir.path().join("notes"));
    let slide = 0xffff_ffff_8000_0000u64;
    let moved = linked + slide;
    let list =
        format!("{:x} T _text\n{moved:x} T do_work\nffffffffc0000000 t hook\t[mod]\n", 0x40_0000 + slide);
    std::fs::write(&kallsyms, list).unwrap();
    let find = |notes: PathBuf| {
        let kernel_images = vec!["/nonexistent".into(), image.clone()];
        let options = Options { kallsyms: kallsyms.clone(), kernel_notes: notes, kernel_images, ..options() };
        Symbolizer::new(options).kernel(&[moved, 0xffff_ffff_c000_0000])
    };
    let found = find(notes);
    assert_eq!((names(&found[0]), found[0][0].line), (vec!["do_work"], 2));
    assert_eq!(names(&found[1]), ["hook [mod]"]);
    let other = dir.path().join("other");
    std::fs::write(&other, b"\x04\0\0\0\x08\0\0\0\x03\0\0\0GNU\0\x01\x02\x03\x04\x05\x06\x07\x08").unwrap();
    let found = find(other);
    assert_eq!((names(&found[0]), found[0][0].line), (vec!["do_work"], 0));
}
