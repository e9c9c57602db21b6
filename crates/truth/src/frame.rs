//! Frames, stacks and captures, in one form for all profilers.

use std::collections::HashMap;
use std::path::PathBuf;

/// One physical frame: inlined functions are not frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The function's name in the spelling of [`plain_name`], if the profiler knew it.
    pub name: Option<String>,
    /// Path of the mapped file, a special name (`[vdso]`, `[jit]`), or empty.
    pub module: String,
    /// Address within the file, as linked; 0 if unknown.
    pub svma: u64,
}

impl Frame {
    /// The module without its folders.
    #[must_use]
    pub fn module_name(&self) -> &str {
        self.module.rsplit('/').next().unwrap_or_default()
    }

    /// `name@module`, for people.
    #[must_use]
    pub fn display(&self) -> String {
        let name = self.name.as_deref().unwrap_or("?");
        if self.module.is_empty() { name.to_owned() } else { format!("{name}@{}", self.module_name()) }
    }
}

/// A stack and how often it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// User frames, root first.
    pub frames: Vec<Frame>,
    /// The profiler's own mark that outer frames are missing.
    pub truncated: Option<String>,
    /// Number of samples; blocks in an off-CPU profile.
    pub count: u64,
    /// Time in ns, if the profiler measures it.
    pub ns: u64,
    /// All values of the profile.
    pub values: Vec<i64>,
    /// The label `state` of an off-CPU profile, or empty.
    pub state: String,
    /// Process id, 0 if unknown.
    pub pid: u32,
    /// Process name, or empty.
    pub comm: String,
}

impl Stack {
    /// Whether a function of that name is in the stack.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.frames.iter().any(|f| f.name.as_deref() == Some(name))
    }

    /// The stack as one line, root first.
    #[must_use]
    pub fn display(&self) -> String {
        let mut parts: Vec<String> = self.truncated.iter().cloned().collect();
        let mut frames = self.frames.iter().peekable();
        while let Some(frame) = frames.next() {
            let mut times = 1;
            while frames.peek().is_some_and(|next| next.name == frame.name && next.module == frame.module) {
                frames.next();
                times += 1;
            }
            let text = frame.display();
            parts.push(if times > 1 { format!("{text} x{times}") } else { text });
        }
        parts.join(" > ")
    }
}

/// The result of one profiler in one run.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// Every distinct stack.
    pub stacks: Vec<Stack>,
    /// The build-ids that the profiler found of mapped files, by their paths: several where files of containers have the same path.
    pub build_ids: HashMap<String, Vec<Vec<u8>>>,
    /// The profiler's own ledger, `KEY=VALUE`.
    pub comments: Vec<String>,
    /// Kernel time of the profiler's programs, if it could be measured.
    pub kernel_ns: Option<u64>,
    /// How often those programs ran.
    pub kernel_runs: Option<u64>,
    /// Kernel time in ns and runs of those programs that take samples, the samples of other processes included.
    pub sampler: Option<(u64, u64)>,
    /// Length of the capture in ns by the profiler; 0 if unknown.
    pub duration_ns: u64,
    /// The file that it was read from.
    pub file: PathBuf,
}

impl Capture {
    /// Number of samples in all.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.stacks.iter().map(|s| s.count).sum()
    }

    /// Blocks and ns of all stacks that satisfy a condition.
    pub fn sums(&self, wanted: impl Fn(&Stack) -> bool) -> (u64, u64) {
        let stacks = self.stacks.iter().filter(|s| wanted(s));
        stacks.fold((0, 0), |(count, ns), s| (count + s.count, ns + s.ns))
    }

    /// A value of the profiler's own ledger.
    #[must_use]
    pub fn ledger(&self, key: &str) -> Option<&str> {
        let prefix = format!("perf-agent.{key}=");
        self.comments.iter().find_map(|c| c.strip_prefix(&prefix))
    }

    /// Kernel time per sample in ns.
    #[must_use]
    pub fn kernel_ns_per_sample(&self) -> Option<f64> {
        let samples = self.samples();
        self.kernel_ns.filter(|_| samples > 0).map(|ns| ns as f64 / samples as f64)
    }
}

/// A name in the one spelling that patterns use: no parameters, no clone or version suffix, `{}` as `<>`, no blanks;
/// the stub of `f` as `plt:f`.
#[must_use]
pub fn plain_name(name: &str) -> String {
    let name = name.trim().replace("(anonymous namespace)", "<anonymous>");
    if let Some(stub) = name.strip_suffix("@plt") {
        return format!("plt:{stub}");
    }
    let mut plain = without_parameters(&name);
    if let Some(at) = plain.find('@') {
        plain.truncate(at);
    }
    for suffix in [".constprop.", ".isra.", ".part.", ".lto_priv.", ".llvm.", ".cold"] {
        if let Some(at) = plain.find(suffix) {
            plain.truncate(at);
        }
    }
    let plain = plain.strip_suffix(".abi0").unwrap_or(&plain);
    plain
        .trim()
        .chars()
        .map(|c| match c {
            '{' => '<',
            '}' => '>',
            c if c.is_whitespace() => '_',
            c => c,
        })
        .collect()
}

/// Cuts at the first parenthesis outside of angle brackets that opens a parameter list.
fn without_parameters(name: &str) -> String {
    let (mut depth, bytes) = (0_i32, name.as_bytes());
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] != b'-' => depth -= 1,
            b'(' if depth <= 0 && at > 0 && !name[..at].ends_with("operator") && bytes[at - 1] != b'.' => {
                // `f(int)::{lambda()#1}::operator()(int) const`: what follows the scope still names the function.
                let rest = skip_parentheses(&name[at..]);
                return match rest.strip_prefix(" const").unwrap_or(rest) {
                    rest if rest.starts_with("::") => format!("{}{}", &name[..at], without_parameters(rest)),
                    _ => name[..at].to_owned(),
                };
            }
            _ => {}
        }
    }
    name.to_owned()
}

fn skip_parentheses(text: &str) -> &str {
    let mut depth = 0_i32;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => {
                depth -= 1;
                if depth == 0 {
                    return &text[at + 1..];
                }
            }
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_brought_to_one_spelling() {
        for (given, plain) in [
            ("__libc_start_main@@GLIBC_2.34", "__libc_start_main"),
            ("tiny@plt", "plt:tiny"),
            ("Inner::visit(long)", "Inner::visit"),
            ("ring_a.constprop.0", "ring_a"),
            ("long apply<long>(std::function<long (long)> const&, long)", "long_apply<long>"),
            (
                "<rust_chain::Twice as rust_chain::Stage>::apply",
                "<rust_chain::Twice_as_rust_chain::Stage>::apply",
            ),
            ("std::rt::lang_start::{{closure}}", "std::rt::lang_start::<<closure>>"),
            ("main.(*T).run", "main.(*T).run"),
            ("runtime.goexit.abi0", "runtime.goexit"),
            ("std::vector<int>::operator()(int) const", "std::vector<int>::operator()"),
        ] {
            assert_eq!(plain_name(given), plain, "{given}");
        }
    }

    #[test]
    fn repeated_frames_are_told_once() {
        let frame = |name: &str| Frame { name: Some(name.into()), ..Frame::default() };
        let stack = Stack { frames: vec![frame("main"), frame("f"), frame("f")], ..Stack::default() };
        assert_eq!(stack.display(), "main > f x2");
    }
}
