//! One object file and all its sources of names.
//!
//! Asked in this order: the separate debug file of a file without debug information, then the mapped file: its debug information, the
//! table of a Go program, its symbol tables.

use std::fs::File;
use std::sync::Arc;

use crate::debug_file::{Search, load};
use crate::debug_info::{DebugInfo, Found};
use crate::demangle::{is_mangled, is_whole};
use crate::elf_file::{Bytes, ElfFile};
use crate::go::GoTable;
use crate::identity::identity;
use crate::object_file::{ObjectFile, ObjectSource};
use crate::object_symbols::ObjectSymbols;
use crate::options::Options;
use crate::record_store::RecordStoreError;
use crate::saved_names::SavedNames;
use crate::separate::{DebugFile, Separate};
use crate::source_line::SourceLine;
use crate::stamp::Stamp;
use crate::stats::Stats;
use crate::symbol_records::Symbol;
use crate::symtab::SymbolTable;
use crate::variables::variables;
use dwarf::SharedBytes;
use elf::constants::SHT_SYMTAB;
use profile::BuildId;
use sys::filemap::FileMap;

/// All sources of names for one object file.
pub(crate) struct Object {
    main: ElfFile,
    /// Its open file, where it has one.
    file: Option<File>,
    /// Its own debug information. `None` if there is none, if it cannot be read, or while it is being read.
    debug_info: Option<DebugInfo>,
    separate: Separate,
    symbols: ObjectSymbols,
    go: Option<GoTable>,
    /// It was counted if it has no names.
    judged: bool,
    recalled: Recalled,
}

/// Whether the records of earlier runs were asked for.
enum Recalled {
    NotYet,
    /// What is learned is of no use to later runs.
    Never,
    /// What identified the files then, and the records if there were any.
    Asked(Vec<u8>, Option<Arc<FileMap>>),
}

impl Object {
    /// Opens the mapped file. `file` is the open file behind `object`, if it is a file.
    pub fn open(object: &ObjectFile, file: Option<File>) -> Option<Self> {
        let main = match (&object.source, &file) {
            (ObjectSource::Bytes(bytes), _) => ElfFile::parse(Bytes::Memory(Arc::clone(bytes)))?,
            (ObjectSource::Path(_), Some(file)) => load(file)?,
            (ObjectSource::Path(_), None) => return None,
        };
        let this = Self {
            symbols: ObjectSymbols::default(),
            go: GoTable::find(&main),
            debug_info: main.has_dwarf().then(|| DebugInfo::of(&main)),
            file,
            separate: Separate::NotSearched,
            judged: false,
            recalled: Recalled::NotYet,
            main,
        };
        this.main.release();
        Some(this)
    }

    /// Frees what can be read again: decompressed sections, the pages of the files. Symbol tables and what was read of functions stay.
    pub fn release(&mut self) {
        self.debug_info.iter_mut().for_each(DebugInfo::release);
        self.main.release();
        if let Separate::Found(debug) = &mut self.separate {
            debug.release();
        }
        if let Recalled::Asked(_, Some(saved)) = &self.recalled {
            saved.release();
        }
    }

    /// The build-id, if there is no debug information, neither in the file nor in a separate debug file of this machine.
    pub fn lacking_debug_information(&mut self, object: &ObjectFile, options: &Options) -> Option<BuildId> {
        self.search_separate(&Search::of(object, options), object);
        let lacks = matches!(self.separate, Separate::Missing) && !self.main.has_dwarf();
        lacks.then(|| self.build_id(object)).flatten()
    }

    /// Uses a debug file that came from a server as the separate one, if it has the same build-id.
    pub fn add_debug_file(&mut self, debug: File, object: &ObjectFile) {
        let Some(elf) = load(&debug) else { return };
        if elf.build_id().is_some() && elf.build_id() == self.build_id(object) {
            self.set_separate(Separate::Found(Box::new(DebugFile::of((debug, elf), true))));
        }
    }

    fn build_id(&self, object: &ObjectFile) -> Option<BuildId> {
        self.main.build_id().or_else(|| object.build_id.clone())
    }

    /// What was learned with another separate file is forgotten.
    fn set_separate(&mut self, separate: Separate) {
        self.separate = separate;
        self.symbols.forget();
        self.recalled = Recalled::NotYet;
    }

    fn search_separate(&mut self, search: &Search<'_>, object: &ObjectFile) {
        if let Separate::NotSearched = self.separate {
            let own = self.main.has_dwarf();
            let build_id = self.build_id(object);
            let found = if own { None } else { search.debug_file(&self.main, build_id.as_ref()) };
            self.set_separate(match found {
                Some(found) => Separate::Found(Box::new(DebugFile::of(found, false))),
                None => Separate::Missing,
            });
        }
    }

    /// What identifies all files that answers come from. `None` if one of them may change without notice.
    fn identity(&mut self, search: &Search<'_>) -> Option<Vec<u8>> {
        let Self { main, file, debug_info, separate, .. } = self;
        let (file, mut debug_info) = (file.as_ref(), debug_info.as_mut());
        let separate = match separate {
            Separate::NotSearched => b"not searched".to_vec(),
            Separate::Missing => Vec::new(),
            Separate::Found(debug) => {
                let own = match &mut debug.debug_info {
                    Some(info) => info.identity_of_alternate(Some(&debug.file), search)?,
                    None => Vec::new(),
                };
                [identity(Some(&debug.file), &debug.elf, debug.is_fetched)?, own].concat()
            }
        };
        let alternate = match &mut debug_info {
            Some(info) => info.identity_of_alternate(file, search)?,
            None => Vec::new(),
        };
        let mut all = Vec::new();
        for part in [identity(file, main, false)?, separate, alternate] {
            all.extend_from_slice(&(part.len() as u32).to_le_bytes());
            all.extend_from_slice(&part);
        }
        Some(all)
    }

    /// The name of its records in a store.
    fn key(&self) -> Option<String> {
        let (device, inode) = Stamp::of(self.file.as_ref()?)?.place();
        Some(format!("file-{device:x}-{inode:x}"))
    }

    /// Uses what earlier runs learned of the same files, if nothing was learned so far.
    fn recall(&mut self, search: &Search<'_>, options: &Options, stats: &mut Stats) {
        let (Some(store), Recalled::NotYet) = (&options.records, &self.recalled) else { return };
        self.recalled = Recalled::Never;
        let (Some(identity), Some(key)) = (self.identity(search), self.key()) else { return };
        let found = store.load(&key).map(Arc::new);
        let used = found.filter(|found| {
            let is_used = self.restore(found, &identity, search);
            if !is_used {
                store.remove(&key);
            }
            is_used
        });
        stats.recalled_files += u64::from(used.is_some());
        self.recalled = Recalled::Asked(identity, used);
    }

    fn restore(&mut self, found: &Arc<FileMap>, identity: &[u8], search: &Search<'_>) -> bool {
        let Some(saved) = SavedNames::read(found).filter(|saved| found[saved.identity.clone()] == *identity)
        else {
            return false;
        };
        let bytes: SharedBytes = Arc::<FileMap>::clone(found);
        let (debug, mapped) = (saved.debug_symbols.clone(), saved.mapped_symbols.clone());
        if let Some(info) = self.any_debug_info()
            && !info.restore(&bytes, &saved, search)
        {
            return false;
        }
        self.symbols.restore(&bytes, debug, mapped)
    }

    /// The debug information that is in use: that of the file, else that of its separate debug file.
    fn any_debug_info(&mut self) -> Option<&mut DebugInfo> {
        match (&mut self.debug_info, &mut self.separate) {
            (Some(own), _) => Some(own),
            (None, Separate::Found(debug)) => debug.debug_info.as_mut(),
            (None, _) => None,
        }
    }

    /// Keeps what was learned for later runs, if there is anything new and the files are those that it was learned from. To be called once.
    pub fn save(&mut self, object: &ObjectFile, options: &Options) -> Result<(), RecordStoreError> {
        let Some(store) = options.records.as_deref() else { return Ok(()) };
        // What is saved is not saved again.
        let recalled = std::mem::replace(&mut self.recalled, Recalled::Never);
        let Recalled::Asked(identity, _) = recalled else { return Ok(()) };
        let has_news = self.any_debug_info().is_some_and(|info| info.has_news());
        if !has_news && !self.symbols.has_news()
            || self.identity(&Search::of(object, options)).as_ref() != Some(&identity)
        {
            return Ok(());
        }
        let functions = match self.any_debug_info() {
            Some(info) => info.save(),
            None => Some(Default::default()),
        };
        let (Some([split_files, functions, readable]), Some([debug, mapped]), Some(key)) =
            (functions, self.symbols.save(), self.key())
        else {
            return Ok(());
        };
        store.store(
            &key,
            &SavedNames::write([&identity, &split_files, &functions, &readable, &debug, &mapped]),
        )
    }

    /// Names link-time addresses from the separate debug file, in order. `None` if there is none, or if the mapped file has debug
    /// information itself. Empty for addresses that the mapped file knows better or that nobody knows.
    pub fn look_up_separate(
        &mut self,
        addresses: &[u64],
        object: &ObjectFile,
        options: &Options,
        stats: &mut Stats,
    ) -> Option<Vec<Vec<SourceLine>>> {
        let search = Search::of(object, options);
        self.search_separate(&search, object);
        self.recall(&search, options, stats);
        let Separate::Found(debug) = &mut self.separate else { return None };
        let (debug_info, file) = (debug.debug_info.take(), debug.file.try_clone().ok());
        let (debug_info, found) = self.find(debug_info, addresses, file.as_ref(), &search, stats);
        if let Separate::Found(debug) = &mut self.separate {
            debug.debug_info = debug_info;
        }
        let named = addresses.iter().zip(found).map(|(address, found)| {
            if !self.main.is_code(*address) {
                return Vec::new();
            }
            match self.with_symbol(*address, found) {
                Some(found) if is_located(&found) => self.with_mangled_name(*address, found),
                weak => self.without_location(*address, weak),
            }
        });
        let named = named.collect();
        self.count_cut_tables(stats);
        Some(named)
    }

    /// Names link-time addresses from the mapped file itself, in order. Innermost function first; empty for unknown addresses.
    pub fn look_up_mapped(
        &mut self,
        addresses: &[u64],
        object: &ObjectFile,
        options: &Options,
        stats: &mut Stats,
    ) -> Vec<Vec<SourceLine>> {
        let search = Search::of(object, options);
        self.recall(&search, options, stats);
        let debug_info = self.debug_info.take();
        let (debug_info, found) = self.find(debug_info, addresses, self.file.as_ref(), &search, stats);
        self.debug_info = debug_info;
        let named = addresses.iter().zip(found).map(|(address, found)| {
            if !self.main.is_code(*address) {
                return Vec::new();
            }
            match self.with_symbol(*address, found) {
                Some(found) if is_located(&found) => self.with_mangled_name(*address, found),
                weak => {
                    let symbol = || self.symbol(*address).map(|symbol| vec![symbol.line()]);
                    let known = self.go_lines(*address).or_else(symbol);
                    known.or(weak.map(|found| found.lines)).unwrap_or_default()
                }
            }
        });
        let named: Vec<Vec<SourceLine>> = named.collect();
        if !self.judged && !named.is_empty() {
            self.judged = true;
            // A file that has given a name has one.
            let is_nameless = named.iter().all(Vec::is_empty) && self.is_nameless();
            stats.nameless_files += u64::from(is_nameless);
        }
        self.count_cut_tables(stats);
        named
    }

    /// Whether there is code at a link-time address.
    pub fn is_code(&self, address: u64) -> bool {
        self.main.is_code(address)
    }

    /// The variables at link-time addresses, in order: from the separate debug file, else from the mapped file.
    pub fn variables(
        &mut self,
        addresses: &[u64],
        object: &ObjectFile,
        options: &Options,
    ) -> Vec<Option<SourceLine>> {
        self.search_separate(&Search::of(object, options), object);
        let mut found = match &self.separate {
            Separate::Found(debug) => variables(&debug.elf, addresses),
            Separate::NotSearched | Separate::Missing => vec![None; addresses.len()],
        };
        if found.iter().any(Option::is_none) {
            let mapped = variables(&self.main, addresses);
            found.iter_mut().zip(mapped).for_each(|(found, mapped)| *found = found.take().or(mapped));
        }
        found
    }

    /// Where the functions at link-time addresses begin, in order.
    pub fn function_starts(&self, addresses: &[u64]) -> Vec<Option<u64>> {
        self.symbols.function_starts(&self.main, addresses)
    }

    fn count_cut_tables(&self, stats: &mut Stats) {
        let of_debug_file = if let Separate::Found(debug) = &self.separate { debug.take_cut() } else { 0 };
        stats.cut_symbol_tables += self.symbols.take_cut() + of_debug_file;
    }

    /// What a separate debug file says of an address without file and line there. The mapped file comes before its debug information, and
    /// after its symbol table.
    fn without_location(&self, address: u64, weak: Option<Found>) -> Vec<SourceLine> {
        if self.go_lines(address).is_some() {
            return Vec::new();
        }
        if let Some(symbol) = self.symbols.debug(&self.main, &self.separate, address) {
            return vec![symbol.line()];
        }
        let known = self.symbols.mapped(&self.main, &self.separate, address).is_some();
        weak.filter(|_| !known).map(|found| found.lines).unwrap_or_default()
    }

    /// What debug information says of each address. It is dropped if it cannot be read.
    fn find(
        &self,
        mut debug_info: Option<DebugInfo>,
        addresses: &[u64],
        file: Option<&File>,
        search: &Search<'_>,
        stats: &mut Stats,
    ) -> (Option<DebugInfo>, Vec<Option<Found>>) {
        let is_told = SymbolTable::is_there(&self.main, SHT_SYMTAB)
            || matches!(&self.separate, Separate::Found(debug) if debug.has_symbol_table());
        let has_function = |address| !is_told || self.symbols.has(&self.main, &self.separate, address);
        let found =
            debug_info.as_mut().and_then(|info| info.find(addresses, file, search, &has_function, stats));
        if found.is_none() {
            debug_info = None;
        }
        (debug_info, found.unwrap_or_else(|| addresses.iter().map(|_| None).collect()))
    }

    /// Where debug information has a line but no function, as for assembly, the symbol table has the name.
    fn with_symbol(&self, address: u64, found: Option<Found>) -> Option<Found> {
        let mut found = found?;
        let outermost = found.lines.last_mut()?;
        if outermost.system_name.is_empty() {
            let symbol = self.symbol(address)?;
            (outermost.name, outermost.system_name) = (symbol.name, symbol.system_name);
        }
        Some(found)
    }

    fn go_lines(&self, address: u64) -> Option<Vec<SourceLine>> {
        self.go.as_ref()?.lookup(&self.main, address)
    }

    /// DWARF may have a function's name without parameters and namespaces. The symbol table has the full name.
    fn with_mangled_name(&self, address: u64, mut found: Found) -> Vec<SourceLine> {
        if let Some(outermost) = found.lines.last_mut()
            && !is_mangled(&outermost.system_name)
            && let Some(symbol) = self.symbol(address)
            && found.function.is_none_or(|function| function == symbol.start)
            && is_mangled(&symbol.system_name)
        {
            // Where the mangled name cannot be read, that of debug information is better.
            if is_whole(&symbol.system_name, &symbol.name) || outermost.name.is_empty() {
                outermost.name = symbol.name;
            }
            outermost.system_name = symbol.system_name;
        }
        found.lines
    }

    /// The symbol at an address.
    fn symbol(&self, address: u64) -> Option<Symbol> {
        let mapped = || self.symbols.mapped(&self.main, &self.separate, address);
        self.symbols.debug(&self.main, &self.separate, address).or_else(mapped)
    }

    /// Whether nothing in the file can give a name.
    fn is_nameless(&self) -> bool {
        let separate = match &self.separate {
            Separate::Found(debug) => debug.is_nameless(),
            Separate::NotSearched | Separate::Missing => true,
        };
        separate
            && self.debug_info.is_none()
            && self.go.is_none()
            && self.symbols.are_empty(&self.main, &self.separate)
    }

    /// Bytes that dropping this would free.
    pub fn heap_bytes(&self) -> usize {
        let separate = match &self.separate {
            Separate::Found(debug) => debug.heap_bytes(),
            Separate::NotSearched | Separate::Missing => 0,
        };
        self.symbols.heap_bytes() + separate + self.debug_info.as_ref().map_or(0, DebugInfo::heap_bytes)
    }
}

/// Whether debug information knows more than a name.
fn is_located(found: &Found) -> bool {
    found.lines.iter().any(|line| line.line != 0 || !line.file.is_empty())
}
