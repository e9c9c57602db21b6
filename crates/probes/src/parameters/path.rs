//! The text of a parameter: `request->part.id:x32`.

use super::error::ParameterError;

/// Longer paths are refused.
const MAX_STEPS: usize = 16;

/// A parameter, and the way from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParameterPath {
    pub name: String,
    pub steps: Vec<Step>,
    /// The type that was asked for, in the kernel's language.
    pub kind: Option<String>,
}

/// To a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// `->`, not `.`.
    pub through_pointer: bool,
    pub member: String,
}

impl ParameterPath {
    pub fn parse(text: &str) -> Result<Self, ParameterError> {
        let refused = || ParameterError::Text(text.to_owned());
        let (path, kind) = match text.split_once(':') {
            Some((path, kind)) if !kind.is_empty() => (path, Some(kind.to_owned())),
            Some(_) => return Err(refused()),
            None => (text, None),
        };
        let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
        let word = |rest: &mut &str| {
            let end = rest.find(|letter| !is_letter(letter)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            *rest = behind;
            if word.is_empty() { Err(refused()) } else { Ok(word.to_owned()) }
        };
        let mut rest = path;
        let name = word(&mut rest)?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let through_pointer = rest.starts_with("->");
            rest = rest.strip_prefix("->").or_else(|| rest.strip_prefix('.')).ok_or_else(refused)?;
            steps.push(Step { through_pointer, member: word(&mut rest)? });
        }
        if steps.len() > MAX_STEPS { Err(refused()) } else { Ok(Self { name, steps, kind }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_names_arrows_and_dots() {
        let path = ParameterPath::parse("request->part.id:x32").unwrap();
        let steps: Vec<_> = path.steps.iter().map(|step| (step.through_pointer, &*step.member)).collect();
        assert_eq!((&*path.name, path.kind.as_deref()), ("request", Some("x32")));
        assert_eq!(steps, [(true, "part"), (false, "id")]);
        assert!(ParameterPath::parse("n").unwrap().steps.is_empty());
        let long = "a".to_owned() + &".b".repeat(17);
        for text in ["", "->a", "a->", "a.", "a-b", "a[3]", "*a", "a:", "a b", &long] {
            assert_eq!(ParameterPath::parse(text), Err(ParameterError::Text(text.to_owned())));
        }
    }
}
