//! Ledgers as a recording keeps them.

use recording::FrozenLedger;

use crate::ledger::Ledger;

/// The ledgers as texts, for a recording that is written: outputs made from it later tell the same as those of the live run.
pub(crate) fn freeze(ledgers: &[Ledger]) -> Vec<FrozenLedger> {
    ledgers.iter().map(|ledger| FrozenLedger { mode: ledger.mode, entries: ledger.entries() }).collect()
}
