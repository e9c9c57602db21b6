//! Checks that allocations can be recorded beside what else is asked for.

use crate::config::HeapMode;
use crate::config::facts::Facts;
use crate::config::request::Request;
use crate::config::setting::Setting;
use crate::error::Error;

const HEAP: &str = "--heap";

pub(super) fn heap(request: &Request, _: &Facts) -> Result<(), Error> {
    if let Setting::Unreadable(text) = &request.heap {
        let reason = HeapMode::parse(text).err().unwrap_or_default();
        return Err(Error::invalid(HEAP, format!("{HEAP} {reason}"), "--heap, or --heap=exact"));
    }
    if !request.takes_heap() {
        return Ok(());
    }
    if request.profile.is_on() {
        let reason = "--heap and --profile are mutually exclusive: allocations take the place of samples";
        return Err(Error::invalid(HEAP, reason, "run perf-agent twice, also at the same time"));
    }
    if request.system_wide.is_on() {
        let reason = "--heap and -a are mutually exclusive: each allocation of each process would cost a microsecond or more";
        return Err(Error::invalid(HEAP, reason, "name the processes: --pid PID"));
    }
    if request.kernel_stacks.is_on() {
        let reason = "--heap and --kernel-stacks are mutually exclusive: functions of allocators run in no system call";
        return Err(Error::invalid(HEAP, reason, "drop --kernel-stacks"));
    }
    Ok(())
}
