//! The files whose code a process maps, by name.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};

/// Bytes of a list of mappings that are read.
const MAX_MAPS: u64 = 64 << 20;

/// Calls `each` with the name of each file of which a process maps code, without its folder.
pub(crate) fn code_names(pid: u32, each: impl FnMut(&str)) -> io::Result<()> {
    let maps = File::open(format!("/proc/{pid}/maps"))?;
    code_names_in(BufReader::new(maps.take(MAX_MAPS)), each)
}

/// The same, in the text of such a list.
fn code_names_in(mut maps: impl BufRead, mut each: impl FnMut(&str)) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if maps.by_ref().take(2 * 4096).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&line);
        let Some((path, name)) = text.trim_end_matches('\n').rsplit_once('/') else { continue };
        if path.split(' ').nth(1).is_some_and(|rights| rights.contains('x')) {
            each(name.strip_suffix(" (deleted)").unwrap_or(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_are_mapped_as_code_count() {
        let line = |rights: &str, path: &str| format!("7f00-7f01 {rights} 00000000 08:01 5    {path}\n");
        let text = [
            line("r-xp", "/usr/lib/jvm/a b/lib/server/libjvm.so"),
            line("r-xp", "/x/libgone.so (deleted)"),
            line("r--p", "/x/libdata.so"),
            line("r-xp", "[vdso]"),
        ];
        let mut names = Vec::new();
        code_names_in(text.concat().as_bytes(), |name| names.push(name.to_owned())).unwrap();
        assert_eq!(names, ["libjvm.so", "libgone.so"]);
        assert!(code_names(u32::MAX, |_| ()).is_err());
    }
}
