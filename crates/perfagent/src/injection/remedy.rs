//! What to do about a process that is not switched.

/// What to do, by the kind of the refusal.
pub(super) fn remedy(token: &str) -> &'static str {
    match token {
        "not_python" => "leave --inject-python out: it is for processes that run CPython 3.12 or later",
        "python_too_old" => {
            "leave --inject-python out: functions of CPython 3.8 and later are shown without it"
        }
        "no_perf_trampoline" => {
            "leave --inject-python out: functions in Python are shown without it; a process that was switched too often has to be started anew"
        }
        "no_libpython_symbols" => {
            "leave --inject-python out: functions in Python are shown without it; or run an interpreter whose symbols were not stripped"
        }
        "timeout" => {
            "try again when it is neither stopped nor waits in the kernel, or leave --inject-python out"
        }
        "ptrace_denied" => {
            "end the other tracer, grant cap_sys_ptrace, or lower kernel.yama.ptrace_scope, as the message says; or leave --inject-python out"
        }
        "exited" => "give the PID of a process that runs",
        _ => "leave --inject-python out: functions in Python are shown without it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_remedy_of_its_own() {
        let tokens = [
            "not_python",
            "python_too_old",
            "no_perf_trampoline",
            "no_libpython_symbols",
            "timeout",
            "ptrace_denied",
            "exited",
            "other",
        ];
        let remedies: std::collections::BTreeSet<_> = tokens.map(remedy).into();
        assert_eq!(remedies.len(), tokens.len(), "{remedies:?}");
    }
}
