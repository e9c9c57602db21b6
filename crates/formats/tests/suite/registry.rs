use std::collections::BTreeSet;
use std::path::Path;

use crate::example;
use formats::registry::{ENCODERS, by_extension, by_name};
use formats::{EncodeOptions, Merge, flamegraph, folded, pprof};

fn encoded(name: &str, options: &EncodeOptions) -> Vec<u8> {
    let mut out = Vec::new();
    by_name(name).unwrap().encode(&example(), options, &mut out).unwrap();
    out
}

#[test]
fn names_and_extensions_are_distinct() {
    let names: BTreeSet<_> = ENCODERS.iter().map(|encoder| encoder.name()).collect();
    assert_eq!(names.len(), ENCODERS.len());
    let extensions: Vec<_> = ENCODERS.iter().flat_map(|encoder| encoder.extensions()).collect();
    assert_eq!(extensions.iter().collect::<BTreeSet<_>>().len(), extensions.len());
    assert!(by_name("none").is_none());
}

#[test]
fn encoders_write_what_their_functions_write() {
    let options = EncodeOptions { value: Some(0), title: "A title".to_owned(), ..EncodeOptions::default() };
    assert_eq!(encoded("pprof", &options), pprof::encode(&example()));
    let (mut stacks, mut graph) = (Vec::new(), Vec::new());
    folded::write(&example(), 0, Merge::Comm, &mut stacks).unwrap();
    flamegraph::write(&example(), &options, &mut graph).unwrap();
    assert_eq!(encoded("folded", &options), stacks);
    assert_eq!(encoded("flamegraph", &options), graph);
}

#[test]
fn the_default_value_is_the_default_sample_type() {
    let mut time = Vec::new();
    folded::write(&example(), 1, Merge::Comm, &mut time).unwrap();
    assert_eq!(encoded("folded", &EncodeOptions::default()), time);
}

#[test]
fn extensions_choose_the_format() {
    let name = |path: &str| by_extension(Path::new(path)).map(|encoder| encoder.name());
    assert_eq!(name("out/x.pb.gz"), Some("pprof"));
    assert_eq!(name("a.b.folded"), Some("folded"));
    assert_eq!(name("x.svg"), Some("flamegraph"));
    for none in ["x", "x.gz", "x.pb", ".svg", "svg", "x.svg/", "xsvg", "x.SVG"] {
        assert_eq!(name(none), if none == "x.svg/" { Some("flamegraph") } else { None }, "{none}");
    }
}
