//! One command to look further into what was written.

use std::path::Path;

use perfagent::{OutputKind, OutputReport};

/// Outputs from which a command goes on, the most useful one first.
const KINDS: [OutputKind; 8] = [
    OutputKind::Html,
    OutputKind::FlameGraph,
    OutputKind::CpuProfile,
    OutputKind::OffCpuProfile,
    OutputKind::WallProfile,
    OutputKind::LockProfile,
    OutputKind::HeapProfile,
    OutputKind::Recording,
];

/// The command for the best of these outputs. None if none of them is a file that was written.
pub fn command(outputs: &[OutputReport]) -> Option<String> {
    let file =
        |kind| outputs.iter().find(|output| output.kind == kind && output.result.is_ok())?.path.as_deref();
    KINDS.iter().find_map(|kind| Some(of(*kind, file(*kind)?)))
}

fn of(kind: OutputKind, path: &Path) -> String {
    let path = quoted(&path.display().to_string());
    match kind {
        OutputKind::FlameGraph | OutputKind::Html => format!("xdg-open {path}"),
        OutputKind::Recording => format!("perf-agent render {path} -o report.html"),
        _ => format!("go tool pprof -http=: {path}"),
    }
}

/// The word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) && !word.starts_with('-') {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_fits_the_output_and_the_shell() {
        let path = Path::new("/tmp/a.pb.gz");
        assert_eq!(of(OutputKind::CpuProfile, path), "go tool pprof -http=: /tmp/a.pb.gz");
        assert_eq!(of(OutputKind::FlameGraph, Path::new("it's $x.svg")), "xdg-open 'it'\\''s $x.svg'");
        assert_eq!(of(OutputKind::Recording, path), "perf-agent render /tmp/a.pb.gz -o report.html");
    }
}
