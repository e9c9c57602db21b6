//! Unwind rules of all tables, deduplicated, as in the kernel side's map.

use std::collections::HashMap;

use unwind::Rule;

use crate::Error;
use crate::abi::MAX_RULES;

pub(crate) struct Rules {
    pub(crate) all: Vec<Rule>,
    known: HashMap<Rule, u16>,
}

impl Rules {
    pub(crate) fn new() -> Self {
        Self { all: vec![Rule::NONE], known: HashMap::from([(Rule::NONE, 0)]) }
    }

    /// Exactly these rules; those beyond the map's size are left out.
    pub(crate) fn of(rules: &[Rule]) -> Self {
        Self { all: rules[..rules.len().min(MAX_RULES)].to_vec(), known: HashMap::new() }
    }

    pub(crate) fn index(&mut self, rule: Rule) -> Result<u16, Error> {
        if let Some(index) = self.known.get(&rule) {
            return Ok(*index);
        }
        if self.all.len() >= MAX_RULES {
            return Err(Error::TooManyRules(MAX_RULES));
        }
        let index = self.all.len() as u16;
        self.all.push(rule);
        self.known.insert(rule, index);
        Ok(index)
    }
}
