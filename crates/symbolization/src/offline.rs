//! Names for a finished recording, from the files of this machine alone.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use recording::{
    CodeMappingId, CodeObject, CodeObjectId, ExecInstanceId, KernelImage, ModuleId, Recording,
    SymbolizedRecording,
};

use crate::abandon::AbandonToken;
use crate::deliveries::{Deliveries, FrameContext};
use crate::engine::Engine;
use crate::figures::Figures;
use crate::interval::Interval;
use crate::options::Options;
use crate::path_file::PathFile;
use crate::request::ModuleFile;
use crate::sources::Sources;
use crate::work::{ModuleHandle, ProgramHandle};

/// Names recordings, on the thread that made it. Several intervals of a capture share what was found.
pub struct Symbolizer {
    engine: Engine,
    figures: Arc<Mutex<Figures>>,
    abandon: AbandonToken,
    symbol_dirs: Vec<PathBuf>,
}

impl Symbolizer {
    /// With all sources of this crate.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self::with_sources(Sources::standard(&options), &options, AbandonToken::new())
    }

    /// With the sources given. `abandon` ends it early.
    #[must_use]
    pub fn with_sources(sources: Sources, options: &Options, abandon: AbandonToken) -> Self {
        let figures = Arc::default();
        let (theirs, observer) = (Arc::clone(&figures), Box::new(|_, _| {}));
        let engine = Engine::new(sources.make(), options.cached_places, theirs, observer, abandon.clone());
        Self { engine, figures, abandon, symbol_dirs: options.symbol_dirs.clone() }
    }

    /// Names a recording. Files are found by their paths and must prove to be those of the recording, see [`PathFile`]. Kernel frames are
    /// named from the files of [`Options::kernel_files`], else if the machine was not started since the recording, or if the same kernel runs
    /// here and both tell where they were loaded.
    /// Code that was made at run time has no name any more.
    pub fn symbolize(&mut self, recording: Recording) -> SymbolizedRecording {
        self.symbolize_again(SymbolizedRecording { recording, ..SymbolizedRecording::default() })
    }

    /// Names a recording anew. Frames that cannot be named here keep the names that they have. The ledgers stay as they are: they tell of
    /// the names of the live run.
    pub fn symbolize_again(&mut self, named: SymbolizedRecording) -> SymbolizedRecording {
        let SymbolizedRecording { recording, names, ledgers } = named;
        let interval = Interval::with_names(names);
        self.engine.begin_interval();
        let files = Files { recording: &recording, symbol_dirs: &self.symbol_dirs };
        for work in Deliveries::new().take_rest(recording.frames.iter(), &files) {
            interval.add_submitted(work.len());
            if !self.abandon.is_abandoned() {
                self.engine.answer(&interval, work);
            }
        }
        self.engine.end_interval(&interval);
        SymbolizedRecording { recording, names: interval.take_names(), ledgers }
    }

    /// Figures so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Symbolizer {
    fn drop(&mut self) {
        self.engine.keep();
    }
}

/// What the frames of a recording refer to, with files by their paths, or by their build-ids in directories of symbols.
struct Files<'a> {
    recording: &'a Recording,
    symbol_dirs: &'a [PathBuf],
}

impl FrameContext for Files<'_> {
    fn module_of(&self, mapping: CodeMappingId) -> Option<ModuleId> {
        self.recording.mapping(mapping).map(|(mapping, _)| mapping.module)
    }

    fn module(&self, id: ModuleId) -> Option<ModuleHandle> {
        let module = self.recording.module(id)?;
        let file = PathFile::of(module).map(|file| file.or_in(self.symbol_dirs));
        let file = file.map(|file| Arc::new(file) as Arc<dyn ModuleFile>);
        Some(ModuleHandle { module: Arc::new(module.clone()), file })
    }

    fn program(&self, id: ExecInstanceId) -> Option<ProgramHandle> {
        let program = Arc::new(self.recording.exec_instance(id)?.clone());
        Some(ProgramHandle { program, live: None })
    }

    fn code_object(&self, id: CodeObjectId) -> Option<Arc<CodeObject>> {
        self.recording.code_object(id).map(|code| Arc::new(code.clone()))
    }

    fn kernel(&self) -> Option<Arc<KernelImage>> {
        Some(Arc::new(self.recording.kernel.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;

    use profile::{Avma, FileOffset, Svma};
    use recording::{
        CodeMapping, ExecInstance, FileIdentity, Frame, FrameId, KernelNaming, Module, ModuleKind, NameLine,
        Names,
    };
    use symbols::SourceLine;

    use crate::path_file::build_id_of;
    use crate::request::Request;
    use crate::source::{Answer, SymbolSource};

    use super::*;

    /// This test program as a module, with addresses in its code.
    fn own_module() -> (Module, Vec<Svma>) {
        let path = std::env::current_exe().unwrap();
        let meta = std::fs::metadata(&path).unwrap();
        let identity = FileIdentity {
            size: meta.len(),
            mtime_ns: meta.mtime() * 1_000_000_000 + meta.mtime_nsec(),
            ..FileIdentity::default()
        };
        let bytes = std::fs::read(&path).unwrap();
        let build_id = build_id_of(&File::open(&path).unwrap());
        let entry = u64::from_le_bytes(bytes[24..32].try_into().unwrap());
        let path = path.to_str().unwrap().to_owned();
        (
            Module { path, build_id, kind: ModuleKind::Elf, identity },
            (0..100).map(|n| Svma(entry + n * 4096)).collect(),
        )
    }

    fn mapping(module: u32) -> CodeMapping {
        CodeMapping {
            module: ModuleId(module),
            start: Svma(0),
            limit: Svma(1 << 40),
            file_offset: FileOffset(0),
        }
    }

    fn native(mapping: u32, svma: Svma) -> Frame {
        Frame::Native { mapping: CodeMappingId(mapping), svma, exact: true }
    }

    fn recording(modules: Vec<Module>, frames: Vec<Frame>) -> Recording {
        let mappings = (0..modules.len() as u32).map(mapping).collect();
        Recording { modules, mappings, frames, ..Recording::default() }
    }

    #[test]
    fn a_recording_of_this_program_gets_the_names_in_its_file() {
        let (module, svmas) = own_module();
        let mut changed = module.clone();
        changed.identity.size += 1;
        changed.build_id = changed.build_id.map(|_| "01020304".parse().unwrap());
        let frames: Vec<_> = [0, 1].iter().flat_map(|m| svmas.iter().map(|svma| native(*m, *svma))).collect();
        let mut symbolizer = Symbolizer::new(Options::default());
        let named = symbolizer.symbolize(recording(vec![module, changed], frames));
        let found = named.names.frames().filter(|frame| frame.0 < 100).count();
        assert!(found > 50, "{found}");
        assert_eq!(named.names.len(), found, "no name comes from a file that is another one");
        assert_eq!(symbolizer.figures().named, found as u64);
        assert_eq!(named.names.outcome.abandoned, 0);
        assert_eq!(named.recording.frames.len(), 200);
        // The next recording of the same capture.
        let again = symbolizer.symbolize(named.recording);
        assert_eq!((again.names.len(), symbolizer.figures().from_cache), (found, 100));
    }

    #[test]
    fn references_that_lead_nowhere_and_hostile_paths_cost_their_own_names() {
        let (module, svmas) = own_module();
        let at_path = |path: &str| Module { path: path.to_owned(), ..module.clone() };
        let paths = ["/dev/zero", "/proc/self/exe", "/proc/1/root/bin/sh", "", "\0", "/", "a\nb"];
        let mut modules: Vec<Module> = paths.iter().map(|path| at_path(path)).collect();
        modules.push(module.clone());
        let mut frames: Vec<Frame> = (0..20).map(|mapping| native(mapping, svmas[0])).collect();
        frames.extend([
            native(7, Svma(u64::MAX)),
            Frame::Kernel { address: u64::MAX, exact: false },
            Frame::Jit { program: ExecInstanceId(5), address: Avma(1), exact: false },
            Frame::Interpreted { code: CodeObjectId(5), instruction: 1 },
            Frame::Unknown { address: Avma(0) },
        ]);
        let mut recording = recording(modules, frames);
        recording.mappings[2].module = ModuleId(1000);
        let named = Symbolizer::new(Options::default()).symbolize(recording);
        assert_eq!(named.names.frames().collect::<Vec<_>>(), [FrameId(7)]);
    }

    /// Names everything that it is asked for by what it is.
    struct NamesAll;

    impl SymbolSource for NamesAll {
        fn name(&self) -> &str {
            "test"
        }

        fn lookup(&mut self, request: &Request) -> Answer {
            let (name, count) = match request {
                Request::Kernel(request) => ("kernel", request.addresses.len()),
                Request::Interpreted(request) => (request.code.name.as_str(), request.instructions.len()),
                _ => return Answer::NotMine,
            };
            let line = SourceLine { name: format!("test of {name}").into(), ..SourceLine::default() };
            Answer::Names(vec![vec![line]; count])
        }
    }

    fn name(named: &SymbolizedRecording, frame: u32) -> Option<&str> {
        named.names.of(FrameId(frame)).next().map(|line| line.name)
    }

    #[test]
    fn frames_of_another_kernel_keep_their_names_unless_a_source_knows_it() {
        let mut recording = recording(Vec::new(), vec![Frame::Kernel { address: 1, exact: true }]);
        recording.kernel.build_id = Some("01020304".parse().unwrap());
        let mut symbolizer = Symbolizer::new(Options::default());
        let named = symbolizer.symbolize(recording.clone());
        assert_eq!((name(&named, 0), named.names.outcome.abandoned), (None, 0));
        assert!(matches!(named.names.outcome.kernel, KernelNaming::Unreadable(_)));

        let mut names = Names::default();
        names.enter(FrameId(0), [NameLine { name: "of the live run", ..NameLine::default() }]);
        names.outcome.kernel = KernelNaming::Known;
        let mut named = SymbolizedRecording { recording: recording.clone(), names, ledgers: Vec::new() };
        for _ in 0..2 {
            named = symbolizer.symbolize_again(named);
            assert_eq!(name(&named, 0), Some("of the live run"));
            let outcome = &named.names.outcome;
            assert_eq!((&outcome.kernel, outcome.shortfalls.len()), (&KernelNaming::Known, 1));
            let reason = "kernel frames keep the names of the recording: the recording is of another kernel";
            assert!(outcome.shortfalls[0].starts_with(reason), "{outcome:?}");
        }

        let sources = Sources::standard(&Options::default()).first(|| Box::new(NamesAll));
        let mut symbolizer = Symbolizer::with_sources(sources, &Options::default(), AbandonToken::new());
        let named = symbolizer.symbolize(recording);
        assert_eq!(name(&named, 0), Some("test of kernel"));
        assert_eq!(named.names.outcome.kernel, KernelNaming::Known);
    }

    #[test]
    fn interpreted_frames_are_named_from_their_code_or_by_a_source_that_is_asked_first() {
        let code = CodeObject {
            name: "shop.checkout".to_owned(),
            file: "/app/shop.py".to_owned(),
            first_line: 10,
            lines: vec![(0, 11), (6, 13)],
        };
        let frame = |instruction| Frame::Interpreted { code: CodeObjectId(0), instruction };
        let mut recording = recording(Vec::new(), vec![frame(2), frame(6)]);
        recording.code_objects.push(code);
        let named = Symbolizer::new(Options::default()).symbolize(recording.clone());
        let expected = |line| NameLine {
            name: "shop.checkout",
            system_name: "shop.checkout",
            file: "/app/shop.py",
            line,
            column: 0,
            start_line: 10,
        };
        let lines = |frame| named.names.of(FrameId(frame)).collect::<Vec<_>>();
        assert_eq!((lines(0), lines(1)), (vec![expected(11)], vec![expected(13)]));
        let options = Options::default();
        let sources = Sources::standard(&options).first(|| Box::new(NamesAll));
        let named = Symbolizer::with_sources(sources, &options, AbandonToken::new()).symbolize(recording);
        assert_eq!(name(&named, 0), Some("test of shop.checkout"));
    }

    #[test]
    fn names_that_cannot_be_found_here_stay() {
        let mut names = Names::default();
        let before = |name| NameLine { name, ..NameLine::default() };
        (0..3).for_each(|frame| names.enter(FrameId(frame), [before("of the live run")]));
        let (module, svmas) = own_module();
        let frames = vec![
            Frame::Jit { program: ExecInstanceId(0), address: Avma(1), exact: false },
            Frame::Kernel { address: 1, exact: true },
            native(0, svmas[0]),
        ];
        let mut recording = recording(vec![module], frames);
        recording.exec_instances.push(ExecInstance {
            pid: std::process::id(),
            began_ns: 1,
            ended_ns: None,
            labels: Vec::new(),
        });
        let named = SymbolizedRecording { recording, names, ledgers: Vec::new() };
        let named = Symbolizer::new(Options::default()).symbolize_again(named);
        assert_eq!([name(&named, 0), name(&named, 1)], [Some("of the live run"); 2]);
        assert_eq!(name(&named, 2), Some("_start"));
    }

    #[test]
    fn an_abandoned_recording_says_how_much_was_left() {
        let (module, svmas) = own_module();
        let abandon = AbandonToken::new();
        abandon.abandon();
        let options = Options::default();
        let mut symbolizer = Symbolizer::with_sources(Sources::standard(&options), &options, abandon);
        let named = symbolizer.symbolize(recording(vec![module], vec![native(0, svmas[0])]));
        assert_eq!((named.names.len(), named.names.outcome.abandoned), (0, 1));
    }

    /// A stripped program whose debug information is a separate file, and the address of its function `secret`.
    fn stripped_program(folder: &Path) -> Option<(Module, Svma, Options)> {
        let text = "static __attribute__((noinline)) int secret(int x) { return x * 7; }\n\
                    int main(int argc, char **argv) { return secret(argc); }\n";
        std::fs::write(folder.join("app.c"), text).unwrap();
        run(folder, "gcc -g -O1 -Wl,--build-id -o app app.c")?;
        let symbols = run(folder, "nm app")?;
        let line = symbols.lines().find(|line| line.ends_with(" t secret")).unwrap();
        let secret = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
        run(folder, "objcopy --only-keep-debug app app.debug")?;
        run(folder, "strip --strip-debug app")?;
        run(folder, "objcopy --add-gnu-debuglink=app.debug app")?;
        let path = folder.join("app");
        let build_id = build_id_of(&File::open(&path).unwrap());
        let identity = FileIdentity::default();
        let path = path.to_str().unwrap().to_owned();
        let module = Module { path, build_id, kind: ModuleKind::Elf, identity };
        let mut options = Options::default();
        options.symbols.debug_dirs.clear();
        Some((module, Svma(secret), options))
    }

    /// `None` if the tool is not installed.
    fn run(folder: &Path, command: &str) -> Option<String> {
        testkit::run_tool(folder, command.split(' '))
    }

    #[test]
    fn a_function_without_a_symbol_is_known_by_its_start_until_its_name_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let Some((module, secret, options)) = stripped_program(folder.path()) else { return };
        let bare = folder.path().join("bare");
        std::fs::create_dir(&bare).unwrap();
        run(folder.path(), "strip -o bare/app app").unwrap();
        let path = bare.join("app").to_str().unwrap().to_owned();
        let stripped = Module { path, ..module.clone() };
        let frames = vec![native(0, secret), native(0, Svma(secret.0 + 2)), native(0, Svma(0))];
        let mut named = Symbolizer::new(options.clone()).symbolize(recording(vec![stripped], frames));
        let starts = |named: &SymbolizedRecording| [0, 1, 2].map(|frame| named.names.start(FrameId(frame)));
        assert_eq!((named.names.len(), starts(&named)), (0, [Some(secret), Some(secret), None]));
        named.recording.modules[0] = module;
        let named = Symbolizer::new(options).symbolize_again(named);
        assert_eq!(
            (name(&named, 0), name(&named, 1), starts(&named)),
            (Some("secret"), Some("secret"), [None; 3])
        );
    }

    #[test]
    fn without_the_source_of_debug_files_only_symbol_tables_give_names() {
        let folder = tempfile::tempdir().unwrap();
        let Some((module, secret, options)) = stripped_program(folder.path()) else { return };
        let line_at = |sources: Sources| {
            let mut symbolizer = Symbolizer::with_sources(sources, &options, AbandonToken::new());
            let named = symbolizer.symbolize(recording(vec![module.clone()], vec![native(0, secret)]));
            let line = named.names.of(FrameId(0)).next().unwrap();
            (line.name.to_owned(), line.file.ends_with("app.c"), line.line)
        };
        assert_eq!(line_at(Sources::standard(&options)), ("secret".to_owned(), true, 1));
        let without = Sources::standard(&options).without("debug file");
        assert_eq!(line_at(without), ("secret".to_owned(), false, 0));
    }
}
