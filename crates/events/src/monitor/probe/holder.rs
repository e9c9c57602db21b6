//! Keeps events of probes where they were inherited: see [`inherited`](super::inherited).

use std::os::fd::OwnedFd;

use perf_abi::EventAttr;
use perf_abi::numbers::{event_type, sample, software};

use crate::monitor::opening::open_one;
use crate::monitor::place::{Place, PlaceKind};

/// Opens an event that never happens in a thread and what it will start. As long as they have it, the kernel exchanges none of their events. Before
/// Linux 6.13 there is no such event.
pub(crate) fn hold_events(tid: u32) -> Option<OwnedFd> {
    let attr = EventAttr {
        kind: event_type::SOFTWARE,
        config: software::DUMMY,
        sample_type: sample::TID | sample::READ,
        inherit: true,
        disabled: true,
        ..EventAttr::default()
    };
    let place = Place { source: 0, kind: PlaceKind::Thread(tid) };
    open_one(&attr, "dummy", &place, None, None).ok()
}
