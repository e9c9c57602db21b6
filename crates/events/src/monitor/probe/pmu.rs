//! The kernel's event sources for probes, which need no definition.

use std::fs;
use std::path::Path;

use tracepoints::{Format, FormatError};

/// An event source for probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pmu {
    /// `type` of its events.
    pub kind: u32,
    return_bit: u32,
    counter_bit: Option<u32>,
}

impl Pmu {
    /// The source with this name, `uprobe` or `kprobe`, if the kernel has it.
    pub fn find(name: &str) -> Option<Self> {
        Self::read(&Path::new("/sys/bus/event_source/devices").join(name))
    }

    fn read(folder: &Path) -> Option<Self> {
        let text = |file: &str| fs::read_to_string(folder.join(file)).ok();
        let bit = |file: &str| {
            let text = text(file)?;
            text.trim().strip_prefix("config:")?.split('-').next()?.parse().ok().filter(|bit| *bit < 64)
        };
        Some(Self {
            kind: text("type")?.trim().parse().ok()?,
            return_bit: bit("format/retprobe")?,
            counter_bit: bit("format/ref_ctr_offset"),
        })
    }

    /// `config` of an event. `counter`: where in the file the counter of a USDT probe is. `None` if it cannot be said so.
    pub fn config(&self, is_return: bool, counter: Option<u64>) -> Option<u64> {
        let counter = match (counter, self.counter_bit) {
            (None, _) => 0,
            (Some(offset), Some(bit)) => (offset << bit >> bit == offset).then_some(offset << bit)?,
            (Some(_), None) => return None,
        };
        Some(u64::from(is_return) << self.return_bit | counter)
    }
}

/// The fields of such an event, which no file tells.
pub(crate) fn format(is_return: bool) -> Result<Format, FormatError> {
    let own = if is_return { &["__probe_func", "__probe_ret_ip"][..] } else { &["__probe_ip"] };
    let own = own.iter().enumerate().map(|(number, name)| {
        format!("\tfield:unsigned long {name};\toffset:{};\tsize:8;\tsigned:0;\n", 8 + 8 * number)
    });
    let text = format!(
        "name: probe\nID: 0\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n{}\nprint fmt: \"\"\n",
        own.collect::<String>()
    );
    Format::parse(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_where_the_kernel_says() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("format")).unwrap();
        let write = |file: &str, text: &str| fs::write(folder.path().join(file), text).unwrap();
        assert_eq!(Pmu::read(folder.path()), None);
        write("type", "8\n");
        write("format/retprobe", "config:0\n");
        let old = Pmu::read(folder.path()).unwrap();
        assert_eq!((old.kind, old.config(true, None), old.config(false, Some(4))), (8, Some(1), None));
        write("format/ref_ctr_offset", "config:32-63\n");
        let new = Pmu::read(folder.path()).unwrap();
        assert_eq!(new.config(false, Some(0x1234)), Some(0x1234 << 32));
        assert_eq!(new.config(false, Some(1 << 32)), None, "it does not fit");
    }

    #[test]
    fn fields_are_those_of_definitions_without_arguments() {
        let names = |is_return| {
            let format = format(is_return).unwrap();
            format
                .own_fields()
                .map(|field| (field.name.clone(), field.offset, field.size))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(false), [("__probe_ip".to_owned(), 8, 8)]);
        assert_eq!(names(true), [("__probe_func".to_owned(), 8, 8), ("__probe_ret_ip".to_owned(), 16, 8)]);
    }
}
