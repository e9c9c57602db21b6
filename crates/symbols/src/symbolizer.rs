//! The entry point: names for addresses of files and of the kernel, with a bounded cache of files that were read.

use std::path::Path;

use profile::{BuildId, Svma};

use crate::debug_file::open_regular;
use crate::kernel::{Kernel, KernelNames};
use crate::kernel_image::KernelImage;
use crate::kernel_text::KernelText;
use crate::kernel_variables::variables;
use crate::object_cache::ObjectCache;
use crate::object_file::{ObjectFile, ObjectSource};
use crate::options::Options;
use crate::source_line::SourceLine;
use crate::stats::Stats;

/// Finds names for addresses. Not `Send`: it stays on the thread that made it.
pub struct Symbolizer {
    options: Options,
    cache: ObjectCache,
    kernel: Option<Kernel>,
    kernel_image: Option<KernelImage>,
    stats: Stats,
}

impl Symbolizer {
    /// Reads nothing yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        if let Err(error) = sys::filemap::guard_against_truncation() {
            tracing::warn!("guard against files that shrink while they are read: {error}");
        }
        Self {
            options,
            cache: ObjectCache::default(),
            kernel: None,
            kernel_image: None,
            stats: Stats::default(),
        }
    }

    /// Names link-time addresses of a file, in the given order. Innermost inlined function first; empty for unknown
    /// addresses. Large batches are cheaper than many small ones. For callers, pass the address of the call instruction
    /// (return address − 1).
    pub fn object(&mut self, file: &ObjectFile, svmas: &[Svma]) -> Vec<Vec<SourceLine>> {
        let Some(mut names) = self.debug_file(file, svmas) else { return self.mapped_file(file, svmas) };
        let unnamed: Vec<usize> = (0..names.len()).filter(|index| names[*index].is_empty()).collect();
        if !unnamed.is_empty() {
            let rest: Vec<Svma> = unnamed.iter().map(|index| svmas[*index]).collect();
            unnamed
                .iter()
                .zip(self.mapped_file(file, &rest))
                .for_each(|(index, lines)| names[*index] = lines);
        }
        names
    }

    /// The part of [`Self::object`] that the separate debug file of a file tells. `None` if there is none, or if the file has debug
    /// information itself. Addresses without a name are to be asked of [`Self::mapped_file`].
    pub fn debug_file(&mut self, file: &ObjectFile, svmas: &[Svma]) -> Option<Vec<Vec<SourceLine>>> {
        let addresses: Vec<u64> = svmas.iter().map(|a| a.0).collect();
        let Self { options, cache, stats, .. } = self;
        let object = cache.entry(file, stats)?.as_mut()?;
        let names = object.look_up_separate(&addresses, file, options, stats);
        let named = names.iter().flatten().filter(|lines| !lines.is_empty()).count();
        self.stats.addresses += named as u64;
        self.cache.evict(&self.options, &mut self.stats);
        names
    }

    /// The build-id of a file without debug information, neither in the file nor in a separate debug file of this machine. `None`
    /// if it has debug information, has no build-id, or cannot be read.
    pub fn lacking_debug_information(&mut self, file: &ObjectFile) -> Option<BuildId> {
        let Self { options, cache, stats, .. } = self;
        cache.entry(file, stats)?.as_mut()?.lacking_debug_information(file, options)
    }

    /// From now on, as long as the file is kept, [`Self::debug_file`] answers from the debug file at `debug`, if that has the build-id of
    /// `file`.
    pub fn add_debug_file(&mut self, file: &ObjectFile, debug: &Path) {
        let Self { cache, stats, .. } = self;
        let object = cache.entry(file, stats).and_then(Option::as_mut);
        if let (Some(object), Some(debug)) = (object, open_regular(debug)) {
            object.add_debug_file(debug, file);
        }
    }

    /// The part of [`Self::object`] that a file tells itself: its own debug information, symbol tables and Go's table.
    pub fn mapped_file(&mut self, file: &ObjectFile, svmas: &[Svma]) -> Vec<Vec<SourceLine>> {
        let addresses: Vec<u64> = svmas.iter().map(|a| a.0).collect();
        let Self { options, cache, stats, .. } = self;
        let names = match cache.entry(file, stats) {
            Some(Some(object)) => object.look_up_mapped(&addresses, file, options, stats),
            Some(None) => vec![Vec::new(); svmas.len()],
            None => {
                stats.unreadable_files += 1;
                vec![Vec::new(); svmas.len()]
            }
        };
        self.stats.addresses += svmas.len() as u64;
        self.stats.unnamed += names.iter().filter(|n| n.is_empty()).count() as u64;
        self.cache.evict(&self.options, &mut self.stats);
        names
    }

    /// The variables at link-time addresses of a file, in order: for addresses that are no code. Empty for unknown addresses.
    pub fn variables(&mut self, file: &ObjectFile, svmas: &[Svma]) -> Vec<Vec<SourceLine>> {
        let Self { options, cache, stats, .. } = self;
        let mut names = vec![Vec::new(); svmas.len()];
        if let Some(Some(object)) = cache.entry(file, stats) {
            let data: Vec<usize> =
                (0..svmas.len()).filter(|index| !object.is_code(svmas[*index].0)).collect();
            let addresses: Vec<u64> = data.iter().map(|index| svmas[*index].0).collect();
            let found =
                if data.is_empty() { Vec::new() } else { object.variables(&addresses, file, options) };
            data.iter().zip(found).for_each(|(index, variable)| names[*index].extend(variable));
        }
        self.cache.evict(&self.options, &mut self.stats);
        names
    }

    /// Where the functions at link-time addresses of a file begin, in order: for addresses without a name. Symbols are not asked.
    pub fn function_starts(&mut self, file: &ObjectFile, svmas: &[Svma]) -> Vec<Option<Svma>> {
        let addresses: Vec<u64> = svmas.iter().map(|a| a.0).collect();
        let Self { cache, stats, .. } = self;
        let starts = match cache.entry(file, stats) {
            Some(Some(object)) => object.function_starts(&addresses),
            Some(None) | None => vec![None; svmas.len()],
        };
        self.cache.evict(&self.options, &mut self.stats);
        starts.into_iter().map(|start| start.map(Svma)).collect()
    }

    /// Names kernel addresses, in the given order; `[MODULE]` follows the names of modules and BPF programs. All are empty if
    /// the kernel hides its addresses: see [`Self::kernel_names`]. Files, lines and inlined functions are known if the debug
    /// information of the running kernel is installed.
    pub fn kernel(&mut self, addresses: &[u64]) -> Vec<Vec<SourceLine>> {
        let kernel = self.load_kernel();
        let mut names: Vec<Vec<SourceLine>> =
            addresses.iter().map(|a| kernel.find(*a).into_iter().collect()).collect();
        let data: Vec<usize> = (0..addresses.len()).filter(|i| kernel.has_data(addresses[*i])).collect();
        self.name_kernel_variables(addresses, &data, &mut names);
        let Some(image) = self.kernel_image.clone() else { return names };
        let is_own = |lines: &Vec<SourceLine>| lines.first().is_some_and(|l| l.name == l.system_name);
        let own: Vec<usize> = (0..names.len()).filter(|i| is_own(&names[*i]) && !data.contains(i)).collect();
        let svmas: Vec<Svma> = own.iter().map(|i| Svma(image.svma(addresses[*i]))).collect();
        let path = image.path;
        let display_path = path.to_string_lossy().into_owned();
        let file = ObjectFile { source: ObjectSource::Path(path), display_path, root: None, build_id: None };
        for (index, lines) in own.into_iter().zip(self.object(&file, &svmas)) {
            if lines.iter().any(|l| l.line != 0) {
                names[index] = lines;
            }
        }
        names
    }

    /// Names those of these addresses that are of variables of the kernel.
    fn name_kernel_variables(&self, addresses: &[u64], data: &[usize], names: &mut [Vec<SourceLine>]) {
        if data.is_empty() {
            return;
        }
        // Without the list there are no names, which was told already.
        let Ok(list) = std::fs::File::open(&self.options.kallsyms) else { return };
        let asked: Vec<u64> = data.iter().map(|index| addresses[*index]).collect();
        for (index, name) in data.iter().zip(variables(list, &asked)) {
            let line = |name: String| SourceLine {
                system_name: name.as_str().into(),
                name: name.into(),
                ..SourceLine::default()
            };
            names[*index] = name.map(line).into_iter().collect();
        }
    }

    /// Whether kernel addresses can be named, and why not.
    pub fn kernel_names(&mut self) -> KernelNames {
        self.load_kernel().names()
    }

    /// Where the running kernel was loaded.
    pub fn kernel_text(&mut self) -> KernelText {
        self.load_kernel().text()
    }

    /// Frees the debug information and the pages of the file that was looked up last. Its symbol tables stay in the cache;
    /// the rest is read again when it is needed.
    pub fn release_last(&mut self) {
        self.cache.release_last();
    }

    /// Keeps what was learned of files for later runs, in [`Options::records`]. To be called when nothing waits for names any more.
    pub fn save_records(&mut self) {
        self.cache.save(&self.options);
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn load_kernel(&mut self) -> &Kernel {
        self.kernel.get_or_insert_with(|| {
            let kernel = Kernel::read(&self.options.kallsyms);
            let text = kernel.text().text;
            self.kernel_image = text.and_then(|text| KernelImage::find(&self.options, text.0));
            kernel
        })
    }
}
