//! Symbol tables against `nm` and `objdump`.

use std::path::Path;

use crate::oracle::functions;
use crate::{names, run, symbolize};

const ASSEMBLY: &str = r#"
    .section .data
    .globl data_symbol
    .type data_symbol, @function
data_symbol: .quad 0
    .text
    .globl sized
    .type sized, @function
sized:
    nop
label_in_sized:
    nop
    .size sized, .-sized
    .skip 14
    .globl unsized
    .type unsized, @function
unsized:
    nop
    nop
    .globl next
    .type next, @function
next:
    nop
    .size next, .-next
    .skip 16
    .globl label_at_end
label_at_end:
    nop
    nop
    nop
    .globl __three_names
    .type __three_names, @function
    .globl three_names
    .type three_names, @function
    .weak a
    .type a, @function
__three_names:
three_names:
a:
    nop
    .size __three_names, .-__three_names
    .size three_names, .-three_names
    .size a, .-a
    .globl big
    .type big, @function
big:
    .skip 8
    .globl nested
    .type nested, @function
nested:
    .skip 4
    .size nested, .-nested
    .skip 8
    .size big, .-big
    .section .other, "ax"
    .skip 4
"#;

fn only_names(path: &Path, addresses: &[u64]) -> Vec<String> {
    symbolize(path, addresses).iter().map(|l| names(l).join(" ")).collect()
}

#[test]
fn sizes_labels_and_aliases() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.s"), ASSEMBLY).unwrap();
    run(dir.path(), &["gcc", "-shared", "-nostdlib", "-o", "a.so", "a.s"]).unwrap();
    let path = dir.path().join("a.so");
    let text = run(dir.path(), &["nm", "a.so"]).unwrap();
    let at = |name: &str| {
        let line = text.lines().find(|l| l.ends_with(&format!(" {name}"))).unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    for (symbol, offset, expected) in [
        ("sized", 0, "sized"),
        ("sized", 1, "sized"),
        ("sized", 2, ""),
        ("unsized", 0, "unsized"),
        ("unsized", 1, "unsized"),
        ("next", 0, "next"),
        ("next", 1, ""),
        ("label_at_end", 2, "label_at_end"),
        ("three_names", 0, "three_names"),
        ("big", 7, "big"),
        ("big", 8, "nested"),
        ("big", 11, "nested"),
        ("big", 12, "big"),
        ("big", 19, "big"),
        ("big", 20, ""),
        ("data_symbol", 0, ""),
    ] {
        assert_eq!(only_names(&path, &[at(symbol) + offset]), [expected], "{symbol}+{offset}");
    }
}

#[test]
fn only_dynamic_symbols() {
    let dir = tempfile::tempdir().unwrap();
    let text = "int exported_one(int x) { return x + 1; }\nstatic __attribute__((noinline)) int hidden(int x) \
                { return x * 7; }\nint exported_two(int x) { return hidden(x) + 2; }\n";
    std::fs::write(dir.path().join("a.c"), text).unwrap();
    run(dir.path(), &["gcc", "-O1", "-shared", "-fPIC", "-o", "a.so", "a.c"]).unwrap();
    let path = dir.path().join("a.so");
    let all = functions(&path, &[]);
    let hidden = all.iter().find(|f| f.2 == "hidden").unwrap().0;
    assert_eq!(only_names(&path, &[hidden]), ["hidden"]);
    run(dir.path(), &["strip", "a.so"]).unwrap();
    let exported: Vec<_> =
        functions(&path, &["-D"]).into_iter().filter(|f| f.2.starts_with("exported")).collect();
    assert_eq!(exported.len(), 2);
    for (start, size, name) in exported {
        assert_eq!(only_names(&path, &[start, start + size - 1]), [name.as_str(), name.as_str()]);
    }
    assert_eq!(only_names(&path, &[hidden]), [""]);
}

/// Every function of the C library, with all aliases at its address.
#[test]
fn all_functions_of_the_c_library() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let path = maps.lines().filter_map(|l| l.find('/').map(|at| &l[at..])).find(|p| p.contains("libc.so"));
    let Some(path) = path else { return };
    let mut all = functions(Path::new(path), &["-D"]);
    all.retain(|(_, size, _)| *size != 0);
    assert!(all.len() > 1000);
    let starts: Vec<u64> = all.iter().map(|f| f.0).collect();
    for ((start, _, name), found) in all.iter().zip(only_names(Path::new(path), &starts)) {
        let mut aliases = all.iter().filter(|f| f.0 == *start).map(|f| f.2.split('@').next().unwrap());
        assert!(aliases.any(|alias| alias == found), "{start:#x}: {found} instead of {name}");
    }
}

#[test]
fn stubs_of_the_procedure_linkage_table() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("a.c"),
        "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { return puts(getenv(\"A\")) + rand(); }\n",
    )
    .unwrap();
    for option in ["-fcf-protection=full", "-fcf-protection=none"] {
        run(dir.path(), &["gcc", "-O1", option, "-Wl,-z,lazy", "-o", "a", "a.c"]).unwrap();
        let listing = run(dir.path(), &["objdump", "-d", "a"]).unwrap();
        let stubs: Vec<(u64, String)> = listing
            .lines()
            .filter_map(|l| l.strip_suffix("@plt>:")?.split_once(" <"))
            .map(|(address, name)| (u64::from_str_radix(address, 16).unwrap(), format!("{name}@plt")))
            .filter(|(_, name)| !name.starts_with("__cxa_finalize"))
            .collect();
        assert_eq!(stubs.len(), 3, "{listing}");
        for (address, name) in stubs {
            assert_eq!(only_names(&dir.path().join("a"), &[address, address + 15]), [name.as_str(), &name]);
        }
    }
}
