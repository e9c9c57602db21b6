//! One object file and all its sources of names.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use crate::debug_file::{Search, load};
use crate::demangle::{demangle, is_mangled};
use crate::dwarf::{Dwarf, Found};
use crate::elf_file::{Bytes, ElfFile};
use crate::go::GoTable;
use crate::mini::MiniDebugInfo;
use crate::object_file::{ObjectFile, ObjectSource};
use crate::options::Options;
use crate::plt::PltTable;
use crate::source_line::SourceLine;
use crate::stats::Stats;
use crate::symtab::SymbolTable;
use elf::constants::{SHT_DYNSYM, SHT_SYMTAB};

/// The sources of names for one object file, best first.
pub(crate) struct Object {
    main: ElfFile,
    debug: Option<ElfFile>,
    dwarf: Option<Dwarf>,
    /// `.symtab` of the separate debug file.
    debug_symbols: Option<SymbolTable>,
    symbols: Option<SymbolTable>,
    /// The compressed symbol table of some stripped files. Read if there is no `.symtab`.
    mini: Option<MiniDebugInfo>,
    dynamic: Option<SymbolTable>,
    plt: PltTable,
    go: Option<GoTable>,
    /// The debug information was released and will be read again when it is needed.
    released: bool,
}

impl Object {
    /// Reads the tables. `file` is the open file behind `object`, if it is a file.
    pub fn open(
        object: &ObjectFile,
        file: Option<File>,
        options: &Options,
        stats: &mut Stats,
    ) -> Option<Self> {
        let main = match (&object.source, &file) {
            (ObjectSource::Bytes(bytes), _) => ElfFile::parse(Bytes::Memory(Arc::clone(bytes)))?,
            (ObjectSource::Path(_), Some(file)) => load(file)?,
            (ObjectSource::Path(_), None) => return None,
        };
        let mut this = Self {
            symbols: SymbolTable::read(&main, SHT_SYMTAB),
            dynamic: SymbolTable::read(&main, SHT_DYNSYM),
            plt: PltTable::read(&main),
            go: GoTable::find(&main),
            debug_symbols: None,
            debug: None,
            mini: None,
            dwarf: None,
            released: false,
            main,
        };
        this.attach_debug_info(object, file, options, stats);
        if this.symbols.is_none() && this.debug_symbols.is_none() {
            this.mini = MiniDebugInfo::read(&this.main);
        }
        Some(this)
    }

    fn attach_debug_info(
        &mut self,
        object: &ObjectFile,
        file: Option<File>,
        options: &Options,
        stats: &mut Stats,
    ) {
        let own = Path::new("/");
        let search = Search {
            roots: object.root.as_deref().into_iter().chain([own]).collect(),
            debug_dirs: &options.debug_dirs,
            path: Path::new(&object.display_path),
        };
        let (elf, file) = if self.main.has_dwarf() {
            (self.main.clone(), file)
        } else {
            let build_id = self.main.build_id().or_else(|| object.build_id.clone());
            let Some((file, elf)) = search.debug_file(&self.main, build_id.as_ref()) else { return };
            if self.debug.is_none() {
                self.debug_symbols = SymbolTable::read(&elf, SHT_SYMTAB);
                self.debug = Some(elf.clone());
            }
            if !elf.has_dwarf() {
                return;
            }
            (elf, Some(file))
        };
        let alternate = file.as_ref().and_then(|file| search.alternate(&elf, file));
        match Dwarf::new(&elf, file, alternate) {
            Ok(dwarf) => self.dwarf = Some(dwarf),
            Err(error) => {
                tracing::debug!("read debug information of {}: {error}", object.display_path);
                stats.unreadable_debug_info += 1;
            }
        }
    }

    /// Frees memory that may be large: the debug information and the pages of the files. Symbol tables stay.
    pub fn release(&mut self) {
        self.released |= self.dwarf.take().is_some();
        self.main.release();
        if let Some(debug) = &self.debug {
            debug.release();
        }
    }

    /// Reads released debug information again.
    pub fn restore(&mut self, object: &ObjectFile, file: Option<File>, options: &Options, stats: &mut Stats) {
        if std::mem::take(&mut self.released) {
            self.attach_debug_info(object, file, options, stats);
        }
    }

    /// Whether nothing in the file can give a name.
    pub fn is_nameless(&self) -> bool {
        let tables = [&self.debug_symbols, &self.symbols, &self.dynamic];
        let mini = self.mini.as_ref().is_none_or(MiniDebugInfo::is_empty);
        self.dwarf.is_none()
            && self.go.is_none()
            && mini
            && tables.into_iter().flatten().all(SymbolTable::is_empty)
    }

    /// Names link-time addresses, in order. Innermost function first; empty for unknown addresses.
    pub fn lookup(&mut self, addresses: &[u64], stats: &mut Stats) -> Vec<Vec<SourceLine>> {
        let mut found = match self.dwarf.as_mut().map(|dwarf| dwarf.find(addresses)) {
            Some(Ok(found)) => found,
            Some(Err(_)) => {
                self.dwarf = None;
                stats.panics += 1;
                Vec::new()
            }
            None => Vec::new(),
        };
        found.resize_with(addresses.len(), || None);
        let merged = addresses.iter().zip(found).map(|(address, found)| {
            if !self.main.is_code(*address) {
                return Vec::new();
            }
            // Linkers keep the debug information of functions that they dropped, at address 0.
            self.merge(*address, found.filter(|f| f.function.is_none_or(|start| self.main.is_code(start))))
        });
        merged.collect()
    }

    /// The answer of DWARF if it knows function and line, else of Go's table, else of the symbol tables.
    fn merge(&self, address: u64, found: Option<Found>) -> Vec<SourceLine> {
        match found {
            Some(mut found) if found.lines.iter().any(|l| l.line != 0 || !l.file.is_empty()) => {
                self.restore_mangled_name(address, &mut found);
                found.lines
            }
            weak => {
                let go = self.go.as_ref().and_then(|go| go.lookup(&self.main, address));
                let symbol = || self.symbol(address).map(|(name, _)| vec![unlocated(&name)]);
                go.or_else(symbol).or(weak.map(|found| found.lines)).unwrap_or_default()
            }
        }
    }

    /// DWARF may have a function's name without parameters and namespaces. The symbol table has the full name.
    fn restore_mangled_name(&self, address: u64, found: &mut Found) {
        if let Some(outermost) = found.lines.last_mut()
            && !is_mangled(&outermost.system_name)
            && let Some((name, start)) = self.symbol(address)
            && found.function.is_none_or(|function| function == start)
            && is_mangled(&name)
        {
            outermost.name = demangle(&name);
            outermost.system_name = name;
        }
    }

    fn symbol(&self, address: u64) -> Option<(String, u64)> {
        let in_file = |table: &Option<SymbolTable>, file: Option<&ElfFile>| {
            let (name, start) = table.as_ref()?.find(file?, address)?;
            Some((String::from_utf8_lossy(name).into_owned(), start))
        };
        in_file(&self.debug_symbols, self.debug.as_ref())
            .or_else(|| in_file(&self.symbols, Some(&self.main)))
            .or_else(|| {
                let (name, start) = self.mini.as_ref()?.find(address)?;
                Some((String::from_utf8_lossy(name).into_owned(), start))
            })
            .or_else(|| in_file(&self.dynamic, Some(&self.main)))
            .or_else(|| self.plt.find(&self.main, address))
    }

    /// Bytes that dropping this would free.
    pub fn heap_bytes(&self) -> usize {
        let tables = [&self.debug_symbols, &self.symbols, &self.dynamic].into_iter().flatten();
        tables.map(SymbolTable::heap_bytes).sum::<usize>()
            + self.plt.heap_bytes()
            + self.mini.as_ref().map_or(0, MiniDebugInfo::heap_bytes)
            + self.dwarf.as_ref().map_or(0, Dwarf::heap_bytes)
    }
}

fn unlocated(system_name: &str) -> SourceLine {
    SourceLine { name: demangle(system_name), system_name: system_name.to_owned(), ..SourceLine::default() }
}
