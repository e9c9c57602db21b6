//! A file in which probes are placed.

use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use elf::constants::{SHT_DYNSYM, SHT_SYMTAB, SectionType};
use symbols::{ObjectFile, ObjectSource, Options};
use sys::filemap::FileMap;
use unwind::{Callee, Unfollowed};

use crate::boundary::instruction_around;
use crate::error::ProbeError;
use crate::exits::{CallReturns, CodeIndex, FunctionExit};
use crate::image::{Bytes, Image};
use crate::location::{Function, Location};
use crate::near::Near;
use crate::parameters::{self, InFunction, Parameter, ParameterError};
use crate::placement::{self, Placement};
use crate::symbol_table::{Symbol, named, named_in_source, symbols, variable};
use crate::target::Target;
use crate::usdt::{self, UsdtProbe, UsdtSite};
use crate::{functions, go_functions};

/// USDT probes that an error names.
const NAMED_USDT: usize = 5;

/// An ELF file, in which targets are looked up.
#[derive(Debug)]
pub struct Binary {
    path: PathBuf,
    image: Image,
    /// Its separate debug file; opened when the file itself does not have a name.
    debug: OnceCell<Option<Image>>,
    /// Its code; read when the returns of a function are asked for.
    code: OnceCell<Result<CodeIndex, Unfollowed>>,
}

impl Binary {
    /// Opens a file. Only regular files are opened.
    ///
    /// # Errors
    /// [`ProbeError::Open`], [`ProbeError::NotElf`].
    pub fn open(path: &Path) -> Result<Self, ProbeError> {
        let refused = |source| ProbeError::Open { path: path.to_owned(), source };
        let not_elf = || ProbeError::NotElf { path: path.to_owned() };
        let metadata = std::fs::metadata(path).map_err(refused)?;
        if !metadata.is_file() {
            return Err(refused(io::Error::other("it is no regular file")));
        }
        if metadata.len() == 0 {
            return Err(not_elf());
        }
        let map = File::open(path).and_then(|file| FileMap::new(&file)).map_err(refused)?;
        let image = Image::parse(Bytes::Mapped(map)).ok_or_else(not_elf)?;
        Ok(Self { path: path.to_owned(), image, debug: OnceCell::new(), code: OnceCell::new() })
    }

    /// Takes bytes for those of a file, which has no separate debug file then. `path` is what errors name.
    ///
    /// # Errors
    /// [`ProbeError::NotElf`].
    pub fn of_bytes(path: &Path, bytes: Vec<u8>) -> Result<Self, ProbeError> {
        let not_elf = || ProbeError::NotElf { path: path.to_owned() };
        let image = Image::parse(Bytes::Memory(bytes)).ok_or_else(not_elf)?;
        Ok(Self { path: path.to_owned(), image, debug: OnceCell::from(None), code: OnceCell::new() })
    }

    /// Its path, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether Go's compiler made it. Its programs do not survive probes of returns.
    #[must_use]
    pub fn is_go(&self) -> bool {
        self.image.is_go()
    }

    /// Where a target is. Names are looked up in `.symtab`, then in `.dynsym`, then in the separate debug file.
    ///
    /// # Errors
    /// [`ProbeError`] if there is no such function, more than one, or if no probe can be there.
    pub fn locate(&self, target: &Target) -> Result<Location, ProbeError> {
        match target {
            Target::Symbol { name, offset } => self.locate_symbol(target, name, *offset),
            Target::Offset(offset) => self.locate_offset(target, *offset),
        }
    }

    /// A probe at the location itself.
    #[must_use]
    pub fn unplaced(&self, location: &Location) -> Placement {
        placement::unplaced(location)
    }

    /// Where the functions with these names are, as far as the file defines them itself: the number of the name, and its place. A place with several
    /// names is given once, with one of them. The separate debug file is not asked.
    #[must_use]
    pub fn functions(&self, names: &[&str]) -> Vec<(usize, Location)> {
        functions::functions(&self.image, names)
    }

    /// Whether the dynamic symbol table defines a function with this name, so that other files can use it.
    #[must_use]
    pub fn exports(&self, name: &str) -> bool {
        symbols(&self.image, SHT_DYNSYM).any(|symbol| symbol.name == name.as_bytes())
    }

    /// The same of a program in Go (1.18 and later), by the table of its own runtime: also of one that was stripped.
    #[must_use]
    pub fn go_functions(&self, names: &[&str]) -> Vec<(usize, Location)> {
        go_functions::functions(&self.image, names)
    }

    /// The instructions of the function at a location that call the function at another one. Only code of x86-64 is read.
    #[must_use]
    pub fn calls(&self, of: &Location, callee: &Location) -> Vec<Placement> {
        go_functions::calls(&self.image, of, callee)
    }

    /// Where a probe of the function at a location costs least and sees the same. The place itself if the target was no function by its name.
    #[must_use]
    pub fn place(&self, location: &Location) -> Placement {
        placement::place(&self.image, location)
    }

    /// The places at which the function at a location ends: its returns, and its jumps to other functions. `target`: as it was located.
    ///
    /// # Errors
    /// [`ProbeError::NotAFunction`]; [`ProbeError::Returns`] if the code cannot be followed to all its ends.
    pub fn exits(&self, target: &Target, location: &Location) -> Result<Vec<FunctionExit>, ProbeError> {
        let found = self.code().and_then(|code| {
            let is_function = location.function.is_some() || code.begins_at(location.address);
            is_function.then(|| code.exits(&self.image, location.address)).transpose()
        });
        let (path, target) = (self.path.clone(), target.to_string());
        match found {
            Ok(Some(exits)) => Ok(exits),
            Ok(None) => Err(ProbeError::NotAFunction { path, target }),
            Err(source) => Err(ProbeError::Returns { path, target, source }),
        }
    }

    /// Where the calls of the function at a location return, through all functions to which it jumps. `is_inner`: functions whose calls have
    /// the same result.
    ///
    /// # Errors
    /// [`ProbeError::Returns`] if the code cannot be followed to all its ends.
    pub fn call_returns(
        &self,
        location: &Location,
        is_inner: &dyn Fn(Callee<'_>) -> bool,
    ) -> Result<CallReturns, ProbeError> {
        let found = self.code().and_then(|code| code.call_returns(&self.image, location.address, is_inner));
        found.map_err(|source| ProbeError::Returns {
            path: self.path.clone(),
            target: location.symbol.clone().unwrap_or_else(|| format!("{:#x}", location.offset)),
            source,
        })
    }

    /// Where a parameter, or what it leads to (`request->part.id`), is when a probe at `placement` is hit, by the debug information of the file or of its
    /// separate debug file. `target`, `location`: the function or place, as it was located.
    ///
    /// # Errors
    /// [`ProbeError::Parameter`].
    pub fn parameter(
        &self,
        target: &Target,
        location: &Location,
        placement: &Placement,
        text: &str,
    ) -> Result<Parameter, ProbeError> {
        let is_entry = location.function.is_some();
        let at = InFunction { function: location.address, at: placement.address, is_entry };
        let found = match parameters::parameter(&self.image, at, text) {
            Err(ParameterError::NoDebugInfo) => {
                let debug = self.debug_image().ok_or(ParameterError::NoDebugInfo);
                debug.and_then(|debug| parameters::parameter(debug, at, text))
            }
            found => found,
        };
        found.map_err(|source| ProbeError::Parameter {
            path: self.path.clone(),
            target: target.to_string(),
            parameter: text.to_owned(),
            source: Box::new(source),
        })
    }

    /// All USDT probes, in order of their names.
    #[must_use]
    pub fn usdt_probes(&self) -> Vec<UsdtProbe> {
        usdt::probes(&self.image)
    }

    /// The sites of a USDT probe: at least one.
    ///
    /// # Errors
    /// [`ProbeError::UnknownUsdt`] with some that there are.
    pub fn usdt(&self, provider: &str, name: &str) -> Result<Vec<UsdtSite>, ProbeError> {
        let mut all = self.usdt_probes();
        if let Some(at) = all.iter().position(|probe| probe.provider == provider && probe.name == name) {
            return Ok(all.swap_remove(at).sites);
        }
        // Those of the same provider or name first.
        all.sort_by_key(|probe| probe.name != name && probe.provider != provider);
        let text = |probe: &UsdtProbe| format!("{}:{}", probe.provider, probe.name);
        let known = all.iter().take(NAMED_USDT).map(text).collect();
        let (provider, name) = (provider.to_owned(), name.to_owned());
        Err(ProbeError::UnknownUsdt { path: self.path.clone(), provider, name, known })
    }

    /// The link-time address of a variable.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<u64> {
        self.tables().find_map(|(image, kind)| variable(image, kind, name))
    }

    /// The link-time address of code at an offset of the file.
    #[must_use]
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        self.image.code_address(offset)
    }

    /// The first byte that a variable has when the program starts.
    #[must_use]
    pub fn initial_byte(&self, variable: &str) -> Option<u8> {
        let address = self.variable(variable)?;
        // Behind the bytes of the file, segments begin with zeros.
        match self.image.data_offset(address) {
            None => Some(0),
            Some(offset) => self.image.bytes.get(usize::try_from(offset).ok()?).copied(),
        }
    }

    fn locate_symbol(&self, target: &Target, name: &str, offset: u64) -> Result<Location, ProbeError> {
        let (found, next_symbol) = self.symbol(name)?;
        let path = || self.path.clone();
        if found.is_indirect {
            return Err(ProbeError::IndirectFunction { path: path(), symbol: name.to_owned() });
        }
        if found.size > 0 && offset >= found.size {
            let (symbol, size) = (name.to_owned(), found.size);
            return Err(ProbeError::BeyondSymbol { path: path(), symbol, size, offset });
        }
        let address = found.address.saturating_add(offset);
        let Some(in_file) = self.image.code_offset(address) else {
            return Err(ProbeError::OutsideCode { path: path(), target: target.to_string(), at: address });
        };
        self.check_boundary(target, found.address, address)?;
        let addresses = found.address..found.address.saturating_add(found.size);
        Ok(Location {
            offset: in_file,
            address,
            symbol: Some(String::from_utf8_lossy(found.name).into_owned()),
            function: (offset == 0).then_some(Function { addresses, next_symbol }),
        })
    }

    fn locate_offset(&self, target: &Target, offset: u64) -> Result<Location, ProbeError> {
        let Some(address) = self.image.code_address(offset) else {
            return Err(ProbeError::OutsideCode {
                path: self.path.clone(),
                target: target.to_string(),
                at: offset,
            });
        };
        if let Some(function) = self.function_around(address) {
            self.check_boundary(target, function, address)?;
        }
        Ok(Location { offset, address, symbol: None, function: None })
    }

    fn check_boundary(&self, target: &Target, function: u64, address: u64) -> Result<(), ProbeError> {
        match instruction_around(&self.image, function, address) {
            None => Ok(()),
            Some(begin) => Err(ProbeError::InsideInstruction {
                path: self.path.clone(),
                target: target.to_string(),
                begin: self.image.code_offset(begin).unwrap_or(begin),
            }),
        }
    }

    /// The function with a name, and the address of the next symbol.
    fn symbol(&self, name: &str) -> Result<(Symbol<'_>, u64), ProbeError> {
        type Find = for<'f> fn(&'f Image, SectionType, &str) -> Vec<Symbol<'f>>;
        let by_name: [Find; 2] = [named, named_in_source];
        for find in by_name {
            for (image, kind) in self.tables() {
                let found = find(image, kind, name);
                match found.as_slice() {
                    [] => {}
                    [one] => return Ok((*one, next_symbol(image, kind, one.address))),
                    several => {
                        let offsets =
                            several.iter().filter_map(|one| self.image.code_offset(one.address)).collect();
                        return Err(ProbeError::Ambiguous {
                            path: self.path.clone(),
                            symbol: name.to_owned(),
                            offsets,
                        });
                    }
                }
            }
        }
        let mut near = Near::to(name);
        self.tables()
            .for_each(|(image, kind)| symbols(image, kind).for_each(|symbol| near.offer(symbol.name)));
        let (path, symbol) = (self.path.clone(), name.to_owned());
        Err(ProbeError::UnknownSymbol { path, symbol, near: near.names() })
    }

    /// The start of the function around an address.
    fn function_around(&self, address: u64) -> Option<u64> {
        let around = |symbol: &Symbol<'_>| {
            address.checked_sub(symbol.address).is_some_and(|inside| inside < symbol.size)
                && !symbol.is_indirect
        };
        let mut tables = self.tables();
        tables
            .find_map(|(image, kind)| symbols(image, kind).filter(around).map(|symbol| symbol.address).max())
    }

    /// The symbol tables, in the order in which they are asked.
    fn tables(&self) -> impl Iterator<Item = (&Image, SectionType)> {
        let own = [(&self.image, SHT_SYMTAB), (&self.image, SHT_DYNSYM)];
        own.into_iter()
            .chain(std::iter::once_with(|| self.debug_image().map(|image| (image, SHT_SYMTAB))).flatten())
    }

    fn code(&self) -> Result<&CodeIndex, Unfollowed> {
        // A debug file that no name was asked of is not opened for this.
        let debug = self.debug.get().and_then(Option::as_ref);
        self.code.get_or_init(|| CodeIndex::read(&self.image, debug)).as_ref().map_err(Clone::clone)
    }

    fn debug_image(&self) -> Option<&Image> {
        let find = || {
            let object = ObjectFile {
                source: ObjectSource::Path(self.path.clone()),
                display_path: std::fs::canonicalize(&self.path).ok()?.to_str()?.to_owned(),
                root: None,
                build_id: self.image.layout.build_id(&self.image.bytes),
            };
            let file = symbols::separate_debug_file(&object, &Options::default())?;
            Image::parse(Bytes::Mapped(FileMap::new(&file).ok()?))
        };
        self.debug.get_or_init(find).as_ref()
    }
}

/// Where the first symbol behind an address is.
fn next_symbol(image: &Image, kind: SectionType, address: u64) -> u64 {
    symbols(image, kind)
        .map(|symbol| symbol.address)
        .filter(|other| *other > address)
        .min()
        .unwrap_or(u64::MAX)
}
