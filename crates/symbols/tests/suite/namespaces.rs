//! Inlined functions keep the namespaces, types and functions around them where debug information has no linkage names.

use std::collections::BTreeSet;

use crate::oracle::functions;
use crate::{names, run, symbolize};

const CPP: &str = r#"
#include <cstdint>
volatile uint64_t sink;
#define INLINE inline __attribute__((always_inline))
namespace acme { namespace deep {
static INLINE uint64_t helper(uint64_t x) { for (int i = 0; i < 9; i++) x = x * 31 + i + sink; return x; }
INLINE uint64_t shared(uint64_t x) { for (int i = 0; i < 9; i++) x = x * 37 + i + sink; return x; }
template <typename T> struct Holder { T v; INLINE T get(T a) const { T s = v; for (int i = 0; i < 9; i++) s = s * 41 + a + sink; return s; } };
template <typename T> static INLINE T twice(T x) { for (int i = 0; i < 9; i++) x = x * 53 + i + sink; return x; }
} }
namespace { INLINE uint64_t hidden(uint64_t x) { for (int i = 0; i < 9; i++) x = x * 43 + i + sink; return x; } }
static INLINE uint64_t helper(uint64_t x) { for (int i = 0; i < 9; i++) x = x * 59 + i + sink; return x; }
int main() {
    acme::deep::Holder<uint64_t> holder{3};
    struct Local { INLINE uint64_t method(uint64_t x) { for (int i = 0; i < 9; i++) x = x * 47 + i + sink; return x; } } local;
    sink = acme::deep::helper(sink) + acme::deep::shared(sink) + holder.get(sink) + hidden(sink) + helper(sink)
        + local.method(sink) + acme::deep::twice(sink) + acme::deep::twice(uint32_t(sink));
}
"#;

/// The names of all functions in `main`.
fn in_main(compiler: &str, options: &[&str]) -> Option<BTreeSet<String>> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.cc"), CPP).unwrap();
    let command = [&[compiler][..], options, &["-o", "a", "a.cc"]].concat();
    run(dir.path(), &command)?;
    let path = dir.path().join("a");
    let (start, size, _) = functions(&path, &[]).into_iter().find(|(_, _, name)| name == "main").unwrap();
    let addresses: Vec<u64> = (start..start + size).collect();
    let lines = symbolize(&path, &addresses);
    Some(lines.iter().flat_map(|lines| names(lines)).map(str::to_owned).collect())
}

#[test]
fn inlined_functions_have_their_namespaces() {
    let of_gcc = [
        "(anonymous namespace)::hidden",
        "acme::deep::helper",
        "acme::deep::twice<long unsigned int>",
        "acme::deep::twice<unsigned int>",
        "helper",
        "main",
        "main::Local::method",
    ];
    let with_linkage_names =
        ["acme::deep::Holder<unsigned long>::get(unsigned long) const", "acme::deep::shared(unsigned long)"];
    for options in [&["-O2", "-g"][..], &["-O2", "-gdwarf-4"]] {
        let Some(found) = in_main("g++", options) else { return };
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        let mut expected = [&of_gcc[..], &with_linkage_names].concat();
        expected.sort_unstable();
        assert_eq!(found, expected, "{options:?}");
    }
}
