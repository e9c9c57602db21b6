//! One object file and all its sources of names.
//!
//! Asked in this order: the separate debug file of a file without debug information, then the mapped file: its debug information, the
//! table of a Go program, its symbol tables.

use std::cell::OnceCell;
use std::fs::File;
use std::sync::Arc;

use crate::debug_file::{Search, load};
use crate::debug_info::{DebugInfo, Found};
use crate::demangle::{demangle, is_mangled};
use crate::elf_file::{Bytes, ElfFile};
use crate::go::GoTable;
use crate::mini::MiniDebugInfo;
use crate::object_file::{ObjectFile, ObjectSource};
use crate::options::Options;
use crate::plt::PltTable;
use crate::separate::{DebugFile, Separate};
use crate::source_line::{SourceLine, cut};
use crate::stats::Stats;
use crate::symtab::SymbolTable;
use elf::constants::{SHT_DYNSYM, SHT_SYMTAB};
use profile::BuildId;
use unwind::FunctionIndex;

/// All sources of names for one object file.
pub(crate) struct Object {
    main: ElfFile,
    /// Its open file, where it has one.
    file: Option<File>,
    /// Its own debug information. `None` if there is none, if it cannot be read, or while it is being read.
    debug_info: Option<DebugInfo>,
    separate: Separate,
    symbols: Option<SymbolTable>,
    /// The compressed symbol table of some stripped files. Looked at if there is no other.
    mini: OnceCell<Option<MiniDebugInfo>>,
    dynamic: Option<SymbolTable>,
    plt: PltTable,
    go: Option<GoTable>,
    /// Where its functions begin. Read if there is code without a name.
    functions: OnceCell<Option<FunctionIndex>>,
    /// It was counted if it has no names.
    judged: bool,
}

impl Object {
    /// Reads the tables of the mapped file. `file` is the open file behind `object`, if it is a file.
    pub fn open(object: &ObjectFile, file: Option<File>, stats: &mut Stats) -> Option<Self> {
        let main = match (&object.source, &file) {
            (ObjectSource::Bytes(bytes), _) => ElfFile::parse(Bytes::Memory(Arc::clone(bytes)))?,
            (ObjectSource::Path(_), Some(file)) => load(file)?,
            (ObjectSource::Path(_), None) => return None,
        };
        let this = Self {
            symbols: SymbolTable::read(&main, SHT_SYMTAB),
            dynamic: SymbolTable::read(&main, SHT_DYNSYM),
            plt: PltTable::read(&main),
            go: GoTable::find(&main),
            mini: OnceCell::new(),
            functions: OnceCell::new(),
            debug_info: main.has_dwarf().then(|| DebugInfo::of(&main)),
            file,
            separate: Separate::NotSearched,
            judged: false,
            main,
        };
        let tables = [&this.symbols, &this.dynamic].into_iter().flatten();
        stats.cut_symbol_tables += tables.filter(|table| table.is_cut()).count() as u64;
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
    }

    /// The build-id, if there is no debug information, neither in the file nor in a separate debug file of this machine.
    pub fn lacking_debug_information(
        &mut self,
        object: &ObjectFile,
        options: &Options,
        stats: &mut Stats,
    ) -> Option<BuildId> {
        if let Separate::NotSearched = self.separate {
            self.separate = self.search(&Search::of(object, options), object, stats);
        }
        let lacks = matches!(self.separate, Separate::Missing) && !self.main.has_dwarf();
        lacks.then(|| self.build_id(object)).flatten()
    }

    /// Uses a debug file from elsewhere as the separate one, if it has the same build-id.
    pub fn add_debug_file(&mut self, debug: File, object: &ObjectFile, stats: &mut Stats) {
        let Some(elf) = load(&debug) else { return };
        if elf.build_id().is_some() && elf.build_id() == self.build_id(object) {
            self.separate = Separate::Found(Box::new(DebugFile::read((debug, elf), stats)));
        }
    }

    fn build_id(&self, object: &ObjectFile) -> Option<BuildId> {
        self.main.build_id().or_else(|| object.build_id.clone())
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
        if let Separate::NotSearched = self.separate {
            self.separate = self.search(&search, object, stats);
        }
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
        Some(named.collect())
    }

    /// Names link-time addresses from the mapped file itself, in order. Innermost function first; empty for unknown addresses.
    pub fn look_up_mapped(
        &mut self,
        addresses: &[u64],
        object: &ObjectFile,
        options: &Options,
        stats: &mut Stats,
    ) -> Vec<Vec<SourceLine>> {
        if !std::mem::replace(&mut self.judged, true) {
            stats.nameless_files += u64::from(self.is_nameless());
        }
        let debug_info = self.debug_info.take();
        let search = Search::of(object, options);
        let (debug_info, found) = self.find(debug_info, addresses, self.file.as_ref(), &search, stats);
        self.debug_info = debug_info;
        let named = addresses.iter().zip(found).map(|(address, found)| {
            if !self.main.is_code(*address) {
                return Vec::new();
            }
            match self.with_symbol(*address, found) {
                Some(found) if is_located(&found) => self.with_mangled_name(*address, found),
                weak => {
                    let symbol = || self.symbol(*address).map(|(name, _)| vec![unlocated(&name)]);
                    let known = self.go_lines(*address).or_else(symbol);
                    known.or(weak.map(|found| found.lines)).unwrap_or_default()
                }
            }
        });
        named.collect()
    }

    /// Where the functions at link-time addresses begin, in order.
    pub fn function_starts(&mut self, addresses: &[u64]) -> Vec<Option<u64>> {
        let Self { main, functions, .. } = self;
        let release = || main.release();
        functions.get_or_init(|| FunctionIndex::read(main.bytes(), &release).ok());
        match functions.get_mut() {
            Some(Some(index)) => index.starts(main.bytes(), addresses, &release),
            _ => vec![None; addresses.len()],
        }
    }

    fn search(&self, search: &Search<'_>, object: &ObjectFile, stats: &mut Stats) -> Separate {
        if self.main.has_dwarf() {
            return Separate::Missing;
        }
        match search.debug_file(&self.main, self.build_id(object).as_ref()) {
            Some(found) => Separate::Found(Box::new(DebugFile::read(found, stats))),
            None => Separate::Missing,
        }
    }

    /// What a separate debug file says of an address without file and line there. The mapped file comes before its debug information, and
    /// after its symbol table.
    fn without_location(&self, address: u64, weak: Option<Found>) -> Vec<SourceLine> {
        if self.go_lines(address).is_some() {
            return Vec::new();
        }
        if let Some((name, _)) = self.debug_symbol(address) {
            return vec![unlocated(&name)];
        }
        let known = self.mapped_symbol(address).is_some();
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
        let is_told = self.symbols.is_some()
            || matches!(&self.separate, Separate::Found(debug) if debug.has_symbol_table());
        let has_function = |address| !is_told || self.symbol(address).is_some();
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
            let (name, _) = self.symbol(address)?;
            outermost.name = demangle(&name).into();
            outermost.system_name = cut(&name).into();
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
            && let Some((name, start)) = self.symbol(address)
            && found.function.is_none_or(|function| function == start)
            && is_mangled(&name)
        {
            outermost.name = demangle(&name).into();
            outermost.system_name = cut(&name).into();
        }
        found.lines
    }

    /// The name at an address in the symbol tables, and the start of its symbol.
    fn symbol(&self, address: u64) -> Option<(String, u64)> {
        self.debug_symbol(address).or_else(|| self.mapped_symbol(address))
    }

    fn debug_symbol(&self, address: u64) -> Option<(String, u64)> {
        let Separate::Found(debug) = &self.separate else { return None };
        debug.symbol(address).map(text)
    }

    fn mapped_symbol(&self, address: u64) -> Option<(String, u64)> {
        let in_table = |table: &Option<SymbolTable>| table.as_ref()?.find(&self.main, address).map(text);
        in_table(&self.symbols)
            .or_else(|| self.mini()?.find(address).map(text))
            .or_else(|| in_table(&self.dynamic))
            .or_else(|| self.plt.find(&self.main, address))
    }

    /// The compressed symbol table, if it is the only complete one.
    fn mini(&self) -> Option<&MiniDebugInfo> {
        let has_other = self.symbols.is_some()
            || matches!(&self.separate, Separate::Found(debug) if debug.has_symbol_table());
        self.mini.get_or_init(|| if has_other { None } else { MiniDebugInfo::read(&self.main) }).as_ref()
    }

    /// Whether nothing in the file can give a name.
    fn is_nameless(&self) -> bool {
        let separate = match &self.separate {
            Separate::Found(debug) => debug.is_nameless(),
            Separate::NotSearched | Separate::Missing => true,
        };
        let tables = [&self.symbols, &self.dynamic];
        separate
            && self.debug_info.is_none()
            && self.go.is_none()
            && self.mini().is_none_or(MiniDebugInfo::is_empty)
            && tables.into_iter().flatten().all(SymbolTable::is_empty)
    }

    /// Bytes that dropping this would free.
    pub fn heap_bytes(&self) -> usize {
        let tables = [&self.symbols, &self.dynamic].into_iter().flatten();
        let separate = match &self.separate {
            Separate::Found(debug) => debug.heap_bytes(),
            Separate::NotSearched | Separate::Missing => 0,
        };
        tables.map(SymbolTable::heap_bytes).sum::<usize>()
            + separate
            + self.plt.heap_bytes()
            + self.mini.get().and_then(Option::as_ref).map_or(0, MiniDebugInfo::heap_bytes)
            + self.debug_info.as_ref().map_or(0, DebugInfo::heap_bytes)
            + self.functions.get().and_then(Option::as_ref).map_or(0, FunctionIndex::heap_bytes)
    }
}

/// Whether debug information knows more than a name.
fn is_located(found: &Found) -> bool {
    found.lines.iter().any(|line| line.line != 0 || !line.file.is_empty())
}

fn text((name, start): (&[u8], u64)) -> (String, u64) {
    (String::from_utf8_lossy(name).into_owned(), start)
}

fn unlocated(system_name: &str) -> SourceLine {
    SourceLine {
        name: demangle(system_name).into(),
        system_name: cut(system_name).into(),
        ..SourceLine::default()
    }
}
