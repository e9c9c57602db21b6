//! The kernel that runs here: which one it is, and where it was loaded. What cannot be read stays unknown.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use profile::Avma;
use recording::{KernelImage, KernelModule};
use symbols::KernelText;

use crate::options::Options;

/// Modules that are looked at.
const MAX_MODULES: usize = 4096;
/// Bytes that are read of each small file of the kernel.
const MAX_FILE: u64 = 64 << 10;

/// Which kernel runs here, without addresses.
#[must_use]
pub fn kernel_identity(options: &Options) -> KernelImage {
    let notes = read(&options.symbols.kernel_notes);
    KernelImage {
        build_id: notes.and_then(|notes| elf::gnu_build_id(&notes, 4)),
        release: rustix::system::uname().release().to_string_lossy().into_owned(),
        boot_id: text(&options.boot_id).filter(|id| !id.is_empty()),
        ..KernelImage::default()
    }
}

/// Which kernel runs here, and where it was loaded: as a recording with kernel frames keeps it.
#[must_use]
pub fn kernel_image(options: &Options) -> KernelImage {
    let KernelText { text, stext, .. } = KernelText::read_start(&options.symbols.kallsyms);
    KernelImage { text, stext, modules: kernel_modules(options), ..kernel_identity(options) }
}

/// The loaded modules that tell their addresses, by address. Without privileges, none does.
#[must_use]
pub fn kernel_modules(options: &Options) -> Vec<KernelModule> {
    let folders = std::fs::read_dir(&options.kernel_modules).into_iter().flatten().flatten();
    let modules = folders.take(MAX_MODULES).filter_map(|folder| module(&folder.path()));
    let mut modules: Vec<_> = modules.collect();
    modules.sort_by(|one, other| (one.text, &one.name).cmp(&(other.text, &other.name)));
    modules
}

fn module(folder: &Path) -> Option<KernelModule> {
    let text_start = text(&folder.join("sections/.text"))?;
    let text_start = u64::from_str_radix(text_start.strip_prefix("0x").unwrap_or(&text_start), 16).ok()?;
    Some(KernelModule {
        name: folder.file_name()?.to_str()?.to_owned(),
        text: Some(Avma(text_start)).filter(|address| address.0 != 0)?,
        size: text(&folder.join("coresize"))?.parse().ok()?,
        build_id: read(&folder.join("notes/.note.gnu.build-id"))
            .and_then(|notes| elf::gnu_build_id(&notes, 4)),
    })
}

fn text(path: &Path) -> Option<String> {
    Some(String::from_utf8(read(path)?).ok()?.trim().to_owned())
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_that_runs_here_tells_who_it_is() {
        let image = kernel_image(&Options::default());
        assert!(!image.release.is_empty());
        assert!(image.boot_id.is_some_and(|id| id.len() == 36));
    }

    #[test]
    fn modules_are_read_where_they_tell_their_addresses() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        write("nf_tables/sections/.text", b"0xffffffffc0300000\n");
        write("nf_tables/coresize", b"4096\n");
        write("nf_tables/notes/.note.gnu.build-id", b"\x04\0\0\0\x04\0\0\0\x03\0\0\0GNU\0\x01\x02\x03\x04");
        write("ext4/sections/.text", b"0xffffffffc0100000\n");
        write("ext4/coresize", b"8192\n");
        write("hidden/sections/.text", b"0x0000000000000000\n");
        write("hidden/coresize", b"8192\n");
        write("built_in/parameters/debug", b"0\n");
        write("odd/sections/.text", b"nonsense\n");
        let modules_in = |folder: &Path| {
            kernel_modules(&Options { kernel_modules: folder.to_owned(), ..Options::default() })
        };
        let found = modules_in(folder.path());
        let module = |name: &str, text, size, build_id: Option<&str>| KernelModule {
            name: name.to_owned(),
            text: Avma(text),
            size,
            build_id: build_id.map(|id| id.parse().unwrap()),
        };
        let expected = [
            module("ext4", 0xffff_ffff_c010_0000, 8192, None),
            module("nf_tables", 0xffff_ffff_c030_0000, 4096, Some("01020304")),
        ];
        assert_eq!(found, expected);
        assert_eq!(modules_in(Path::new("/nonexistent")), []);
    }
}
