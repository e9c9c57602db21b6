//! With the feature `static`, makes programs link libelf and zlib statically.
//!
//! The crate libbpf-sys only names the libraries, and the linker takes the first that it finds. So this adds a folder in front of
//! the system's, where each name is a linker script with the static libraries. Without the feature it does nothing, and the
//! linker takes the system's shared libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_STATIC").is_none() {
        return ExitCode::SUCCESS;
    }
    match link_statically() {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            println!("cargo::error={sentence}");
            ExitCode::FAILURE
        }
    }
}

fn link_statically() -> Result<(), String> {
    let out =
        std::env::var_os("OUT_DIR").map(PathBuf::from).ok_or("OUT_DIR is not set: run this through cargo")?;
    let folder = out.join("static");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    let elf = archive("elf", "libelf-dev")?;
    let zlib = archive("z", "zlib1g-dev")?;
    let mut needed_by_elf = vec![elf.clone(), zlib.clone()];
    // Newer versions of libelf also read sections that zstd has compressed.
    if mentions(&elf, b"ZSTD_decompress")? {
        needed_by_elf.push(archive("zstd", "libzstd-dev")?);
    }
    write_script(&folder.join("libelf.a"), &needed_by_elf)?;
    write_script(&folder.join("libz.a"), &[zlib])?;
    println!("cargo::rustc-link-search=native={}", folder.display());
    Ok(())
}

/// The static library of this name, where the C compiler for the target finds it.
fn archive(name: &str, package: &str) -> Result<PathBuf, String> {
    let file = format!("lib{name}.a");
    let compiler = cc::Build::new()
        .cargo_metadata(false)
        .try_get_compiler()
        .map_err(|error| format!("no C compiler was found to ask for {file}: {error}"))?;
    let answer = compiler
        .to_command()
        .arg(format!("-print-file-name={file}"))
        .output()
        .map_err(|error| format!("cannot run {} to find {file}: {error}", compiler.path().display()))?;
    let path = PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim());
    // A compiler that does not find the file prints the bare name.
    if !path.is_absolute() || !path.is_file() {
        return Err(format!(
            "the static library {file} was not found: install it (Debian: apt-get install {package}), or build without the \
             feature `static` of perfagent, with the system's shared library"
        ));
    }
    println!("cargo::rerun-if-changed={}", path.display());
    Ok(path)
}

fn mentions(path: &Path, symbol: &[u8]) -> Result<bool, String> {
    let bytes = fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(bytes.windows(symbol.len()).any(|window| window == symbol))
}

fn write_script(path: &Path, archives: &[PathBuf]) -> Result<(), String> {
    let list: Vec<_> = archives.iter().map(|archive| format!("\"{}\"", archive.display())).collect();
    fs::write(path, format!("GROUP({})\n", list.join(" ")))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}
