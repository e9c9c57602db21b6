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
    let mut registers = arguments.iter().flat_map(|argument| registers(argument));
    registers.all(|register| AS_AT_THE_ENTRY.contains(&register))
}

/// The registers that an argument reads.
fn registers(argument: &str) -> impl Iterator<Item = &str> {
    argument.split('%').skip(1).map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default()
    })
}

/// The word for the result of a function.
const RESULT: &str = "$retval";
/// The word for a word of the stack, with its number behind it.
const STACK: &str = "$stack";

/// Whether an argument of a probe of a return reads the result of the function.
pub(crate) fn reads_result(argument: &str) -> bool {
    argument.contains(RESULT)
}

/// Registers that differ between an instruction that returns and the place behind the call.
const OTHERS_AT_RETURN: [&str; 2] = ["sp", "ip"];

/// The part of an argument that has another value at the instruction that returns than behind the call: the stack pointer, also as
/// the address `$stack`, or the instruction pointer.
pub(crate) fn wrong_at_return(argument: &str) -> Option<String> {
    let register = registers(argument).find(|register| OTHERS_AT_RETURN.contains(register));
    let is_number = |rest: &str| rest.starts_with(|letter: char| letter.is_ascii_digit());
    let stack = || argument.split(STACK).skip(1).any(|rest| !is_number(rest)).then(|| STACK.to_owned());
    register.map(|register| format!("%{register}")).or_else(stack)
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
            ("a=%bx:u64", "a=%bx:u64"),
        ] {
            assert_eq!(at_return(argument), wanted);
            assert_eq!(wrong_at_return(argument), None);
            assert_eq!(reads_result(argument), argument.contains("retval"));
        }
    }

    #[test]
    fn the_stack_pointer_at_a_return_is_refused() {
        for (argument, wrong) in [
            ("a=%sp", "%sp"),
            ("a=+8(%sp):u64", "%sp"),
            ("a=%ip:x64", "%ip"),
            ("a=$stack", "$stack"),
            ("a=+16($stack):string", "$stack"),
        ] {
            assert_eq!(wrong_at_return(argument).as_deref(), Some(wrong));
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
