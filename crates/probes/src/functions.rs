//! Many functions of a file by name, in one pass over its symbol tables.

use std::collections::BTreeMap;

use elf::constants::{SHT_DYNSYM, SHT_SYMTAB};

use crate::image::Image;
use crate::location::{Function, Location};
use crate::symbol_table::{Symbol, meant, symbols};

/// Where the functions with these names are, as far as the file defines them in code: the number of the name, and its place. A place with several names is
/// given once, with the first of them. Functions that only choose an implementation are left out.
pub(crate) fn functions(image: &Image, names: &[&str]) -> Vec<(usize, Location)> {
    let numbers: BTreeMap<&[u8], usize> = names.iter().map(|name| name.as_bytes()).zip(0..).collect();
    let mut places: BTreeMap<u64, (usize, Symbol<'_>)> = BTreeMap::new();
    for kind in [SHT_SYMTAB, SHT_DYNSYM] {
        let mut found: BTreeMap<usize, Vec<Symbol<'_>>> = BTreeMap::new();
        for symbol in symbols(image, kind).filter(|symbol| !symbol.is_indirect) {
            if let Some(number) = numbers.get(symbol.name) {
                found.entry(*number).or_default().push(symbol);
            }
        }
        for (number, all) in found {
            for symbol in meant(all.into_iter()) {
                places.entry(symbol.address).or_insert((number, symbol));
            }
        }
    }
    let mut next: BTreeMap<u64, u64> = places.keys().map(|address| (*address, u64::MAX)).collect();
    for symbol in [SHT_SYMTAB, SHT_DYNSYM].into_iter().flat_map(|kind| symbols(image, kind)) {
        if let Some((_, next)) = next.range_mut(..symbol.address).next_back() {
            *next = symbol.address.min(*next);
        }
    }
    let location = |(address, (number, symbol)): (u64, (usize, Symbol<'_>))| {
        let function = Function {
            addresses: address..address.saturating_add(symbol.size),
            next_symbol: next.get(&address).copied().unwrap_or(u64::MAX),
        };
        let symbol = Some(String::from_utf8_lossy(symbol.name).into_owned());
        Some((
            number,
            Location { offset: image.code_offset(address)?, address, symbol, function: Some(function) },
        ))
    };
    places.into_iter().filter_map(location).collect()
}
