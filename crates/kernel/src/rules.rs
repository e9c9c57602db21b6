//! Unwind rules of all files, deduplicated into one BPF array.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapHandle};
use memmap2::{MmapOptions, MmapRaw};
use unwind::Rule;

use crate::Error;
use crate::abi::MAX_RULES;

pub(crate) struct Rules {
    memory: MmapRaw,
    known: HashMap<Rule, u16>,
}

impl Rules {
    pub(crate) fn new(map: &MapHandle) -> Result<Self, Error> {
        let memory = MmapOptions::new()
            .len(map.max_entries() as usize * size_of::<Rule>())
            .map_raw(map.as_fd().as_raw_fd())
            .map_err(|source| Error::Mmap { map: "rules", source })?;
        let mut rules = Self { memory, known: HashMap::new() };
        rules.index(Rule::NONE)?;
        Ok(rules)
    }

    /// The rule at an index that [`Self::index`] returned.
    pub(crate) fn get(&self, index: u16) -> Option<Rule> {
        if usize::from(index) >= self.known.len() {
            return None;
        }
        // SAFETY: the index is below the number of written entries, all of which are mapped; an entry never changes.
        Some(unsafe { self.memory.as_mut_ptr().cast::<Rule>().add(usize::from(index)).read() })
    }

    /// The index of a known rule.
    pub(crate) fn find(&self, rule: Rule) -> Option<u16> {
        self.known.get(&rule).copied()
    }

    /// The index of a rule. A new rule is written to the map first.
    pub(crate) fn index(&mut self, rule: Rule) -> Result<u16, Error> {
        if let Some(index) = self.known.get(&rule) {
            return Ok(*index);
        }
        let next = self.known.len();
        if next >= MAX_RULES {
            return Err(Error::TooManyRules(MAX_RULES));
        }
        // SAFETY: next < MAX_RULES, the number of entries mapped; no program reads this entry yet, because no row
        // names it.
        unsafe { self.memory.as_mut_ptr().cast::<Rule>().add(next).write(rule) };
        self.known.insert(rule, next as u16);
        Ok(next as u16)
    }
}
