//! A session as the agent sees it.

use std::sync::mpsc::Receiver;

use super::begin::begin;
use super::parts::Parts;
use super::result::CaptureResult;
use super::run::{Request, run};
use crate::{CancelToken, Error};

pub(crate) use super::begin::Order;

/// A capture that has begun. Dropping it closes and detaches everything.
pub(crate) struct Session(Parts);

impl Session {
    /// Opens everything and begins to sample.
    pub(crate) fn begin(order: Order, cancel: &CancelToken) -> Result<Self, Error> {
        begin(order, cancel).map(Self)
    }

    /// Runs until it is asked to stop, or until all targets have ended.
    pub(crate) fn run(self, requests: Receiver<Request>) -> CaptureResult {
        run(self.0, requests)
    }
}
