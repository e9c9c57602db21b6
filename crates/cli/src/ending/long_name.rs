//! Fits long names of functions into a column.
//!
//! What a reader needs least goes first: parameters, then arguments of templates, then the middle of the name.

const ELLIPSIS: &str = "…";

/// The name in at most `width` characters.
pub fn fit(name: &str, width: usize) -> String {
    let mut shown = name.to_owned();
    for shorten in [without_parameters, without_arguments] {
        if length(&shown) <= width {
            break;
        }
        shown = shorten(&shown);
    }
    if length(&shown) <= width { shown } else { without_middle(&shown, width) }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// The contents of all pairs of parentheses are left out.
fn without_parameters(name: &str) -> String {
    without_contents(name, '(', ')', 0)
}

/// The contents of all pairs of angle brackets are left out. Of a pair at the begin, as `<T as Trait>::function` of Rust has it, only
/// those of the pairs inside.
fn without_arguments(name: &str) -> String {
    without_contents(name, '<', '>', usize::from(name.starts_with('<')))
}

/// Replaces what is inside of more than `depth` pairs of brackets by an ellipsis; after the first outermost pair, what is inside of
/// any. A name whose brackets are no pairs stays as it is.
fn without_contents(name: &str, open: char, close: char, mut depth: usize) -> String {
    let (mut shown, mut hidden) = (String::new(), String::new());
    let mut level = 0usize;
    let mut before = ' ';
    for c in name.chars() {
        let is_plain = is_of_operator(c, &shown) || (c == '>' && before == '-');
        before = c;
        if c == close && !is_plain {
            let Some(outer) = level.checked_sub(1) else { return name.to_owned() };
            level = outer;
            if level == depth {
                shown.push_str(if hidden.chars().count() > 1 { ELLIPSIS } else { &hidden });
                hidden.clear();
            }
        }
        if level <= depth {
            shown.push(c)
        } else {
            hidden.push(c)
        }
        if c == open && !is_plain {
            level += 1;
        }
        if level == 0 && c == close {
            depth = 0;
        }
    }
    if level == 0 { shown } else { name.to_owned() }
}

/// Whether a character belongs to the name of an operator of C++, as `operator<<` and `operator()`.
fn is_of_operator(c: char, before: &str) -> bool {
    match c {
        '(' => before.ends_with("operator"),
        ')' => before.ends_with("operator("),
        '<' | '>' => before.trim_end_matches(['<', '>', '-', '=']).ends_with("operator"),
        _ => false,
    }
}

/// The begin tells the module, the end tells the function: a third for the begin, the rest for the end.
fn without_middle(name: &str, width: usize) -> String {
    let all: Vec<char> = name.chars().collect();
    let kept = width.saturating_sub(1);
    let head = kept / 3;
    let tail = kept - head;
    let (head, tail) = (&all[..head], &all[all.len() - tail..]);
    head.iter().collect::<String>() + ELLIPSIS + &tail.iter().collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_go_first_then_arguments_then_the_middle() {
        let name = "std::vector<int, std::allocator<int> >::push_back(int const&, bool (*)(int))";
        assert_eq!(fit(name, 200), name);
        assert_eq!(fit(name, 60), "std::vector<int, std::allocator<int> >::push_back(…)");
        assert_eq!(fit(name, 40), "std::vector<…>::push_back(…)");
        assert_eq!(fit(name, 16), "std::…sh_back(…)");
    }

    #[test]
    fn names_of_rust_keep_type_and_trait() {
        let name = "<alloc::vec::Vec<T,A> as core::iter::traits::collect::Extend<&T>>::extend::{{closure}}";
        assert_eq!(
            fit(name, 84),
            "<alloc::vec::Vec<…> as core::iter::traits::collect::Extend<…>>::extend::{{closure}}"
        );
        assert_eq!(length(&fit(name, 30)), 30);
        assert!(fit(name, 30).ends_with("extend::{{closure}}"));
    }

    #[test]
    fn operators_and_arrows_are_no_brackets() {
        assert_eq!(fit("operator<<(std::ostream&, a::b)", 20), "operator<<(…)");
        assert_eq!(fit("S::operator->(int, int, int, int)", 20), "S::operator->(…)");
        assert_eq!(fit("S::operator()(int, int, int, int)", 20), "S::operator()(…)");
        assert_eq!(
            fit("f<(a > b), long_argument>(int, long)", 20),
            fit("f<(a > b), long_argument>(int, long)", 20)
        );
    }

    #[test]
    fn any_name_fits() {
        for name in ["", "é", "<<<<<<", ">>>>>>>", "((((", "a)b(c", &"ü<".repeat(50)] {
            for width in 1..12 {
                assert!(length(&fit(name, width)) <= width.max(length(name).min(width)), "{name} {width}");
            }
        }
    }
}
