//! Names of kernel code, from the list of the running kernel and its debug information, or from files that the user gives for a recording.
//!
//! Code of a recording's kernel is looked up where it is in the running kernel. That is known if the machine was not started since, or
//! if the same kernel runs and both tell where they were loaded.

use profile::Avma;
use recording::{KernelImage, KernelNaming};
use symbols::{KernelNames, SourceLine, Symbolizer};

use crate::given_kernel::GivenKernel;
use crate::kernel_addresses::{Relation, Translation};
use crate::options::Options;
use crate::request::{KernelRequest, Request};
use crate::running_kernel::{kernel_identity, kernel_modules};
use crate::source::{Answer, SymbolSource};

/// The names under which the kernel lists code that was made at run time: behind an address of a recording there may be another one by
/// now.
const MADE_AT_RUN_TIME: [&str; 2] = [" [bpf]", " [__builtin__"];

/// The running kernel.
pub(super) struct Kernel {
    options: Options,
    symbolizer: Symbolizer,
    /// Files that are asked about recordings in place of the running kernel.
    given: Option<GivenKernel>,
    /// At the last request.
    naming: KernelNaming,
    /// Addresses of recordings in this interval that mean nothing here.
    elsewhere: u64,
}

impl Kernel {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            options: options.clone(),
            symbolizer: Symbolizer::new(options.symbols.clone()),
            given: GivenKernel::new(options),
            naming: KernelNaming::NotAsked,
            elsewhere: 0,
        }
    }

    /// The functions at addresses of a kernel, or why they cannot be looked up here.
    fn find(&mut self, request: &KernelRequest) -> Result<Vec<Vec<SourceLine>>, KernelNaming> {
        let Some(recorded) = &request.image else {
            self.check_list()?;
            let addresses: Vec<u64> = request.addresses.iter().map(|address| address.0).collect();
            return Ok(self.symbolizer.kernel(&addresses));
        };
        if let Some(given) = &mut self.given {
            return given.find(recorded, &request.addresses).map_err(KernelNaming::Unreadable);
        }
        let relation =
            Relation::of(recorded, &kernel_identity(&self.options)).map_err(KernelNaming::Unreadable)?;
        self.check_list()?;
        self.find_of_recording(relation, recorded, &request.addresses).map_err(KernelNaming::Unreadable)
    }

    fn find_of_recording(
        &mut self,
        relation: Relation,
        recorded: &KernelImage,
        addresses: &[Avma],
    ) -> Result<Vec<Vec<SourceLine>>, String> {
        let (text, modules) = (self.symbolizer.kernel_text(), kernel_modules(&self.options));
        let translation = Translation::new(relation, recorded, text, &modules)?;
        let here: Vec<Option<Avma>> = addresses.iter().map(|address| translation.here(*address)).collect();
        let known: Vec<u64> = here.iter().flatten().map(|address| address.0).collect();
        let mut found = self.symbolizer.kernel(&known).into_iter();
        let mut names = |here: &Option<Avma>| {
            let lines = here.and_then(|_| found.next()).unwrap_or_default();
            let is_kept = |line: &SourceLine| MADE_AT_RUN_TIME.iter().all(|mark| !line.name.contains(mark));
            if here.is_some() && lines.iter().all(is_kept) { Some(lines) } else { None }
        };
        let names: Vec<_> = here.iter().map(&mut names).collect();
        self.elsewhere += names.iter().filter(|lines| lines.is_none()).count() as u64;
        Ok(names.into_iter().map(Option::unwrap_or_default).collect())
    }

    fn check_list(&mut self) -> Result<(), KernelNaming> {
        match self.symbolizer.kernel_names() {
            KernelNames::Known(_) => Ok(()),
            KernelNames::Hidden => Err(KernelNaming::Hidden),
            KernelNames::Unreadable(reason) => Err(KernelNaming::Unreadable(reason)),
        }
    }
}

impl SymbolSource for Kernel {
    fn name(&self) -> &str {
        "kernel"
    }

    fn lookup(&mut self, request: &Request) -> Answer {
        let Request::Kernel(request) = request else { return Answer::NotMine };
        match self.find(request) {
            Ok(names) => {
                self.naming = KernelNaming::Known;
                Answer::Names(names)
            }
            Err(naming) => {
                self.naming = naming;
                Answer::NotMine
            }
        }
    }

    fn kernel_naming(&self) -> Option<KernelNaming> {
        Some(self.naming.clone())
    }

    fn end_interval(&mut self) -> Vec<String> {
        let elsewhere = std::mem::take(&mut self.elsewhere);
        let line = format!(
            "{elsewhere} kernel addresses of the recording are not looked up: they lie in modules that are not loaded here in the same \
             build, or in code that was made at run time"
        );
        let told = self.given.as_mut().and_then(GivenKernel::told);
        told.into_iter().chain((elsewhere > 0).then_some(line)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;

    fn with_list(list: &str) -> (Answer, Option<KernelNaming>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, list).unwrap();
        let mut options = Options::default();
        options.symbols.kallsyms = file.path().to_owned();
        options.symbols.kernel_images.clear();
        let mut kernel = Kernel::new(&options);
        let addresses = vec![Avma(0xffff_ffff_8100_0010), Avma(5)];
        let request = KernelRequest { image: None, addresses };
        (kernel.lookup(&Request::Kernel(request)), kernel.kernel_naming())
    }

    #[test]
    fn a_kernel_that_hides_its_addresses_is_told_from_one_without_a_name_for_an_address() {
        let (answer, naming) = with_list("ffffffff81000000 T do_work\n");
        let Answer::Names(names) = answer else { panic!("{answer:?}") };
        assert_eq!((names[0][0].name.as_str(), names[1].len()), ("do_work", 0));
        assert_eq!(naming, Some(KernelNaming::Known));
        assert_eq!(with_list("0000000000000000 T do_work\n"), (Answer::NotMine, Some(KernelNaming::Hidden)));
        let (answer, naming) = with_list("");
        assert_eq!(answer, Answer::NotMine);
        assert!(matches!(naming, Some(KernelNaming::Unreadable(_))), "{naming:?}");
    }

    const LIST: &str = "\
ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81000100 t do_work
ffffffff81000200 t other
ffffffff81001000 T _etext
ffffffffc0000000 t hook\t[nf_tables]
ffffffffc0002000 t bpf_prog_0123_x\t[bpf]
";

    /// This machine: its kernel has the build-id 01020304 and was started as `boot`.
    fn machine(folder: &Path, boot: &str) -> Options {
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(folder.join(name), bytes).unwrap();
            folder.join(name)
        };
        let mut options = Options::default();
        options.symbols.kallsyms = write("kallsyms", LIST.as_bytes());
        options.symbols.kernel_notes = write("notes", b"\x04\0\0\0\x04\0\0\0\x03\0\0\0GNU\0\x01\x02\x03\x04");
        options.symbols.kernel_images.clear();
        options.boot_id = write("boot_id", boot.as_bytes());
        options.kernel_modules = folder.join("modules");
        options
    }

    /// The kernel of a recording, whose `_text` was 2 MiB farther than it is here.
    fn recorded(boot: &str) -> KernelImage {
        KernelImage {
            build_id: Some("01020304".parse().unwrap()),
            release: "6.1.0".to_owned(),
            boot_id: Some(boot.to_owned()),
            text: Some(Avma(0xffff_ffff_8120_0000)),
            stext: Some(Avma(0xffff_ffff_8120_0000)),
            modules: Vec::new(),
        }
    }

    fn look_up(kernel: &mut Kernel, image: KernelImage, addresses: &[u64]) -> (Answer, Vec<String>) {
        let addresses = addresses.iter().map(|address| Avma(*address)).collect();
        let answer =
            kernel.lookup(&Request::Kernel(KernelRequest { image: Some(Arc::new(image)), addresses }));
        (answer, kernel.end_interval())
    }

    fn names(answer: &Answer) -> Vec<&str> {
        let Answer::Names(names) = answer else { panic!("{answer:?}") };
        names.iter().map(|lines| lines.first().map_or("", |line| line.name.as_str())).collect()
    }

    #[test]
    fn a_recording_of_another_start_is_named_by_the_distance_of_the_kernels() {
        let folder = tempfile::tempdir().unwrap();
        let mut kernel = Kernel::new(&machine(folder.path(), "second\n"));
        let addresses =
            [0xffff_ffff_8120_0110, 0xffff_ffff_8120_0210, 0xffff_ffff_8100_0110, 0xffff_ffff_c000_0010];
        let (answer, told) = look_up(&mut kernel, recorded("first"), &addresses);
        assert_eq!(names(&answer), ["do_work", "other", "", ""], "not what kallsyms has at these addresses");
        assert!(told[0].starts_with("2 kernel addresses"), "{told:?}");
        let mut other = recorded("first");
        other.build_id = Some("0a0b0c0d".parse().unwrap());
        let (answer, told) = look_up(&mut kernel, other, &addresses);
        assert_eq!((answer, told.len()), (Answer::NotMine, 0));
        let Some(KernelNaming::Unreadable(reason)) = kernel.kernel_naming() else { panic!() };
        assert!(reason.contains("another kernel"), "{reason}");
    }

    #[test]
    fn a_recording_of_this_start_is_named_but_for_code_that_was_made_at_run_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut kernel = Kernel::new(&machine(folder.path(), "first\n"));
        let mut image = recorded("first");
        (image.text, image.stext) = (None, None);
        let addresses = [0xffff_ffff_8100_0110, 0xffff_ffff_c000_0010, 0xffff_ffff_c000_2010];
        let (answer, told) = look_up(&mut kernel, image, &addresses);
        assert_eq!(names(&answer), ["do_work", "hook [nf_tables]", ""]);
        assert!(told[0].starts_with("1 kernel addresses"), "{told:?}");
    }
}
