//! Records of processes that were lost, and what is said about them.

use events::SideBandCounts;
use kernel::LifeCounts;

use crate::{Warning, WarningKind};

/// How much was lost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Records of forks, execs, exits and names.
    pub(crate) life: u64,
    /// Records of mappings.
    pub(crate) side_band: u64,
    /// How often a ring of the side band was so full that records may be lost, whether or not that was said yet.
    full: u64,
}

impl Losses {
    pub(crate) fn new(life: LifeCounts, side_band: SideBandCounts) -> Self {
        Self { life: life.lost, side_band: side_band.lost, full: side_band.full }
    }

    /// Whether records of life were lost since `before`.
    pub(super) fn of_life_since(self, before: Self) -> bool {
        self.life > before.life
    }

    /// Whether records of mappings were lost, or may be, since `before`.
    pub(super) fn of_mappings_since(self, before: Self) -> bool {
        self.side_band > before.side_band || self.full > before.full
    }

    /// Warnings for the user. `concern_targets`: a target has mappings without a record. Otherwise the lost records were of other programs, and only
    /// the ledger counts them.
    pub(crate) fn warnings(self, concern_targets: bool) -> Vec<Warning> {
        let of_mappings = if concern_targets { self.side_band } else { 0 };
        let told = [
            (
                self.life,
                "forks, execs, exits and names of processes",
                "raise --ring-size, or profile fewer processes at a time",
            ),
            (
                of_mappings,
                "new executable mappings",
                "a process maps code faster than it can be followed; frames in code that was mapped for a moment only may \
                 have no names",
            ),
        ];
        let told = told.iter().filter(|(lost, ..)| *lost > 0).map(|(lost, what, hint)| {
            let message =
                format!("{lost} records of {what} are lost; the processes were read again from /proc");
            Warning::new(WarningKind::Lost, message, *hint)
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_noticed_and_told_by_itself() {
        let none = Losses::default();
        assert_eq!(none.warnings(true), []);
        let life = Losses { life: 3, ..none };
        assert!(life.of_life_since(none) && !life.of_mappings_since(none) && !life.of_life_since(life));
        assert!(life.warnings(false)[0].message.starts_with("3 records of forks"));
        let side_band = Losses { side_band: 4, ..none };
        assert!(side_band.of_mappings_since(none) && !side_band.of_life_since(none));
        assert_eq!(side_band.warnings(true).len(), 1);
        assert_eq!(side_band.warnings(false), [], "records of other programs");
        let full = Losses { full: 1, ..none };
        assert!(full.of_mappings_since(none) && full.warnings(true).is_empty());
    }
}
