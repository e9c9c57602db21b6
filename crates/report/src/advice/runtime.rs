//! Runtimes that make code while they run, and what makes them tell its names or keep frame pointers.

use profile::LabelValue;
use recording::{Frame, Recording};

use crate::selection::StackRef;

/// A runtime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Runtime {
    Java,
    Node,
    Chromium,
    DotNet,
    /// Its version, if the name of its library has one.
    Ruby(Option<(u32, u32)>),
    LuaJit,
    /// The virtual machine of Erlang and Elixir.
    Beam,
    /// Regular expressions that PCRE has compiled.
    Pcre,
    /// CPython.
    Python,
    /// A program of this name, which may be empty.
    Other(String),
}

impl Runtime {
    /// The runtime whose files a stack goes through; else the one that the name of its process tells.
    pub(super) fn of_stack(recording: &Recording, at: &StackRef<'_>) -> Self {
        let (_, user) = at.stack.split();
        let path = |frame: &recording::FrameId| match recording.frame(*frame)? {
            Frame::Native { mapping, .. } => Some(recording.mapping(*mapping)?.1.path.as_str()),
            _ => None,
        };
        let of_file = user.iter().rev().filter_map(path).find_map(Self::of_file);
        of_file.unwrap_or_else(|| {
            let labels = recording.labels(at.task.labels);
            let comm = labels.iter().find(|label| label.key == "comm").map(|label| &label.value);
            let comm = if let Some(LabelValue::Str(comm)) = comm { comm.as_str() } else { "" };
            Self::of_file(comm).unwrap_or_else(|| Self::Other(comm.to_owned()))
        })
    }

    fn of_file(path: &str) -> Option<Self> {
        let file = path.rsplit('/').next().unwrap_or(path);
        match file {
            "java" => Some(Self::Java),
            "node" | "nodejs" => Some(Self::Node),
            "ruby" => Some(Self::Ruby(None)),
            "beam.smp" => Some(Self::Beam),
            "grep" | "pcre2grep" | "pcregrep" => Some(Self::Pcre),
            "dotnet" => Some(Self::DotNet),
            "luajit" => Some(Self::LuaJit),
            "chrome" | "chromium" | "electron" => Some(Self::Chromium),
            _ if file.starts_with("libpython3.") || file.starts_with("python3.") => Some(Self::Python),
            _ if file.starts_with("libjvm.so") => Some(Self::Java),
            _ if file.starts_with("libnode.so") => Some(Self::Node),
            _ if file.starts_with("libruby") => Some(Self::Ruby(version_of(file))),
            _ if file.starts_with("libpcre2-") || file.starts_with("libpcre.so") => Some(Self::Pcre),
            _ if file.starts_with("libluajit-") || file.starts_with("luajit-") => Some(Self::LuaJit),
            _ if file.starts_with("libcoreclr.so") => Some(Self::DotNet),
            _ => None,
        }
    }

    /// The name of the runtime, with the process if that is known.
    pub(super) fn name(&self, pid: Option<u32>) -> String {
        let name = match self {
            Self::Java => "java",
            Self::Node => "node",
            Self::Chromium => "chromium",
            Self::DotNet => "dotnet",
            Self::Ruby(_) => "ruby",
            Self::LuaJit => "luajit",
            Self::Beam => "beam.smp",
            Self::Pcre => "pcre",
            Self::Python => "python",
            Self::Other(name) if name.is_empty() => "a program",
            Self::Other(name) => name,
        };
        pid.map_or_else(|| name.to_owned(), |pid| format!("{name} (pid {pid})"))
    }

    /// The option that makes the runtime write the names of its code. `None`: it has no such option.
    pub(super) fn naming(&self, pid: Option<u32>) -> Option<String> {
        let pid = pid.map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
        Some(match self {
            Self::Java => {
                format!("run `jcmd {pid} Compiler.perfmap` while it is profiled (JDK 17 and later)")
            }
            Self::Node => "start it as `node --perf-basic-prof`".to_owned(),
            Self::Chromium => "start it with `--no-sandbox --js-flags=--perf-basic-prof`".to_owned(),
            Self::DotNet => "use --dotnet-perf-map (.NET 8 and later; not for stubs that are there already), or start it with \
                 DOTNET_PerfMapEnabled=1"
                .to_owned(),
            Self::Ruby(Some((major, minor))) if (*major, *minor) < FIRST_RUBY => {
                format!("Ruby {major}.{minor} does not name its code: take Ruby 3.3 or later, and start it as `ruby --yjit-perf`")
            }
            Self::Ruby(_) => "start it as `ruby --yjit-perf` (Ruby 3.3 and later)".to_owned(),
            Self::Beam => format!(
                "start it with `+JPperf true` (OTP 24 and later): `erl +JPperf true`, or ERL_FLAGS; if it was, see that its user owns \
                 /tmp/perf-{pid}.map and that its `+JPperfdirectory` is no other"
            ),
            Self::Pcre => return None,
            Self::LuaJit => "build LuaJIT with XCFLAGS=-DLUAJIT_USE_PERFTOOLS".to_owned(),
            // Its own functions need no perf map: this is code that a library made.
            Self::Python | Self::Other(_) => format!("let it write /tmp/perf-{pid}.map"),
        })
    }

    /// What makes its code keep frame pointers, if it does not do so anyway.
    pub(super) fn frame_pointers(&self) -> Option<String> {
        match self {
            Self::Java => Some("start it with `-XX:+PreserveFramePointer`".to_owned()),
            Self::Beam => {
                Some("start it with `+JPperf true` (OTP 25 and later), with which its code keeps frame pointers; if it was, the rest stays cut".to_owned())
            }
            _ => None,
        }
    }
}

/// The first version of Ruby that writes perf maps.
const FIRST_RUBY: (u32, u32) = (3, 3);

/// The version in the name of a library of Ruby: `libruby-3.1.so.3.1`, `libruby.so.3.2`.
fn version_of(file: &str) -> Option<(u32, u32)> {
    let digits = |text: &str| {
        let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
        let (major, minor) = text.get(..end)?.trim_end_matches('.').split_once('.')?;
        Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
    };
    let in_name = file.strip_prefix("libruby-").and_then(digits);
    in_name.or_else(|| digits(file.split(".so.").nth(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_known_by_their_files() {
        let of = |path: &str| Runtime::of_file(path);
        assert_eq!(of("/usr/lib/jvm/java-17/lib/server/libjvm.so"), Some(Runtime::Java));
        assert_eq!(of("/usr/bin/python3.11"), Some(Runtime::Python));
        assert_eq!(of("/usr/lib/libpython3.13.so.1.0"), Some(Runtime::Python));
        assert_eq!(of("/usr/lib/libnode.so.108"), Some(Runtime::Node));
        assert_eq!(of("/usr/lib/libluajit-5.1.so.2"), Some(Runtime::LuaJit));
        assert_eq!([of("/usr/bin/nodes"), of("/lib/libc.so.6"), of("")], [None, None, None]);
    }

    #[test]
    fn each_runtime_has_its_remedy() {
        assert_eq!(
            Runtime::Java.naming(Some(7)).unwrap(),
            "run `jcmd 7 Compiler.perfmap` while it is profiled (JDK 17 and later)"
        );
        let dotnet = Runtime::of_file("/app/libcoreclr.so").unwrap();
        assert!(dotnet.naming(None).unwrap().contains("use --dotnet-perf-map"));
        assert_eq!(Runtime::Python.naming(None).unwrap(), "let it write /tmp/perf-PID.map");
        let naming = |file: &str| Runtime::of_file(file).unwrap().naming(None);
        assert!(
            naming("/usr/lib/libruby-3.1.so.3.1").unwrap().starts_with("Ruby 3.1 does not name its code")
        );
        for newer in ["/usr/lib/libruby-3.3.so.3.3", "libruby.so.3.4", "libruby.so", "/usr/bin/ruby"] {
            assert!(naming(newer).unwrap().starts_with("start it as `ruby --yjit-perf`"), "{newer}");
        }
        assert!(naming("/usr/lib/erlang/erts-14.2/bin/beam.smp").unwrap().contains("+JPperf true"));
        assert!(
            Runtime::Beam
                .naming(Some(7))
                .unwrap()
                .contains("if it was, see that its user owns /tmp/perf-7.map")
        );
        assert!(Runtime::Beam.frame_pointers().unwrap().ends_with("if it was, the rest stays cut"));
        assert_eq!([naming("/usr/bin/grep"), naming("libpcre2-8.so.0.11.0")], [None, None]);
        assert_eq!(Runtime::Other("app".to_owned()).name(Some(7)), "app (pid 7)");
    }
}
