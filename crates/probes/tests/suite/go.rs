//! Functions of a program in Go, and the calls in them, also where it was stripped; by its disassembly.

use std::process::Command;

use probes::Binary;

const SOURCE: &str = "package main\n\nimport \"fmt\"\n\nfunc main() { values := make(chan int); go func() { values <- 1 }(); fmt.Println(<-values) }\n";

#[test]
fn calls_are_found_where_the_disassembly_has_them() {
    let (go, objdump) = (testkit::need!("go"), testkit::need!("objdump"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.go"), SOURCE).unwrap();
    let build = |name: &str, flags: &str| {
        let mut command = Command::new(&go);
        command.current_dir(folder.path()).env("GO111MODULE", "off");
        let built = command.args(["build", "-ldflags", flags, "-o", name, "main.go"]).status().unwrap();
        assert!(built.success());
        Binary::open(&folder.path().join(name)).unwrap()
    };
    let named = ["runtime.chanrecv", "runtime.gopark", "runtime.ready", "no.such"];
    let calls = |binary: &Binary| {
        let functions = binary.go_functions(&named);
        let mut numbers: Vec<_> = functions.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2]);
        let of = |number| &functions.iter().find(|(of, _)| *of == number).unwrap().1;
        let calls: Vec<u64> = binary.calls(of(0), of(1)).iter().map(|place| place.address).collect();
        let ready = binary.place(of(2));
        assert!(ready.is_emulated && ready.address > of(2).address, "behind the check of the stack");
        assert!(binary.calls(of(1), of(0)).is_empty());
        calls
    };
    let whole = calls(&build("whole", ""));
    let mut disassemble = Command::new(objdump);
    disassemble.current_dir(folder.path()).args(["-d", "--disassemble=runtime.chanrecv", "whole"]);
    let text = String::from_utf8(disassemble.output().unwrap().stdout).unwrap();
    let is_park = |line: &&str| line.contains("call") && line.ends_with("<runtime.gopark>");
    let address = |line: &str| u64::from_str_radix(line.trim().split(':').next().unwrap(), 16).unwrap();
    let expected: Vec<u64> = text.lines().filter(is_park).map(address).collect();
    assert!(!expected.is_empty(), "{text}");
    assert_eq!(whole, expected);
    assert_eq!(calls(&build("stripped", "-s -w")).len(), whole.len());
}
