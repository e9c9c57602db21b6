//! Checks of the filters of samples.

use crate::config::facts::Facts;
use crate::config::request::Request;
use crate::error::Error;

pub(super) fn filters(request: &Request, _: &Facts) -> Result<(), Error> {
    let given = [("--tid", !request.tids.is_empty()), ("--cgroup", request.cgroup.is_given())];
    let Some((option, _)) = given.into_iter().find(|(_, given)| *given) else { return Ok(()) };
    if request.pmu.is_on() {
        let message =
            format!("{option} and --pmu are mutually exclusive: the figures are those of the whole target");
        return Err(Error::invalid(option, message, format!("drop {option}, or take a profile alone")));
    }
    for tid in &request.tids {
        let text = match tid {
            Ok(tid) if (1..=super::targets::MAX_PID).contains(tid) => continue,
            Ok(tid) => tid.to_string(),
            Err(text) => text.clone(),
        };
        let message = format!("--tid `{text}` is not in 1..={}", super::targets::MAX_PID);
        return Err(Error::invalid("--tid", message, "give the number of a thread; see `ps -eL`"));
    }
    let Some(group) = request.cgroup.value() else { return Ok(()) };
    match process::find_cgroup(group) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::invalid(
            "--cgroup",
            format!("--cgroup `{group}`: {error}"),
            "give a directory below /sys/fs/cgroup, a path as in /proc/PID/cgroup, or a container id",
        )),
    }
}
