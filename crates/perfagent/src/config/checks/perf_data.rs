//! Checks that a perf.data file can grow where it is wanted.

use crate::config::facts::Facts;
use crate::config::request::Request;
use crate::error::Error;
use crate::output::OutputKind;

pub(super) fn perf_data(request: &Request, _: &Facts) -> Result<(), Error> {
    let Some(output) = request.outputs.get(&OutputKind::PerfData) else { return Ok(()) };
    if request.events.len() > 1 {
        let option = OutputKind::PerfData.option();
        let reason = format!("{option} has the samples of one event, and there are {}", request.events.len());
        return Err(Error::invalid(option, reason, "give one --event, or drop it"));
    }
    match output.file.value() {
        Some(file) if !file.grows_in_place() => {
            let option = OutputKind::PerfData.option();
            let reason = format!(
                "{option} must be a regular file, and not {}: its header changes while it grows",
                file.describe()
            );
            Err(Error::invalid(option, reason, format!("give {option} the path of a file")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::AgentBuilder;

    fn refusal(path: &Path) -> String {
        let builder = AgentBuilder::default().pid(1).perf_data(path);
        builder.with_cpu_profile().build().map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn it_is_a_file_and_has_a_profile_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(refusal(&folder.path().join("perf.data")), "");
        for device in ["/dev/null", "/dev/full"] {
            let message = refusal(Path::new(device));
            assert!(message.contains(&format!("regular file, and not {device}")), "{message}");
        }
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
        assert!(refusal(&fifo).contains("regular file"));
        let stdout = AgentBuilder::default().pid(1).with_cpu_profile().option("perf-data-output", "-");
        assert!(stdout.build().unwrap_err().to_string().contains("and not standard output"));
        let alone = AgentBuilder::default().pid(1).with_off_cpu_profile().perf_data(folder.path().join("x"));
        assert!(alone.build().unwrap_err().to_string().contains("--perf-data-output requires --profile"));
    }
}
