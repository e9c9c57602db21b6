//! Names that are similar to one that is not there.

/// Names that are suggested.
const SUGGESTED: usize = 3;
/// Longer names are not compared.
const MAX_NAME: usize = 128;
/// Names that are compared letter by letter.
const MAX_COMPARED: usize = 1 << 18;

/// Names of a table, the most similar first.
#[derive(Debug)]
pub(crate) struct Near<'n> {
    wanted: &'n [u8],
    compared: usize,
    best: Vec<(usize, Vec<u8>)>,
}

impl<'n> Near<'n> {
    pub fn to(wanted: &'n str) -> Self {
        Self { wanted: wanted.as_bytes(), compared: 0, best: Vec::new() }
    }

    /// Looks at a name.
    pub fn offer(&mut self, name: &[u8]) {
        if name.is_empty() || name.len() > MAX_NAME || self.wanted.len() > MAX_NAME {
            return;
        }
        // Two letters that changed places are two changes.
        let limit = (self.wanted.len() / 4).clamp(if self.wanted.len() < 4 { 1 } else { 2 }, 4);
        if name.len().abs_diff(self.wanted.len()) > limit || self.compared >= MAX_COMPARED {
            return;
        }
        self.compared += 1;
        let distance = distance(self.wanted, name);
        let is_better = self.best.len() < SUGGESTED || self.best.last().is_some_and(|last| distance < last.0);
        if distance > limit || !is_better || self.best.iter().any(|(_, known)| known == name) {
            return;
        }
        self.best.push((distance, name.to_owned()));
        self.best.sort();
        self.best.truncate(SUGGESTED);
    }

    /// The names, the most similar first.
    pub fn names(self) -> Vec<String> {
        self.best.into_iter().map(|(_, name)| String::from_utf8_lossy(&name).into_owned()).collect()
    }
}

/// How many letters must be added, removed or replaced to make one of the other.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (number, letter) in one.iter().enumerate() {
        let mut diagonal = number;
        let mut left = number + 1;
        for (cell, known) in row.iter_mut().skip(1).zip(other) {
            let next = (diagonal + usize::from(letter != known)).min(*cell + 1).min(left + 1);
            diagonal = *cell;
            *cell = next;
            left = next;
        }
        if let Some(first) = row.first_mut() {
            *first = number + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_letters() {
        for (one, other, wanted) in [
            ("", "", 0),
            ("malloc", "malloc", 0),
            ("mallok", "malloc", 1),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("free", "fre", 1),
        ] {
            assert_eq!(distance(one.as_bytes(), other.as_bytes()), wanted, "{one} {other}");
            assert_eq!(distance(other.as_bytes(), one.as_bytes()), wanted, "{other} {one}");
        }
    }

    #[test]
    fn the_most_similar_names_are_kept_once() {
        let mut near = Near::to("handle_request");
        for name in [
            "main",
            "handle_requests",
            "handle_reque",
            "handle_requests",
            "handle_requesu",
            "handle_rquest",
            "handle",
        ] {
            near.offer(name.as_bytes());
        }
        assert_eq!(near.names(), ["handle_requests", "handle_requesu", "handle_rquest"]);
    }
}
