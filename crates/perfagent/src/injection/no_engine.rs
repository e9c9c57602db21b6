//! Processors on which no process can be switched.

use recording::TrampolineCounts;

use super::refused::Refused;
use crate::Error;

/// There is none.
pub(super) enum Engine {}

impl Engine {
    pub(super) fn new() -> Result<Self, Error> {
        Err(Error::Unsupported { feature: "--inject-python".to_owned(), since: "x86-64".to_owned() })
    }

    pub(super) fn add(&self, _: u32) -> Result<(), Refused> {
        match *self {}
    }

    pub(super) fn add_all(&self, _: &[u32], _: impl Fn() -> bool + Sync) -> Vec<Refused> {
        match *self {}
    }

    pub(super) fn counts(&self) -> TrampolineCounts {
        match *self {}
    }

    pub(super) fn finish_forked(&self, _: &[u32]) -> (TrampolineCounts, Vec<Refused>) {
        match *self {}
    }

    pub(super) fn finish(&self) -> (TrampolineCounts, Vec<Refused>) {
        match *self {}
    }
}
