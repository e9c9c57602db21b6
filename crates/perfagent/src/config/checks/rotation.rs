//! Checks that a capture can be cut into intervals.

use std::time::Duration;

use crate::config::duration;
use crate::config::facts::Facts;
use crate::config::request::{Destination, Request};
use crate::config::setting::Setting;
use crate::error::Error;
use crate::output::{FileTarget, OutputKind};

const ROTATE: &str = "--rotate";

/// The shortest interval. A cut costs some milliseconds, too much for shorter intervals.
const SHORTEST: Duration = Duration::from_millis(100);

pub(super) fn rotation(request: &Request, _: &Facts) -> Result<(), Error> {
    if !request.rotate.is_given() {
        return Ok(());
    }
    let refused = |reason: String, hint: String| Err(Error::invalid(ROTATE, reason, hint));
    if request.takes_heap() {
        let reason =
            format!("{ROTATE} and --heap are mutually exclusive: what is in use belongs to no interval");
        return refused(reason, "drop one of them".to_owned());
    }
    if !(request.profile.is_on() || request.off_cpu.is_on() || request.locks.is_on()) {
        let reason = format!("{ROTATE} requires --profile, --offcpu or --locks");
        return refused(reason, format!("add one of them, or drop {ROTATE}"));
    }
    let examples = format!("durations look like {}", duration::EXAMPLES);
    match &request.rotate {
        Setting::Unreadable(text) => {
            let why = duration::parse_duration(text).err().map_or(String::new(), |error| error.to_string());
            return refused(format!("{ROTATE} `{text}` is not a duration: {why}"), examples);
        }
        Setting::Value(every) if *every < SHORTEST => {
            return refused(format!("{ROTATE} must be at least {}ms", SHORTEST.as_millis()), examples);
        }
        _ => {}
    }
    let is_file = |to: &Destination| to.sinks.is_empty() && to.file.value() != Some(&FileTarget::Stdout);
    let outputs = request.outputs.iter().filter(|(kind, to)| kind.is_of_intervals() && to.is_given());
    match outputs.into_iter().find(|(_, to)| !is_file(to)) {
        None => Ok(()),
        Some((kind, _)) => {
            let option = OutputKind::option(*kind);
            let reason = format!("{option} must be a file with {ROTATE}: each interval has its own");
            refused(reason, format!("give {option} a path"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AgentBuilder, MemorySink};

    fn refusal(builder: AgentBuilder) -> String {
        builder.build().map_or_else(|error| error.to_string(), |_| String::new())
    }

    fn builder() -> AgentBuilder {
        AgentBuilder::default().pid(1)
    }

    #[test]
    fn intervals_need_a_profile_a_length_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cpu.pb.gz");
        let second = Duration::from_secs(1);
        assert_eq!(refusal(builder().cpu_profile(path.clone()).rotate(second)), "");
        assert!(refusal(builder().pmu().rotate(second)).contains("--rotate requires --profile"));
        let short = builder().cpu_profile(path.clone()).rotate(Duration::from_millis(99));
        assert!(refusal(short).contains("at least 100ms"));
        assert!(
            refusal(builder().cpu_profile(path).option("rotate", "soon"))
                .contains("`soon` is not a duration")
        );
        let sink = builder().cpu_profile_to(MemorySink::new()).rotate(second);
        assert!(refusal(sink).contains("--profile-output must be a file"));
    }
}
