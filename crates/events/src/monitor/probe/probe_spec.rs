//! What to probe.

use std::path::{Path, PathBuf};

use probes::{read_path, shown_path};

/// A function or a place in code that becomes an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub(crate) kind: ProbeKind,
    pub(crate) is_return: bool,
    pub(crate) arguments: String,
    /// The kernel is not told of the arguments; they only decide the place.
    pub(crate) is_read_by_program: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProbeKind {
    Kernel { target: String },
    User { path: PathBuf, target: String },
    Usdt { path: PathBuf, provider: String, name: String },
}

impl Probe {
    fn of(kind: ProbeKind) -> Self {
        Self { kind, is_return: false, arguments: String::new(), is_read_by_program: false }
    }

    /// A function of the kernel: `symbol`, `symbol+offset`, or an address `0x…`.
    #[must_use]
    pub fn kprobe(target: &str) -> Self {
        Self::of(ProbeKind::Kernel { target: target.to_owned() })
    }

    /// A function of a program or library: `symbol`, `symbol+0xoffset`, or `0xoffset` in the file. A function is probed at the first instruction near its entry
    /// that the kernel emulates, where that changes nothing but the cost.
    #[must_use]
    pub fn uprobe(path: impl AsRef<Path>, target: &str) -> Self {
        Self::of(ProbeKind::User { path: path.as_ref().to_owned(), target: target.to_owned() })
    }

    /// A USDT probe of a program or library, at all its sites. Without [`args`](Self::args) its arguments are the fields `arg1`, `arg2`, …
    #[must_use]
    pub fn usdt(path: impl AsRef<Path>, provider: &str, name: &str) -> Self {
        let (provider, name) = (provider.to_owned(), name.to_owned());
        Self::of(ProbeKind::Usdt { path: path.as_ref().to_owned(), provider, name })
    }

    /// The return of the function, not its call. Of a function of a program, the probes are at all its instructions that return: a return probe of the
    /// kernel would end the program if an exception passed.
    #[must_use]
    pub fn ret(self) -> Self {
        Self { is_return: true, ..self }
    }

    /// Values that become fields, in the kernel's language: `a=%di:s64 s=+0(%si):string`. Of a USDT probe: `size=arg2`.
    #[must_use]
    pub fn args(self, text: &str) -> Self {
        Self { arguments: text.to_owned(), ..self }
    }

    /// The same with one argument more.
    pub(crate) fn and_args(self, text: &str) -> Self {
        let arguments = format!("{} {text}", self.arguments).trim().to_owned();
        Self { arguments, ..self }
    }

    /// The arguments are read by a program at the probe, which goes where they can be read; the kernel makes no fields of them.
    #[must_use]
    pub fn read_by_program(self) -> Self {
        Self { is_read_by_program: true, ..self }
    }

    /// The kind, as texts of events begin.
    pub(crate) fn kind_name(&self) -> &'static str {
        match (&self.kind, self.is_return) {
            (ProbeKind::Kernel { .. }, false) => "kprobe",
            (ProbeKind::Kernel { .. }, true) => "kretprobe",
            (ProbeKind::User { .. }, false) => "uprobe",
            (ProbeKind::User { .. }, true) => "uretprobe",
            (ProbeKind::Usdt { .. }, _) => "usdt",
        }
    }

    /// Whether it has arguments.
    #[must_use]
    pub fn has_arguments(&self) -> bool {
        !self.arguments.trim().is_empty()
    }

    /// Whether it has an argument with this name.
    #[must_use]
    pub fn has_argument(&self, name: &str) -> bool {
        let named = |argument: &str| argument.split_once('=').is_some_and(|(known, _)| known == name);
        self.arguments.split_ascii_whitespace().any(named)
    }

    /// Whether it is at returns.
    #[must_use]
    pub fn is_return(&self) -> bool {
        self.is_return
    }

    /// Whether the kernel makes it a return probe, which replaces return addresses.
    pub(crate) fn is_return_probe(&self) -> bool {
        self.is_return && self.is_of_kernel()
    }

    /// Whether it probes a function of the kernel.
    #[must_use]
    pub fn is_of_kernel(&self) -> bool {
        matches!(self.kind, ProbeKind::Kernel { .. })
    }

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> String {
        let kind = self.kind_name();
        match &self.kind {
            ProbeKind::Kernel { target } => format!("{kind}:{target}"),
            ProbeKind::User { path, target } => format!("{kind}:{}:{target}", shown_path(path)),
            ProbeKind::Usdt { path, provider, name } => {
                format!("{kind}:{}:{provider}:{name}", shown_path(path))
            }
        }
    }

    /// The file that it probes, as it was named. `None` for a function of the kernel.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.kind {
            ProbeKind::User { path, .. } | ProbeKind::Usdt { path, .. } => Some(path),
            ProbeKind::Kernel { .. } => None,
        }
    }

    /// Reads what follows the kind in the text of an event: `PATH:SYMBOL` behind `uprobe:`. `None` if the kind is no probe.
    pub(crate) fn parse(kind: &str, rest: &str) -> Option<Result<Self, String>> {
        let user = |form: &str| {
            let (path, target) = split_path(rest).ok_or_else(|| format!("`{rest}` is not {form}"))?;
            if path.is_empty() || target.is_empty() {
                Err(format!("`{rest}` is not {form}"))
            } else {
                Ok((read_path(path)?, target))
            }
        };
        let kernel = || match rest {
            "" => Err("name a function of the kernel".to_owned()),
            _ => Ok(Self::kprobe(rest)),
        };
        let usdt = || {
            let (path, names) = user("PATH:PROVIDER:NAME")?;
            let named =
                names.split_once(':').filter(|(provider, name)| !provider.is_empty() && !name.is_empty());
            let (provider, name) = named.ok_or_else(|| format!("`{rest}` is not PATH:PROVIDER:NAME"))?;
            Ok(Self::usdt(path, provider, name))
        };
        Some(match kind {
            "kprobe" => kernel(),
            "kretprobe" => kernel().map(Self::ret),
            "uprobe" => user("PATH:SYMBOL").map(|(path, target)| Self::uprobe(path, target)),
            "uretprobe" => user("PATH:SYMBOL").map(|(path, target)| Self::uprobe(path, target).ret()),
            "usdt" => usdt(),
            _ => return None,
        })
    }
}

/// The path ends at the first colon behind its last slash. Names of Go's functions contain slashes: then it ends at the first colon that a file ends at.
fn split_path(text: &str) -> Option<(&str, &str)> {
    let name = text.rfind('/').map_or(0, |slash| slash + 1);
    if let Some(colon) = text.get(name..).and_then(|name| name.find(':')) {
        return Some((text.get(..name + colon)?, text.get(name + colon + 1..)?));
    }
    let splits =
        || text.match_indices(':').filter_map(|(at, _)| Some((text.get(..at)?, text.get(at + 1..)?)));
    splits().find(|(path, _)| read_path(path).is_ok_and(|path| path.is_file())).or_else(|| splits().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_probes() {
        for (kind, rest, wanted) in [
            ("uprobe", "/lib/libc.so.6:malloc", Probe::uprobe("/lib/libc.so.6", "malloc")),
            ("uretprobe", "/bin/a:b::c+0x4", Probe::uprobe("/bin/a", "b::c+0x4").ret()),
            (
                "uprobe",
                "/proc/self/exe:example.com/a/b.(*T).f",
                Probe::uprobe("/proc/self/exe", "example.com/a/b.(*T).f"),
            ),
            ("uprobe", "prog:f", Probe::uprobe("prog", "f")),
            ("uprobe", "/opt/my\\x20app/lib\\x3a1.so:f@V1", Probe::uprobe("/opt/my app/lib:1.so", "f@V1")),
            ("usdt", "/a\\x20b:app:start", Probe::usdt("/a b", "app", "start")),
            ("kprobe", "do_exit", Probe::kprobe("do_exit")),
            ("kretprobe", "do_exit", Probe::kprobe("do_exit").ret()),
            ("usdt", "/bin/a:app:start", Probe::usdt("/bin/a", "app", "start")),
        ] {
            let probe = Probe::parse(kind, rest).unwrap().unwrap();
            assert_eq!(probe, wanted);
            assert_eq!(probe.name(), format!("{kind}:{rest}"));
        }
        for (kind, rest) in [
            ("uprobe", "/bin/a"),
            ("uprobe", "/bin/a:"),
            ("uprobe", ":f"),
            ("uprobe", "/bin/a\\x2:f"),
            ("usdt", "/bin/a:app"),
            ("usdt", "/bin/a:app:"),
            ("kprobe", ""),
        ] {
            assert!(Probe::parse(kind, rest).unwrap().is_err(), "{kind} {rest}");
        }
        assert_eq!(Probe::parse("sched", "sched_switch"), None);
    }
}
