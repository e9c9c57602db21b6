//! Arguments of USDT probes: from the assembler's operands to the kernel's language.
//!
//! An argument is `SIZE@OPERAND`, with a negative size for signed numbers: `-4@%eax`, `8@-8(%rbp)`, `4@$7`. `4@counter(%rip)` is memory of the
//! file. Operands with a scaled index have no counterpart.

/// The arguments of a site, each as `LOCATION:TYPE`; `None` where the kernel cannot read it. `place_of`: where a variable is, counted from where the file
/// would begin in memory if all of it lay as the site does.
pub(crate) fn fetched(text: &str, place_of: impl Fn(&str) -> Option<u64>) -> Vec<Option<String>> {
    text.split_ascii_whitespace().map(|argument| one(argument, &place_of)).collect()
}

fn one(argument: &str, place_of: impl Fn(&str) -> Option<u64>) -> Option<String> {
    let (size, operand) = argument.split_once('@')?;
    let kind = match size.strip_suffix('f').unwrap_or(size) {
        "1" => "u8",
        "-1" => "s8",
        "2" => "u16",
        "-2" => "s16",
        "4" => "u32",
        "-4" => "s32",
        "8" => "u64",
        "-8" => "s64",
        _ => return None,
    };
    // Floating-point numbers are in registers that the kernel does not save.
    if size.ends_with('f') {
        return None;
    }
    Some(format!("{}:{kind}", location(operand, place_of)?))
}

fn location(operand: &str, place_of: impl Fn(&str) -> Option<u64>) -> Option<String> {
    if let Some(number) = operand.strip_prefix('$') {
        return Some(format!("\\{}", signed(number)?));
    }
    if let Some(name) = operand.strip_prefix('%') {
        return register(name).map(|name| format!("%{name}"));
    }
    if let Some(variable) = operand.strip_suffix("(%rip)") {
        // A number follows a plus; names do not contain one.
        let (name, more) = variable.split_once('+').unwrap_or((variable, "0"));
        let place = place_of(name)?.checked_add_signed(signed(more)?)?;
        return Some(format!("@+{place:#x}"));
    }
    let (offset, base) = operand.strip_suffix(')')?.split_once('(')?;
    let base = register(base.strip_prefix('%')?)?;
    let offset = if offset.is_empty() { 0 } else { signed(offset)? };
    Some(format!("{offset:+}(%{base})"))
}

fn signed(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let number = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    if negative { number.checked_neg() } else { Some(number) }
}

/// The kernel's name of a register of x86-64 of any width. The second bytes of registers (`%ah`) have none.
fn register(name: &str) -> Option<String> {
    const LEGACY: [(&str, [&str; 4]); 8] = [
        ("ax", ["rax", "eax", "ax", "al"]),
        ("bx", ["rbx", "ebx", "bx", "bl"]),
        ("cx", ["rcx", "ecx", "cx", "cl"]),
        ("dx", ["rdx", "edx", "dx", "dl"]),
        ("si", ["rsi", "esi", "si", "sil"]),
        ("di", ["rdi", "edi", "di", "dil"]),
        ("bp", ["rbp", "ebp", "bp", "bpl"]),
        ("sp", ["rsp", "esp", "sp", "spl"]),
    ];
    if let Some((known, _)) = LEGACY.iter().find(|(_, names)| names.contains(&name)) {
        return Some((*known).to_owned());
    }
    let number: u8 = name.strip_prefix('r')?.trim_end_matches(['d', 'w', 'b']).parse().ok()?;
    (8..16).contains(&number).then(|| format!("r{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_translated_or_refused() {
        let place_of = |name: &str| (name == "known").then_some(0x4010);
        for (operand, wanted) in [
            ("-4@%eax", Some("%ax:s32")),
            ("8@%r12", Some("%r12:u64")),
            ("1@%r9b", Some("%r9:u8")),
            ("2@%di", Some("%di:u16")),
            ("8@-8(%rbp)", Some("-8(%bp):u64")),
            ("-8@(%rdx)", Some("+0(%dx):s64")),
            ("4@0x10(%rsp)", Some("+16(%sp):u32")),
            ("4@$7", Some("\\7:u32")),
            ("-4@$-3", Some("\\-3:s32")),
            ("8@known(%rip)", Some("@+0x4010:u64")),
            ("-4@known+8(%rip)", Some("@+0x4018:s32")),
            ("8@unknown(%rip)", None),
            ("8@known+x(%rip)", None),
            ("8@8(%rip)", None),
            ("8@(%rax,%rbx,4)", None),
            ("8f@%xmm0", None),
            ("1@%ah", None),
            ("3@%al", None),
            ("8@%r16", None),
            ("8@", None),
            ("8", None),
            ("8@$99999999999999999999", None),
        ] {
            assert_eq!(one(operand, place_of).as_deref(), wanted, "{operand}");
        }
        assert_eq!(fetched("4@%eax 8@x(%rip)", |_| None), [Some("%ax:u32".to_owned()), None]);
    }
}
