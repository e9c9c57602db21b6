//! The health of the agent, for the HTTP endpoint.

use metrics::{Health, ModeHealth};

use crate::Ledger;

/// The part of the health that the ledgers contain. The caller fills in names, memory and time.
pub(crate) fn of(ledgers: &[Ledger]) -> Health {
    let mut health = Health::new(env!("CARGO_PKG_VERSION"));
    for ledger in ledgers.iter().filter(|ledger| ledger.mode.has_stacks()) {
        let mut mode = ModeHealth::new(ledger.mode.name());
        mode.samples = ledger.samples;
        let losses = [
            ("ring_full", ledger.lost_ring_full),
            ("map_full", ledger.lost_map_full),
            ("no_memory", ledger.lost_no_memory),
            ("memory_limit", ledger.lost_memory_limit),
            ("busy", ledger.lost_busy),
            ("unseen", ledger.lost_unseen),
            ("processes", ledger.processes_lost),
        ];
        mode.lost = losses.map(|(cause, count)| (cause.to_owned(), count)).into();
        mode.walks = Ledger::walk_names().map(str::to_owned).zip(ledger.walks).collect();
        health.modes.push(mode);
    }
    health
}
