//! Samples that were lost.

use super::piece::{Advice, AdviceKind};
use crate::ledger::Ledger;

/// A share up to this, in percent, is not told.
const MIN_PCT: f64 = 0.1;

/// Samples that found in use what they needed. Those of an event come when the event happens, not at a rate.
fn busy(ledger: &Ledger) -> (u64, &'static str, Option<&'static str>) {
    let (cause, remedy) = match ledger.sampled {
        Some(_) => {
            ("a thread had been preempted at a probe on the same CPU, or a table was being changed", None)
        }
        None => ("tables were being changed at that moment", Some("lower --sample-rate")),
    };
    (ledger.lost_busy, cause, remedy)
}

/// The advice about the samples that a profile has lost.
pub(super) fn of(ledger: &Ledger) -> Option<Advice> {
    let lost = ledger.lost();
    let share_pct = 100.0 * lost as f64 / lost.saturating_add(ledger.samples).max(1) as f64;
    if share_pct <= MIN_PCT {
        return None;
    }
    let causes = [
        (ledger.lost_map_full, "there were more distinct stacks than fit", Some("raise --max-stacks")),
        (
            ledger.lost_ring_full,
            "more new stacks came at once than fit into the ring",
            Some("raise --ring-size"),
        ),
        (
            ledger.lost_memory_limit,
            "all stacks together took the memory that they may",
            Some("raise --max-memory, or cut the capture with --rotate"),
        ),
        (
            ledger.lost_no_memory,
            "the kernel had no room for more processes or threads",
            Some("profile fewer processes at a time"),
        ),
        busy(ledger),
        (ledger.lost_unseen, "the kernel did not report when they began", None),
    ];
    let (_, cause, remedy) = causes.into_iter().max_by_key(|(lost, ..)| *lost)?;
    let message = format!(
        "{}: {share_pct:.1} % of the samples are lost ({lost}), most because {cause}",
        ledger.subject()
    );
    Some(Advice { kind: AdviceKind::LostSamples, share_pct, message, remedy: remedy.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::{Event, Unit};

    #[test]
    fn a_rate_is_lowered_only_where_there_is_one() {
        let clock = Ledger { samples: 10, lost_busy: 5, ..Ledger::default() };
        let event =
            Ledger { sampled: Some(Event::sampled("uprobe", "uprobe", 1, Unit::Count)), ..clock.clone() };
        assert_eq!(of(&clock).unwrap().remedy.as_deref(), Some("lower --sample-rate"));
        let advice = of(&event).unwrap();
        assert_eq!(advice.remedy, None);
        assert!(advice.message.contains("preempted at a probe"), "{}", advice.message);
    }
}
