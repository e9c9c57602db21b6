//! Names of kernel code, from `/proc/kallsyms`: the kernel itself, modules and BPF programs.
//!
//! It is read once. Neither `/proc/modules` nor `/proc/kcore` is needed. A kernel that hides its addresses shows zeros
//! instead: see [`KernelNames::Hidden`].

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::kernel_text::KernelText;
use crate::source_line::SourceLine;

/// Whether kernel addresses can be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelNames {
    /// The number of known functions.
    Known(usize),
    /// All addresses read as zero: this process lacks `CAP_SYSLOG`, or `kernel.kptr_restrict` forbids them.
    Hidden,
    /// The list could not be read, with the reason.
    Unreadable(String),
}

/// The functions of the kernel, sorted by address.
#[derive(Debug)]
pub(crate) struct Kernel {
    symbols: Vec<Symbol>,
    /// All names, one per line.
    text: String,
    /// Module names; the kernel itself is number 0.
    modules: Vec<String>,
    names: KernelNames,
    text_marks: KernelText,
}

#[derive(Clone, Copy, Debug)]
struct Symbol {
    address: u64,
    /// Position in the text, or [`DATA`] for a symbol that marks the end of code.
    name: u32,
    module: u16,
    /// Of several symbols at one address, the one with the lowest rank is shown.
    rank: u16,
}

const DATA: u32 = u32::MAX;
/// Functions of the kernel are not longer: an address farther away from a symbol belongs to unknown code.
const MAX_FUNCTION: u64 = 4 << 20;
/// Bytes of the list that are read.
const MAX_LIST: u64 = 512 << 20;
const MAX_LINE: u64 = 4096;
/// Symbols of per-CPU data have smaller addresses, which stand for no place in memory.
const FIRST: u64 = 1 << 63;

impl Kernel {
    /// Reads the list. If that fails, [`Self::names`] has the reason.
    pub fn read(path: &Path) -> Self {
        match File::open(path).and_then(Self::parse) {
            Ok(kernel) => kernel,
            Err(error) => Self::empty(KernelNames::Unreadable(format!("read {}: {error}", path.display()))),
        }
    }

    fn empty(names: KernelNames) -> Self {
        Self {
            symbols: Vec::new(),
            text: String::new(),
            modules: vec![String::new()],
            names,
            text_marks: KernelText::default(),
        }
    }

    /// Lines `ADDRESS TYPE NAME[\t[MODULE]]`.
    fn parse(list: impl Read) -> io::Result<Self> {
        let mut this = Self::empty(KernelNames::Hidden);
        let mut reader = BufReader::with_capacity(1 << 16, list.take(MAX_LIST));
        let mut line = Vec::new();
        let (mut lines, mut is_rest) = (0u64, false);
        loop {
            line.clear();
            if reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            lines += 1;
            // A longer line is no symbol.
            let is_whole = line.ends_with(b"\n") || (line.len() as u64) < MAX_LINE;
            if is_whole && !is_rest {
                this.add(&String::from_utf8_lossy(&line));
            }
            is_rest = !is_whole;
        }
        if lines == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the list is empty"));
        }
        let Self { symbols, text, .. } = &mut this;
        symbols.sort_by(|a, b| {
            let name = |s: &Symbol| text.get(s.name as usize..).and_then(|t| t.lines().next());
            (a.address, a.rank, name(a)).cmp(&(b.address, b.rank, name(b)))
        });
        symbols.dedup_by_key(|s| s.address);
        // One mark between two functions is enough.
        symbols.dedup_by(|next, previous| next.name == DATA && previous.name == DATA);
        symbols.shrink_to_fit();
        let known = symbols.iter().filter(|s| s.name != DATA).count();
        if known != 0 {
            this.names = KernelNames::Known(known);
        }
        Ok(this)
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok().filter(|a| *a != 0)?;
        let kind = words.next()?.bytes().next()?;
        let name = words.next()?;
        self.text_marks.note(name.as_bytes(), address);
        let is_code = kind.eq_ignore_ascii_case(&b't') || kind.eq_ignore_ascii_case(&b'w');
        // Symbols of per-CPU data have small addresses; on aarch64, `$x` and `$d` mark code and data.
        if !is_code || name.starts_with('$') {
            if kind != b'a' && kind != b'A' {
                self.symbols.push(Symbol { address, name: DATA, module: 0, rank: u16::MAX });
            }
            return Some(());
        }
        let module = match words.next().and_then(|m| m.strip_prefix('[')?.strip_suffix(']')) {
            Some(module) => self.module(module)?,
            None => 0,
        };
        let underscores = name.bytes().take_while(|b| *b == b'_').count().min(15) as u16;
        let kind_rank = match kind {
            b'T' => 0,
            b't' => 1,
            _ => 2,
        };
        let position = u32::try_from(self.text.len()).ok()?;
        self.text.push_str(name);
        self.text.push('\n');
        self.symbols.push(Symbol { address, name: position, module, rank: underscores * 4 + kind_rank });
        Some(())
    }

    fn module(&mut self, name: &str) -> Option<u16> {
        // Symbols of a module come together.
        if self.modules.last().is_some_and(|last| last == name) {
            return u16::try_from(self.modules.len() - 1).ok();
        }
        let index = self.modules.iter().position(|m| m == name).unwrap_or_else(|| {
            self.modules.push(name.to_owned());
            self.modules.len() - 1
        });
        u16::try_from(index).ok()
    }

    pub fn names(&self) -> KernelNames {
        self.names.clone()
    }

    /// Where the running kernel was loaded.
    pub fn text(&self) -> KernelText {
        self.text_marks
    }

    /// Whether data of the kernel is at an address.
    pub fn has_data(&self, address: u64) -> bool {
        let before = self.symbols.partition_point(|symbol| symbol.address <= address).checked_sub(1);
        // One mark stands for all variables up to the next function.
        before
            .and_then(|at| self.symbols.get(at))
            .is_some_and(|symbol| symbol.name == DATA && symbol.address > FIRST)
    }

    /// The function at an address.
    pub fn find(&self, address: u64) -> Option<SourceLine> {
        let index = self.symbols.partition_point(|s| s.address <= address).checked_sub(1)?;
        let symbol = self.symbols[index];
        if symbol.name == DATA || address - symbol.address >= MAX_FUNCTION {
            return None;
        }
        let name = self.text.get(symbol.name as usize..)?.lines().next()?;
        let shown = match self.modules.get(usize::from(symbol.module)) {
            Some(module) if !module.is_empty() => format!("{name} [{module}]"),
            _ => name.to_owned(),
        };
        Some(SourceLine { name: shown.into(), system_name: name.into(), ..SourceLine::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
0000000000001000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 t __aliased
ffffffff81000000 t short
ffffffff81000100 t do_work
ffffffff81000180 D some_data
ffffffff81000190 d more_data
ffffffff81000200 W weak_one
malformed
zz T nothing
ffffffffc0000000 t hook\t[nf_tables]
ffffffffc0001000 t bpf_prog_0123_cpu_sample\t[bpf]
";

    fn name(kernel: &Kernel, address: u64) -> Option<String> {
        kernel.find(address).map(|line| line.name.into())
    }

    #[test]
    fn a_line_that_is_too_long_is_no_symbol() {
        let long = |length: usize| format!("ffffffff81000000 t {}", "x".repeat(length));
        // Where the line is cut, something that looks like a symbol begins.
        let cut = format!("{}ffffffff81000100 t false\n", "y".repeat(MAX_LINE as usize));
        let list = format!("{cut}{}\nffffffff81000200 t right\n{}", long(9000), long(5000));
        let kernel = Kernel::parse(list.as_bytes()).unwrap();
        assert_eq!(kernel.names(), KernelNames::Known(1));
        assert_eq!(name(&kernel, 0xffff_ffff_8100_0200).as_deref(), Some("right"));
    }

    #[test]
    fn names_code_and_nothing_else() {
        let kernel = Kernel::parse(LIST.as_bytes()).unwrap();
        assert_eq!(kernel.names(), KernelNames::Known(5));
        assert_eq!(name(&kernel, 0xffff_ffff_8100_0010).as_deref(), Some("short"));
        assert_eq!(name(&kernel, 0xffff_ffff_8100_017f).as_deref(), Some("do_work"));
        assert_eq!(name(&kernel, 0xffff_ffff_8100_0180), None);
        assert_eq!(name(&kernel, 0xffff_ffff_8100_01ff), None);
        assert_eq!(name(&kernel, 0xffff_ffff_8100_0200).as_deref(), Some("weak_one"));
        assert_eq!(name(&kernel, 0xffff_ffff_c000_0fff).as_deref(), Some("hook [nf_tables]"));
        assert_eq!(name(&kernel, 0xffff_ffff_c000_1001).as_deref(), Some("bpf_prog_0123_cpu_sample [bpf]"));
        assert_eq!(name(&kernel, 0xffff_ffff_ff00_0000), None);
        assert_eq!(name(&kernel, 0x2000), None);
        assert_eq!(kernel.find(0xffff_ffff_c000_0000).unwrap().system_name, "hook");
    }

    #[test]
    fn data_is_told_from_code_and_from_what_is_before_everything() {
        let kernel = Kernel::parse(LIST.as_bytes()).unwrap();
        let has_data =
            [0xffff_ffff_8100_0180, 0xffff_ffff_8100_01ff, 0xffff_ffff_8100_0100, 0xffff_8880_0000_0000]
                .map(|address| kernel.has_data(address));
        assert_eq!(has_data, [true, true, false, false]);
    }

    #[test]
    fn hidden_and_missing_lists_are_told_apart() {
        let hidden = "0000000000000000 T _stext\n0000000000000000 t do_work\n";
        assert_eq!(Kernel::parse(hidden.as_bytes()).unwrap().names(), KernelNames::Hidden);
        assert!(matches!(Kernel::read(Path::new("/nonexistent")).names(), KernelNames::Unreadable(_)));
        assert!(Kernel::parse(&b""[..]).is_err());
    }
}
