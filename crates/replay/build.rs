//! Compiles `native/walker.c`, which includes the walker of `bpf/`.
//!
//! `REPLAY_SANITIZE=address,undefined` builds it with those sanitizers of gcc, for this crate's tests; set also
//! `ASAN_OPTIONS=verify_asan_link_order=0,detect_leaks=0`.

fn main() {
    println!("cargo::rerun-if-changed=../../bpf");
    println!("cargo::rerun-if-changed=native");
    println!("cargo::rerun-if-env-changed=REPLAY_SANITIZE");
    let mut build = cc::Build::new();
    // The walker reads words out of byte buffers, at any address, as BPF programs may.
    build.file("native/walker.c").include("../../bpf").flag("-fno-strict-aliasing");
    build.flag("-Wno-unused-parameter").opt_level(2).debug(true);
    if let Ok(sanitizers) = std::env::var("REPLAY_SANITIZE") {
        build.flag(format!("-fsanitize={sanitizers}")).flag("-fno-sanitize=alignment");
        build.flag("-fno-sanitize-recover=all");
        for (name, library) in [("address", "asan"), ("undefined", "ubsan")] {
            if sanitizers.split(',').any(|sanitizer| sanitizer == name) {
                println!("cargo::rustc-link-lib=dylib={library}");
            }
        }
    }
    build.compile("walker");
}
