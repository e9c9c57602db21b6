//! The text of a probe's arguments, in the kernel's language, before the kernel sees it.

/// Registers that no instruction changes which a placed probe is behind, and words that do not depend on registers.
const AS_AT_THE_ENTRY: [&str; 7] = ["di", "si", "dx", "cx", "r8", "r9", "sp"];

/// The arguments one by one.
pub(crate) fn split(text: &str) -> Result<Vec<String>, String> {
    // Such letters would end the definition, or begin another one.
    if let Some(letter) =
        text.chars().find(|letter| matches!(letter, ';' | '#') || letter.is_control() && *letter != '\t')
    {
        return Err(format!("its arguments contain {letter:?}"));
    }
    Ok(text.split_ascii_whitespace().map(str::to_owned).collect())
}

/// Whether arguments mean the same wherever a probe of a function is placed.
pub(crate) fn are_as_at_the_entry(arguments: &[String]) -> bool {
    let registers = arguments.iter().flat_map(|argument| {
        argument.split('%').skip(1).map(|rest| {
            let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
            rest.get(..end).unwrap_or_default()
        })
    });
    registers.into_iter().all(|register| AS_AT_THE_ENTRY.contains(&register))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_end_a_definition_are_refused() {
        assert_eq!(split(" a=%di:s64 \t s=+0(%si):string ").unwrap(), ["a=%di:s64", "s=+0(%si):string"]);
        assert!(split("").unwrap().is_empty());
        for text in ["a=%di\n-:x/y", "a=%di;b", "a=%di#b", "a=\0"] {
            assert!(split(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn arguments_of_calls_are_the_same_behind_the_entry() {
        let same = |text| are_as_at_the_entry(&split(text).unwrap());
        assert!(same("a=%di:s64 s=+0(%si):string b=+8(+0(%dx)):x64 c=$stack0 d=$comm e=+8(%sp)") && same(""));
        assert!(!same("a=%ax") && !same("a=%di b=+0(%bx)") && !same("a=%r10") && !same("a=%dil"));
    }
}
