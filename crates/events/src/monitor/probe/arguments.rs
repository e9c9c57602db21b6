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

/// The word for the result of a function.
const RESULT: &str = "$retval";
/// The word for a word of the stack, with its number behind it.
const STACK: &str = "$stack";

/// Whether an argument of a probe of a return reads the result of the function.
pub(crate) fn reads_result(argument: &str) -> bool {
    argument.contains(RESULT)
}

/// An argument of a probe of a return, for a probe at the instruction that returns: the result is in its register, and the return address is
/// still on the stack.
pub(crate) fn at_return(argument: &str) -> String {
    let argument = argument.replace(RESULT, "%ax");
    let mut parts = argument.split(STACK);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for rest in parts {
        let digits = rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let (number, rest) = rest.split_at(digits);
        text.push_str(STACK);
        match number.parse::<u16>().ok().and_then(|number| number.checked_add(1)) {
            Some(number) => text.push_str(&number.to_string()),
            None => text.push_str(number),
        }
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_at_returns_mean_what_they_mean_behind_them() {
        for (argument, wanted) in [
            ("value=$retval:s64", "value=%ax:s64"),
            ("s=+0($retval):string", "s=+0(%ax):string"),
            ("a=$stack0:x64", "a=$stack1:x64"),
            ("a=+8($stack12)", "a=+8($stack13)"),
            ("a=$stack", "a=$stack"),
            ("a=%bx:u64", "a=%bx:u64"),
        ] {
            assert_eq!(at_return(argument), wanted);
            assert_eq!(reads_result(argument), argument.contains("retval"));
        }
    }

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
