//! Names of variables of the kernel and its modules, from `/proc/kallsyms`. Few are ever asked for, so they are looked up in one more pass over the list, and
//! not kept.

use std::io::{BufRead, BufReader, Read};

/// Bytes of the list that are read.
const MAX_LIST: u64 = 512 << 20;
const MAX_LINE: u64 = 4096;
/// Variables of the kernel are not longer.
const MAX_VARIABLE: u64 = 1 << 20;

/// The variable around each of these addresses, with the distance from its begin: `tasklist_lock`, `root+0x8`. A list that cannot be read to its end has
/// names up to there.
pub(crate) fn variables(list: impl Read, addresses: &[u64]) -> Vec<Option<String>> {
    let mut order: Vec<usize> = (0..addresses.len()).collect();
    order.sort_by_key(|at| addresses[*at]);
    let mut found: Vec<Option<(u64, String)>> = vec![None; addresses.len()];
    let mut reader = BufReader::with_capacity(1 << 16, list.take(MAX_LIST));
    let mut line = Vec::new();
    while !order.is_empty() {
        line.clear();
        if reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).unwrap_or(0) == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        let mut words = text.split_ascii_whitespace();
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let is_variable = matches!(kind, "b" | "B" | "d" | "D" | "r" | "R");
        let Some(begin) = u64::from_str_radix(address, 16).ok().filter(|_| is_variable) else { continue };
        let first = order.partition_point(|at| addresses[*at] < begin);
        let near = order[first..].iter().take_while(|at| addresses[**at] - begin < MAX_VARIABLE);
        for at in near {
            // Of several names for one address, the first one is as good as the others.
            if found[*at].as_ref().is_none_or(|(known, _)| *known < begin) {
                found[*at] = Some((begin, name.to_owned()));
            }
        }
    }
    let shown = |(address, found): (&u64, Option<(u64, String)>)| {
        let (begin, name) = found?;
        Some(if *address == begin { name } else { format!("{name}+{:#x}", address - begin) })
    };
    addresses.iter().zip(found).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_variable_before_an_address_names_it() {
        let list = "\
0000000000001000 A fixed_percpu_data
ffffffff82000000 D first
ffffffff82000100 b second
ffffffff82000080 t code
malformed
ffffffffc0000000 d of_module\t[nf_tables]
";
        let addresses =
            [0xffff_ffff_8200_0108, 0xffff_ffff_8200_0000, 0xffff_8880_0000_0000, 0xffff_ffff_c000_0010];
        let names = variables(list.as_bytes(), &addresses);
        let names: Vec<_> = names.iter().map(|name| name.as_deref()).collect();
        assert_eq!(names, [Some("second+0x8"), Some("first"), None, Some("of_module+0x10")]);
        assert_eq!(variables(&b""[..], &addresses), [None, None, None, None]);
    }
}
