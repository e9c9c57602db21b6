//! Damaged files may lose their names. Nothing else may happen.

use std::path::Path;
use std::sync::OnceLock;

use crate::oracle::functions;
use crate::{object, options, run};
use profile::Svma;
use proptest::prelude::*;
use symbols::{ObjectSource, Symbolizer};

/// A small program with DWARF and a stripped Go program.
fn originals() -> &'static Vec<(Vec<u8>, Vec<u64>)> {
    static FILES: OnceLock<Vec<(Vec<u8>, Vec<u64>)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let text = "static inline int inner(int x) { return x * 3; }\nint outer(int x) { return inner(x) + 1; }\n\
                    int main(int c, char **v) { return outer(c); }\n";
        std::fs::write(dir.path().join("a.c"), text).unwrap();
        run(dir.path(), &["gcc", "-g", "-O1", "-o", "a", "a.c"]).unwrap();
        run(dir.path(), &["gcc", "-g", "-O1", "-gz=zlib", "-o", "z", "a.c"]).unwrap();
        std::fs::write(dir.path().join("g.go"), "package main\nfunc main() { println(1) }\n").unwrap();
        let go = run(dir.path(), &["go", "build", "-ldflags=-s -w", "-o", "g", "g.go"]).map(|_| "g");
        let load = |name: &str| {
            let path = dir.path().join(name);
            let mut addresses: Vec<u64> = functions(&path, &[]).iter().map(|f| f.0).collect();
            addresses.extend((0..64).map(|i| 0x40_1000 + i * 0x1234));
            (std::fs::read(path).unwrap(), addresses)
        };
        ["a", "z"].into_iter().chain(go).map(load).collect()
    })
}

fn lookup(bytes: Vec<u8>, addresses: &[u64]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged");
    std::fs::write(&path, &bytes).unwrap();
    let svmas: Vec<Svma> = addresses.iter().map(|a| Svma(*a)).collect();
    let mut symbolizer = Symbolizer::new(options());
    assert_eq!(symbolizer.object(&object(&path), &svmas).len(), svmas.len());
    let mut file = object(Path::new("[vdso]"));
    file.source = ObjectSource::Bytes(bytes.into());
    assert_eq!(symbolizer.object(&file, &svmas).len(), svmas.len());
}

proptest! {
    #[test]
    fn truncated(which: prop::sample::Index, length: prop::sample::Index) {
        let (bytes, addresses) = &originals()[which.index(originals().len())];
        lookup(bytes[..length.index(bytes.len())].to_vec(), addresses);
    }

    #[test]
    fn overwritten(
        which: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..200),
    ) {
        let (bytes, addresses) = &originals()[which.index(originals().len())];
        let mut bytes = bytes.clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        lookup(bytes, addresses);
    }

    /// Damages the header and the tables at the end more often than the rest: they decide how the rest is read.
    #[test]
    fn headers_overwritten(
        which: prop::sample::Index,
        changes in prop::collection::vec((0usize..4096, prop::sample::select(vec![0u8, 1, 0x7f, 0x80, 0xff])), 1..20),
    ) {
        let (bytes, addresses) = &originals()[which.index(originals().len())];
        let mut bytes = bytes.clone();
        let length = bytes.len();
        for (at, value) in changes {
            bytes[if (16..64).contains(&at) { at } else { length - 1 - at }] = value;
        }
        lookup(bytes, addresses);
    }

    #[test]
    fn noise(mut bytes: Vec<u8>) {
        lookup(bytes.clone(), &[0, 1, u64::MAX]);
        if bytes.len() > 16 {
            bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
            lookup(bytes, &[0, 1, u64::MAX]);
        }
    }
}

#[test]
fn unreadable_files_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), &["mkfifo", "pipe"]).unwrap();
    let mut symbolizer = Symbolizer::new(options());
    for path in
        [dir.path().join("missing"), dir.path().to_owned(), "/dev/null".into(), dir.path().join("pipe")]
    {
        assert_eq!(symbolizer.object(&object(&path), &[Svma(1)]), [Vec::new()]);
    }
    assert_eq!(symbolizer.stats().unreadable_files, 4);
    assert_eq!((symbolizer.stats().addresses, symbolizer.stats().unnamed), (4, 4));
}
