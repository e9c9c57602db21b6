//! Where the kernel was loaded.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use profile::Avma;

/// Bytes of the list of symbols in which the start of the code must be.
const MAX_READ: u64 = 16 << 20;
/// No line is longer.
const MAX_LINE: usize = 4096;

/// Marks in the kernel's code, as far as it does not hide them. Modules and BPF programs are elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelText {
    /// `_text`: where the image begins.
    pub text: Option<Avma>,
    /// `_stext`: where the code begins.
    pub stext: Option<Avma>,
    /// `_etext`: where the code ends.
    pub etext: Option<Avma>,
}

impl KernelText {
    /// Reads a list of symbols (`/proc/kallsyms`) up to `_text` and `_stext`; what stands behind them stays unknown. Both are at its
    /// beginning.
    #[must_use]
    pub fn read_start(kallsyms: &Path) -> Self {
        let mut this = Self::default();
        let Ok(file) = File::open(kallsyms) else { return this };
        let mut reader = BufReader::new(file.take(MAX_READ));
        let (mut line, mut seen) = (Vec::new(), 0);
        while seen < 2 {
            line.clear();
            match reader.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            let line = String::from_utf8_lossy(&line);
            let mut words = line.split_ascii_whitespace();
            let (address, name) = (words.next(), words.nth(1));
            if let (Some(address), Some(name @ ("_text" | "_stext"))) = (address, name) {
                seen += 1;
                this.note(name.as_bytes(), u64::from_str_radix(address, 16).unwrap_or(0));
            }
        }
        this
    }

    /// Enters a symbol, if it is one of the marks. Address 0 is a hidden one.
    pub(crate) fn note(&mut self, name: &[u8], address: u64) {
        let mark = match name {
            b"_text" => &mut self.text,
            b"_stext" => &mut self.stext,
            b"_etext" => &mut self.etext,
            _ => return,
        };
        *mark = Some(Avma(address)).filter(|address| address.0 != 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &str) -> KernelText {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, list).unwrap();
        KernelText::read_start(file.path())
    }

    #[test]
    fn the_start_is_found_and_hidden_addresses_are_none() {
        let list = "0000000000001000 A percpu\nffffffff81000000 T _text\nffffffff81000040 T _stext\n";
        let start = read(list);
        assert_eq!(start.text, Some(Avma(0xffff_ffff_8100_0000)));
        assert_eq!((start.stext, start.etext), (Some(Avma(0xffff_ffff_8100_0040)), None));
        let hidden = read("0000000000000000 T _stext\n0000000000000000 T _text\n");
        assert_eq!(hidden, KernelText::default());
        assert_eq!(read("no list\n\n"), KernelText::default());
        assert_eq!(KernelText::read_start(Path::new("/nonexistent")), KernelText::default());
    }
}
