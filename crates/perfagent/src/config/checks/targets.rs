//! Checks that there is exactly one kind of target.

use crate::config::command;
use crate::config::facts::Facts;
use crate::config::request::Request;
use crate::error::Error;

/// The highest PID of the kernel (`PID_MAX_LIMIT`).
pub(super) const MAX_PID: u32 = 4_194_304;

/// The kinds of target in the request.
pub(super) fn target_forms(request: &Request) -> Vec<&'static str> {
    [
        ("--pid", !request.pids.is_empty()),
        ("--comm", request.pids.is_empty() && !request.comms.is_empty()),
        ("-a", request.system_wide.is_on()),
        ("-- CMD", !request.commands.is_empty()),
    ]
    .into_iter()
    .filter_map(|(form, used)| used.then_some(form))
    .collect()
}

pub(super) fn one_target(request: &Request, _: &Facts) -> Result<(), Error> {
    match target_forms(request).as_slice() {
        forms @ [first, second, ..] => Err(Error::invalid(
            *first,
            format!("{} are mutually exclusive", forms.join(" and ")),
            match length_by_sleep(request) {
                Some(length) => {
                    format!("for the length of the capture write --duration {length} in place of the command")
                }
                None => format!("keep one of them: drop {first} or {second}"),
            },
        )),
        _ => Ok(()),
    }
}

/// The N of `-- sleep N`, by which perf is told the length of a capture.
fn length_by_sleep(request: &Request) -> Option<String> {
    let command = request.commands.first()?;
    let mut words = command.get_args();
    match (command.get_program().to_str()?, words.next(), words.next()) {
        ("sleep" | "/bin/sleep" | "/usr/bin/sleep", Some(length), None) => Some(length.to_str()?.to_owned()),
        _ => None,
    }
}

pub(super) fn some_target(request: &Request, _: &Facts) -> Result<(), Error> {
    if target_forms(request).is_empty() {
        return Err(Error::invalid(
            "--pid",
            "a target is required: --pid PID, --comm NAME, -a, or -- CMD",
            "for example: perf-agent --profile --pid 4711",
        ));
    }
    Ok(())
}

pub(super) fn no_children(request: &Request, _: &Facts) -> Result<(), Error> {
    if request.no_children.is_on() && request.system_wide.is_on() {
        let message = "--no-children and -a are mutually exclusive: every process is a target";
        return Err(Error::invalid("--no-children", message, "drop one of them"));
    }
    Ok(())
}

/// The kernel cuts names to so many bytes.
const MAX_NAME: usize = 15;

pub(super) fn comms(request: &Request, _: &Facts) -> Result<(), Error> {
    match request.comms.iter().find(|name| !(1..=MAX_NAME).contains(&name.len())) {
        None => Ok(()),
        Some(name) => {
            let hint = match name.get(..name.floor_char_boundary(MAX_NAME)) {
                Some(begin) if !begin.is_empty() => {
                    format!("the kernel keeps the first bytes: --comm '{begin}'")
                }
                _ => "see `ps -e -o pid,comm`".to_owned(),
            };
            let message = format!("--comm `{name}`: names of processes have 1 to {MAX_NAME} bytes");
            Err(Error::invalid("--comm", message, hint))
        }
    }
}

/// Checks the processes that have a setting of their own for kernel frames. A process may become a target later.
pub(super) fn target_kernel_stacks(request: &Request, _: &Facts) -> Result<(), Error> {
    let Some(first) = request.target_kernel_stacks.keys().next() else { return Ok(()) };
    if request.system_wide.is_on() {
        return Err(Error::invalid(
            "target_kernel_stacks",
            format!(
                "target_kernel_stacks: {first} is not a target of its own, because the whole system is the target"
            ),
            "choose for all processes, with `kernel_stacks`",
        ));
    }
    match request.target_kernel_stacks.keys().find(|pid| !is_pid(**pid)) {
        None => Ok(()),
        Some(pid) => Err(Error::invalid(
            "target_kernel_stacks",
            format!("target_kernel_stacks: {pid} is not in 1..={MAX_PID}"),
            "give the number of a process that is a target, or becomes one",
        )),
    }
}

/// Whether a number can be that of a process.
fn is_pid(pid: u32) -> bool {
    (1..=MAX_PID).contains(&pid)
}

pub(super) fn pids(request: &Request, _: &Facts) -> Result<(), Error> {
    for pid in &request.pids {
        match pid {
            Ok(pid) => check_pid(*pid)?,
            Err(text) => return Err(not_a_pid(text)),
        }
    }
    Ok(())
}

/// Checks that a number can be that of a process.
pub(crate) fn check_pid(pid: u32) -> Result<(), Error> {
    if is_pid(pid) { Ok(()) } else { Err(not_a_pid(&pid.to_string())) }
}

fn not_a_pid(given: &str) -> Error {
    Error::invalid(
        "--pid",
        format!("--pid `{given}` is not in 1..={MAX_PID}"),
        "give the number of a running process, as `ps -e` shows it",
    )
}

pub(super) fn command_exists(request: &Request, facts: &Facts) -> Result<(), Error> {
    let Some(command) = request.commands.first() else { return Ok(()) };
    match command::look_up(command, &facts.path) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::invalid_command(&command.get_program().to_string_lossy(), &error)),
    }
}
