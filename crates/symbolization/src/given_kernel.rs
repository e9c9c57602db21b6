//! Names of a recording's kernel from files that the user gives: its ELF file, and a list of its symbols.
//!
//! Both may be of another start of the machine than the recording: the recording tells where its kernel was loaded. If it does not, because
//! the kernel hid its addresses, the list must be of the same start. That is believed unless the recording has code where the list has none.

use std::ops::Range;
use std::path::{Path, PathBuf};

use profile::Avma;
use recording::KernelImage;
use symbols::{KernelFile, KernelNames, KernelText, ObjectFile, ObjectSource, SourceLine, Symbolizer};

use crate::options::{KernelFiles, Options};

/// The kernel is loaded at whole pages.
const PAGE: u64 = 4096;
/// Code of the kernel itself is not farther from its beginning.
const REACH: u64 = 1 << 30;
/// Where modules and other code that was loaded or made later begin on x86-64.
const X86_MODULES: u64 = 0xffff_ffff_c000_0000;

/// The files.
pub(crate) struct GivenKernel {
    files: KernelFiles,
    symbolizer: Symbolizer,
    vmlinux: Option<KernelFile>,
    /// The list was taken for one of the same start.
    assumed: bool,
}

/// Where the code of a file was in the recording.
#[derive(Clone, Debug)]
struct Placed {
    /// Addresses of the recording.
    code: Range<u64>,
    /// How much farther the code is in the file, modulo 2^64.
    distance: u64,
    /// The marks at addresses of the recording.
    marks: KernelText,
}

impl Placed {
    fn in_file(&self, address: Avma) -> Option<u64> {
        self.code.contains(&address.0).then(|| address.0.wrapping_add(self.distance))
    }
}

impl GivenKernel {
    /// `None`: no file is given. Reads nothing yet.
    pub(crate) fn new(options: &Options) -> Option<Self> {
        let files = options.kernel_files.clone();
        if files == KernelFiles::default() {
            return None;
        }
        let kallsyms = files.system_map.clone().unwrap_or_default();
        let symbols = symbols::Options { kallsyms, kernel_images: Vec::new(), ..options.symbols.clone() };
        Some(Self { files, symbolizer: Symbolizer::new(symbols), vmlinux: None, assumed: false })
    }

    /// The functions at addresses of a recording.
    ///
    /// # Errors
    /// The files are not of the kernel of the recording, or whether they are is not known.
    pub(crate) fn find(
        &mut self,
        recorded: &KernelImage,
        addresses: &[Avma],
    ) -> Result<Vec<Vec<SourceLine>>, String> {
        let mut there = KernelText { text: recorded.text, stext: recorded.stext, etext: None };
        let mut names = vec![Vec::new(); addresses.len()];
        if let Some(list) = self.files.system_map.clone() {
            let placed = self.place_list(&list, there, addresses)?;
            self.look_up_in_list(&placed, recorded, addresses, &mut names);
            there = placed.marks;
        }
        if let Some(vmlinux) = self.files.vmlinux.clone() {
            let placed = self.place_vmlinux(&vmlinux, recorded, there, addresses)?;
            self.look_up_in_vmlinux(vmlinux, &placed, addresses, &mut names);
        }
        Ok(names)
    }

    /// What else is to be said.
    pub(crate) fn told(&mut self) -> Option<String> {
        std::mem::take(&mut self.assumed).then(|| {
            "where the kernel was loaded is not known, because it hid its addresses from the capture: its code is looked up as if it had \
             been where the given file has it"
                .to_owned()
        })
    }

    fn place_list(&mut self, path: &Path, there: KernelText, addresses: &[Avma]) -> Result<Placed, String> {
        match self.symbolizer.kernel_names() {
            KernelNames::Known(_) => {}
            KernelNames::Hidden => return Err(format!("{}: all addresses in it are zero", path.display())),
            KernelNames::Unreadable(reason) => return Err(reason),
        }
        let here = self.symbolizer.kernel_text();
        let placed = place(path, there, here)?;
        if is_unknown(there) {
            let of_modules = |address: u64| {
                let lines = self.symbolizer.kernel(&[address]).pop().unwrap_or_default();
                lines.first().is_some_and(|line| module_of(line).is_some())
            };
            check_as_they_stand(path, &placed, addresses, of_modules)?;
            self.assumed = true;
        }
        Ok(placed)
    }

    fn place_vmlinux(
        &mut self,
        path: &Path,
        recorded: &KernelImage,
        there: KernelText,
        addresses: &[Avma],
    ) -> Result<Placed, String> {
        if self.vmlinux.is_none() {
            self.vmlinux = KernelFile::read(path);
        }
        let file = self.vmlinux.as_ref();
        let file = file.ok_or_else(|| format!("{}: no kernel with a symbol table", path.display()))?;
        if let (Some(theirs), Some(ours)) = (&recorded.build_id, &file.build_id)
            && theirs != ours
        {
            return Err(format!(
                "{} has the build-id {ours}, the kernel of the capture {theirs}",
                path.display()
            ));
        }
        let placed = place(path, there, file.text)?;
        if is_unknown(there) {
            check_as_they_stand(path, &placed, addresses, |_| false)?;
            self.assumed = true;
        }
        Ok(placed)
    }

    fn look_up_in_list(
        &mut self,
        placed: &Placed,
        recorded: &KernelImage,
        addresses: &[Avma],
        names: &mut [Vec<SourceLine>],
    ) {
        // Of another start, modules are elsewhere, and the list does not tell where they began.
        let has_modules = placed.distance == 0;
        let here: Vec<u64> =
            addresses.iter().map(|address| placed.in_file(*address).unwrap_or(address.0)).collect();
        let found = self.symbolizer.kernel(&here);
        for ((address, lines), name) in addresses.iter().zip(found).zip(names) {
            let Some(module) = lines.first().map(module_of) else { continue };
            let is_right = match module {
                None => placed.code.contains(&address.0),
                Some(module) => has_modules && may_be_in(recorded, *address, module),
            };
            if is_right {
                *name = lines;
            }
        }
    }

    /// Lines and inlined calls, and names where there is no list.
    fn look_up_in_vmlinux(
        &mut self,
        path: PathBuf,
        placed: &Placed,
        addresses: &[Avma],
        names: &mut [Vec<SourceLine>],
    ) {
        let display_path = path.to_string_lossy().into_owned();
        let file = ObjectFile { source: ObjectSource::Path(path), display_path, root: None, build_id: None };
        let in_file = |(position, address): (usize, &Avma)| Some((position, placed.in_file(*address)?));
        let (positions, svmas): (Vec<usize>, Vec<_>) = addresses
            .iter()
            .enumerate()
            .filter_map(in_file)
            .map(|(at, svma)| (at, profile::Svma(svma)))
            .unzip();
        for (position, lines) in positions.into_iter().zip(self.symbolizer.object(&file, &svmas)) {
            if names[position].is_empty() || lines.iter().any(|line| line.line != 0) {
                names[position] = lines;
            }
        }
    }
}

fn is_unknown(marks: KernelText) -> bool {
    marks.text.or(marks.stext).is_none()
}

/// Where the code of a file was in the recording, by the marks that both have; at the same place if the recording has none.
fn place(path: &Path, there: KernelText, here: KernelText) -> Result<Placed, String> {
    let path = path.display();
    let Some((start, end)) = here.stext.or(here.text).zip(here.etext) else {
        return Err(format!("{path} lacks the symbols _stext and _etext"));
    };
    let pairs = [there.text.zip(here.text), there.stext.zip(here.stext)];
    let mut distances = pairs.into_iter().flatten().map(|(there, here)| here.0.wrapping_sub(there.0));
    let distance = match distances.next() {
        Some(first) if distances.any(|other| other != first) || !first.is_multiple_of(PAGE) => {
            return Err(format!("{path} is of another kernel than the capture: its code begins elsewhere"));
        }
        Some(distance) => distance,
        None if is_unknown(there) => 0,
        None => return Err(format!("{path} lacks the symbols _text and _stext")),
    };
    let moved = |address: Avma| Avma(address.0.wrapping_sub(distance));
    let marks =
        KernelText { text: here.text.map(moved), stext: here.stext.map(moved), etext: here.etext.map(moved) };
    Ok(Placed { code: moved(start).0..moved(end).0, distance, marks })
}

/// Whether all code of the recording near the kernel is where a file has code.
fn check_as_they_stand(
    path: &Path,
    placed: &Placed,
    addresses: &[Avma],
    mut of_modules: impl FnMut(u64) -> bool,
) -> Result<(), String> {
    let start = placed.code.start;
    let is_near =
        |address: u64| address.abs_diff(start) < REACH && (address < X86_MODULES || start >= X86_MODULES);
    let stray = addresses
        .iter()
        .map(|address| address.0)
        .find(|address| is_near(*address) && !placed.code.contains(address) && !of_modules(*address));
    match stray {
        Some(address) => Err(format!(
            "the capture does not tell where its kernel was loaded, and has code at {address:#x}, where {} has none: give a copy of \
             /proc/kallsyms from the same start of the machine",
            path.display()
        )),
        None => Ok(()),
    }
}

/// The module in a name.
fn module_of(line: &SourceLine) -> Option<&str> {
    line.name.strip_prefix(&*line.system_name)?.strip_prefix(" [")?.strip_suffix(']')
}

/// Whether code of a recording may be of this module: it lies there, or the recording knows no modules. Code that was made at run time
/// may have been replaced since.
fn may_be_in(recorded: &KernelImage, address: Avma, module: &str) -> bool {
    let is_made = module == "bpf" || module.starts_with("__builtin__");
    let is_there = |of: &recording::KernelModule| of.holds(address) && of.name == module;
    !is_made && (recorded.modules.is_empty() || recorded.modules.iter().any(is_there))
}

#[cfg(test)]
mod tests {
    use recording::KernelModule;

    use super::*;

    const LIST: &str = "\
ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81000100 t do_work
ffffffff81000200 t other
ffffffff81001000 T _etext
ffffffffc0000000 t hook\t[nf_tables]
ffffffffc0002000 t bpf_prog_0123_x\t[bpf]
";
    const TEXT: u64 = 0xffff_ffff_8100_0000;
    const MODULE: u64 = 0xffff_ffff_c000_0000;

    fn with_list(list: &str) -> (tempfile::NamedTempFile, GivenKernel) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, list).unwrap();
        let kernel_files = KernelFiles { system_map: Some(file.path().to_owned()), vmlinux: None };
        let given = GivenKernel::new(&Options { kernel_files, ..Options::default() }).unwrap();
        (file, given)
    }

    fn recorded(text: Option<u64>, modules: Vec<KernelModule>) -> KernelImage {
        KernelImage { text: text.map(Avma), stext: text.map(Avma), modules, ..KernelImage::default() }
    }

    fn names(
        given: &mut GivenKernel,
        recorded: &KernelImage,
        addresses: &[u64],
    ) -> Result<Vec<String>, String> {
        let addresses: Vec<_> = addresses.iter().copied().map(Avma).collect();
        let found = given.find(recorded, &addresses)?;
        Ok(found
            .iter()
            .map(|lines| lines.first().map_or(String::new(), |line| line.name.to_string()))
            .collect())
    }

    #[test]
    fn a_list_names_code_that_was_loaded_elsewhere_by_the_distance_of_the_beginnings() {
        let (_file, mut given) = with_list(LIST);
        let shift = 0x1c00_0000;
        let recorded = recorded(Some(TEXT + shift), Vec::new());
        let places = [
            TEXT + shift + 0x110,
            TEXT + shift + 0x210,
            TEXT + 0x110,
            TEXT + shift + 0x1000,
            MODULE,
            7,
            u64::MAX,
        ];
        assert_eq!(names(&mut given, &recorded, &places).unwrap(), ["do_work", "other", "", "", "", "", ""]);
        assert_eq!(given.told(), None);
    }

    #[test]
    fn a_list_of_the_same_start_names_modules_where_the_recording_has_them_and_no_code_made_at_run_time() {
        let (_file, mut given) = with_list(LIST);
        let module = |name: &str| KernelModule {
            name: name.to_owned(),
            text: Avma(MODULE),
            size: 0x4000,
            build_id: None,
        };
        let places = [TEXT + 0x110, MODULE + 0x10, MODULE + 0x2010];
        for (modules, expected) in [
            (vec![module("nf_tables")], ["do_work", "hook [nf_tables]", ""]),
            (vec![module("ext4")], ["do_work", "", ""]),
            (Vec::new(), ["do_work", "hook [nf_tables]", ""]),
        ] {
            assert_eq!(names(&mut given, &recorded(Some(TEXT), modules), &places).unwrap(), expected);
        }
    }

    #[test]
    fn without_a_beginning_the_list_must_have_code_where_the_recording_has_it() {
        let (_file, mut given) = with_list(LIST);
        let hidden = recorded(None, Vec::new());
        let found = names(&mut given, &hidden, &[TEXT + 0x110, MODULE + 0x10]).unwrap();
        assert_eq!(found, ["do_work", "hook [nf_tables]"]);
        assert!(given.told().is_some_and(|line| line.contains("is not known")));
        let reason = names(&mut given, &hidden, &[TEXT + 0x110, TEXT + 0x20_0110]).unwrap_err();
        assert!(reason.contains("0xffffffff81200110"), "{reason}");
    }

    /// A program that stands for a kernel: `do_work` is on line 2. `None`: no compiler is installed.
    fn vmlinux(folder: &Path) -> Option<(PathBuf, KernelFile, u64)> {
        let text = "\n\
            __attribute__((noinline)) int do_work(int x) { return x + 1; }\n\
            int main(int c, char **v) { return do_work(c); }\n\
            __asm__(\".globl _etext\\n\");\n";
        std::fs::write(folder.join("a.c"), text).unwrap();
        let run = |command: &str| testkit::run_tool(folder, command.split(' '));
        run(
            "gcc -g -O1 -no-pie -Wl,--build-id,--defsym=_text=0x401000,--defsym=_stext=0x401000,--defsym=_etext=0x410000 -o vmlinux a.c",
        )?;
        let symbols = run("nm vmlinux")?;
        let line = symbols.lines().find(|line| line.ends_with(" T do_work")).unwrap();
        let address = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
        let path = folder.join("vmlinux");
        let file = KernelFile::read(&path).unwrap();
        Some((path, file, address))
    }

    #[test]
    fn an_image_gives_lines_and_needs_the_build_id_of_the_capture() {
        let folder = tempfile::tempdir().unwrap();
        let Some((path, file, linked)) = vmlinux(folder.path()) else { return };
        let shift = TEXT - 0x40_1000;
        let list = format!(
            "{TEXT:x} T _text\n{TEXT:x} T _stext\n{:x} T do_work\n{:x} T _etext\n",
            linked + shift,
            0x41_0000 + shift
        );
        let system_map = folder.path().join("System.map");
        std::fs::write(&system_map, list).unwrap();
        let find = |vmlinux: bool, map: bool, recorded: &KernelImage| {
            let kernel_files = KernelFiles {
                vmlinux: vmlinux.then(|| path.clone()),
                system_map: map.then(|| system_map.clone()),
            };
            let mut given = GivenKernel::new(&Options { kernel_files, ..Options::default() }).unwrap();
            let found = given.find(recorded, &[Avma(linked + shift), Avma(5)])?;
            assert!(found[1].is_empty());
            Ok::<_, String>(found[0].first().map(|line| (line.name.to_string(), line.line)))
        };
        let named = |line| Ok(Some(("do_work".to_owned(), line)));
        let mut known = recorded(Some(TEXT), Vec::new());
        assert_eq!(find(true, false, &known), named(2));
        assert_eq!(find(false, true, &known), named(0));
        assert_eq!(find(true, true, &known), named(2));
        let hidden = KernelImage { build_id: file.build_id.clone(), ..KernelImage::default() };
        assert_eq!(find(true, true, &hidden), named(2), "the list tells where the kernel was loaded");
        known.build_id = Some("01020304".parse().unwrap());
        assert!(find(true, false, &known).unwrap_err().contains("build-id"));
        known.build_id = file.build_id;
        assert_eq!(find(true, true, &known), named(2));
        std::fs::write(&path, "no kernel").unwrap();
        assert!(find(true, false, &known).unwrap_err().contains("no kernel with a symbol table"));
    }

    #[test]
    fn a_list_of_another_kernel_is_refused() {
        let (file, mut given) = with_list(LIST);
        let mut other = recorded(Some(TEXT), Vec::new());
        for stext in [TEXT + 0x1000, TEXT + 0x40] {
            other.stext = Some(Avma(stext));
            let reason = names(&mut given, &other, &[TEXT + 0x110]).unwrap_err();
            assert!(reason.contains("another kernel"), "{reason}");
        }
        let odd = recorded(Some(TEXT + 0x10), Vec::new());
        assert!(names(&mut given, &odd, &[TEXT + 0x110]).unwrap_err().contains("another kernel"));
        let of = |list: &str| {
            let (_file, mut given) = with_list(list);
            names(&mut given, &recorded(Some(TEXT), Vec::new()), &[TEXT]).unwrap_err()
        };
        assert!(of("0000000000000000 T _text\n").contains("zero"));
        assert!(of("").contains("empty"));
        assert!(of("ffffffff81000000 T _text\n").contains("_etext"));
        drop(file);
    }
}
