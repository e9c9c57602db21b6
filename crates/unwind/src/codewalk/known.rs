//! What is known of all functions so far, for the analysis of one.

use hashbrown::HashMap;
use hashbrown::HashSet;

use super::starts::Starts;

pub(super) struct Known {
    /// Where functions start, and where they may.
    pub starts: Starts,
    /// Starts without certain evidence, of functions that were understood.
    likely: HashSet<u64>,
    /// Functions of which it is certain whether they return.
    returning: HashMap<u64, bool>,
    /// Functions that are assumed never to return while the assumption is tested.
    assumed: HashSet<u64>,
}

impl Known {
    pub(super) fn new(starts: Starts) -> Self {
        Self { starts, likely: HashSet::new(), returning: HashMap::new(), assumed: HashSet::new() }
    }

    /// Whether a function certainly starts at an address.
    pub(super) fn is_start(&self, address: u64) -> bool {
        self.starts.known().contains(&address)
    }

    pub(super) fn is_likely_start(&self, address: u64) -> bool {
        self.likely.contains(&address)
    }

    pub(super) fn add_likely_start(&mut self, address: u64) {
        self.likely.insert(address);
    }

    /// Whether a function returns, if that is certain.
    pub(super) fn returns(&self, start: u64) -> Option<bool> {
        let assumed = || self.assumed.contains(&start).then_some(false);
        self.returning.get(&start).copied().or_else(assumed)
    }

    /// All functions of which it is certain whether they return.
    pub(super) fn with_known_return(&self) -> HashSet<u64> {
        self.returning.keys().copied().collect()
    }

    /// Enters whether a function returns. True: that is new.
    pub(super) fn learn_return(&mut self, start: u64, returns: Option<bool>) -> bool {
        let before = match returns {
            Some(returns) => self.returning.insert(start, returns),
            None => self.returning.remove(&start),
        };
        before != returns
    }

    /// From now on these functions are assumed never to return.
    pub(super) fn assume_no_return(&mut self, functions: HashSet<u64>) {
        self.assumed = functions;
    }

    /// Ends the assumption: it is proven.
    pub(super) fn enter_assumed(&mut self) -> HashSet<u64> {
        self.returning.extend(self.assumed.iter().map(|start| (*start, false)));
        std::mem::take(&mut self.assumed)
    }
}
