//! Which rules of a table the programs get. The rules of a file lie beside its rows, so they take room from no other file and go
//! with its table. A file may have so many different ones, and no more: real ones have far fewer.

use std::borrow::Cow;
use std::cmp::Reverse;

use unwind::{Rule, Table};

use crate::abi::MAX_RULES;

/// The rules of a table that the programs get, and how its rows name them.
pub(crate) struct KeptRules<'a> {
    pub(crate) rules: Cow<'a, [Rule]>,
    /// By the number in the table. None: all rules are kept, under their numbers.
    numbers: Option<Vec<u16>>,
    /// How many rules are missing. Where one of them holds, walks end with [`Rule::UNSUPPORTED`].
    pub(crate) left_out: usize,
}

impl<'a> KeptRules<'a> {
    /// Those that most rows name, if there are too many.
    pub(crate) fn of(table: &'a Table) -> Self {
        let all = &table.rules;
        if all.len() <= MAX_RULES {
            return Self { rules: Cow::Borrowed(all), numbers: None, left_out: 0 };
        }
        let mut rows = vec![0_u32; all.len()];
        for row in &table.rows {
            if let Some(rows) = rows.get_mut(usize::from(row.rule)) {
                *rows += 1;
            }
        }
        // The gap is always the first, and the second stands for what is left out.
        let mut rules = vec![Rule::NONE, Rule::UNSUPPORTED];
        let mut numbers = vec![1; all.len()];
        numbers[0] = 0;
        let mut others: Vec<usize> = (1..all.len()).filter(|at| all[*at] != Rule::UNSUPPORTED).collect();
        others.sort_by_key(|at| Reverse(rows[*at]));
        let left_out = others.len().saturating_sub(MAX_RULES - rules.len());
        others.truncate(MAX_RULES - rules.len());
        for at in others {
            numbers[at] = rules.len() as u16;
            rules.push(all[at]);
        }
        Self { rules: Cow::Owned(rules), numbers: Some(numbers), left_out }
    }

    /// The number under which the programs know a rule of the table.
    pub(crate) fn number(&self, rule: u16) -> u16 {
        let Some(numbers) = &self.numbers else { return rule };
        numbers.get(usize::from(rule)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use unwind::{PageSpan, Row};

    use super::*;

    /// A table with so many different rules, each for one row; the last one has two.
    fn table(rules: i32) -> Table {
        let rule = |number: i32| Rule { cfa: 1, cfa_off: 8 * number, ra_off: -8, ..Rule::NONE };
        let numbers = (1..=rules as u16).chain([rules as u16]);
        let rows: Vec<Row> = (0..).zip(numbers).map(|(offset, rule)| Row { offset, rule }).collect();
        let rules = std::iter::once(Rule::NONE).chain((1..=rules).map(rule)).collect();
        let pages = vec![PageSpan { first_row: 0, count: rows.len() as u32 }];
        Table { pages, rows, rules, ..Table::default() }
    }

    #[test]
    fn a_real_table_keeps_its_rules_and_their_numbers() {
        let table = table(MAX_RULES as i32 - 1);
        let kept = KeptRules::of(&table);
        assert_eq!((kept.rules.len(), kept.left_out), (MAX_RULES, 0));
        assert_eq!((kept.number(0), kept.number(8000)), (0, 8000));
    }

    #[test]
    fn of_too_many_rules_those_with_most_rows_stay_and_the_others_end_walks() {
        let table = table(32_000);
        let kept = KeptRules::of(&table);
        assert_eq!((kept.rules.len(), kept.left_out), (MAX_RULES, 32_000 - (MAX_RULES - 2)));
        assert_eq!(kept.rules[usize::from(kept.number(32_000))], table.rules[32_000]);
        let of = |rule: u16| kept.rules[usize::from(kept.number(rule))];
        let right = (1..=32_000).filter(|rule| of(*rule) == table.rules[usize::from(*rule)]).count();
        let ends = (1..=32_000).filter(|rule| of(*rule) == Rule::UNSUPPORTED).count();
        assert_eq!((of(0), right, ends), (Rule::NONE, MAX_RULES - 2, kept.left_out));
    }
}
