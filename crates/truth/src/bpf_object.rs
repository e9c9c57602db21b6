//! The measuring programs of `bench/bpf`, compiled when needed.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Error, Result, anyhow, bail};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, PrintLevel, set_print};
use rustix::process::geteuid;

/// Compiles and loads `bench/bpf/NAME.bpf.c`.
///
/// # Errors
/// Without clang, or if the kernel refuses the program.
pub fn load(name: &str, out: &Path) -> Result<Object> {
    load_into_kernel(name, open(name, out)?)
}

/// Loads an opened object.
///
/// # Errors
/// If the kernel refuses the program; the message names the missing privilege or a security policy.
pub fn load_into_kernel(name: &str, object: OpenObject) -> Result<Object> {
    // libtest captures what the macros print, and not what libbpf writes by itself.
    set_print(Some((PrintLevel::Warn, |_, text| eprint!("{text}"))));
    object.load().map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::PermissionDenied if !geteuid().is_root() => "; run as root",
            // The verifier has not seen the program: a security module forbids its type to everybody.
            ErrorKind::PermissionDenied => {
                ", although this is root: a security policy of this machine forbids it"
            }
            _ => "",
        };
        Error::new(error).context(format!("the kernel refuses the BPF program {name}{hint}"))
    })
}

/// Compiles and opens `bench/bpf/NAME.bpf.c`.
///
/// # Errors
/// Without clang, or if it fails.
pub fn open(name: &str, out: &Path) -> Result<OpenObject> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/bpf").join(format!("{name}.bpf.c"));
    fs::create_dir_all(out).with_context(|| format!("create {}", out.display()))?;
    let object = out.join(format!("{name}.bpf.o"));
    let output = Command::new(testkit::need("clang").map_err(|missing| anyhow!("{missing}"))?)
        .args(["-O2", "-g", "-Wno-unused", "-target", "bpf", "-c"])
        .arg(&source)
        .arg("-o")
        .arg(&object)
        .output()
        .context("run clang")?;
    if !output.status.success() {
        bail!("compile {}:\n{}", source.display(), String::from_utf8_lossy(&output.stderr));
    }
    ObjectBuilder::default().open_file(&object).with_context(|| format!("open {}", object.display()))
}

/// The sums over all CPUs of the 64-bit words at these positions of a per-CPU map's only value.
///
/// # Errors
/// If there is no such map, or its value is too short.
pub fn sums<const N: usize>(object: &Object, map: &str, words: [usize; N]) -> Result<[u64; N]> {
    let map = object.maps().find(|m| m.name() == OsStr::new(map)).with_context(|| format!("no map {map}"))?;
    let values = map.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY).context("read the map")?;
    let mut sums = [0; N];
    for value in values.iter().flatten() {
        for (sum, word) in sums.iter_mut().zip(words) {
            let bytes = value.get(word * 8..word * 8 + 8).and_then(|b| b.try_into().ok());
            *sum += u64::from_ne_bytes(bytes.context("the map's value is too short")?);
        }
    }
    Ok(sums)
}
