//! Functions of programs in Go by name, from the table that their own runtime uses, which stripping leaves in place; and the calls in them.
//!
//! Layouts of Go 1.18 and later.

use std::collections::BTreeMap;
use std::ops::Range;

use elf::gopclntab::{self, Version};
use iced_x86::{Code, Decoder, DecoderOptions};

use crate::image::Image;
use crate::location::{Function, Location};
use crate::placement::Placement;

/// Functions that are looked at.
const MAX_FUNCTIONS: u64 = 4 << 20;
/// Longer functions are not searched for calls.
const MAX_FUNCTION: u64 = 1 << 20;
/// Calls that are given.
const MAX_CALLS: usize = 256;

/// Where the functions with these names are: the number of the name, and its place.
pub(crate) fn functions(image: &Image, names: &[&str]) -> Vec<(usize, Location)> {
    let (layout, bytes) = (&image.layout, &image.bytes[..]);
    let touched = || {};
    let table = gopclntab::find(layout, bytes, &touched).filter(|table| table.version >= Version::Go118);
    let Some(table) = table else { return Vec::new() };
    let modules = gopclntab::modules(layout, bytes, &table, &touched);
    let module = modules.into_iter().find(|module| module.points_to_names);
    let text = module.and_then(|module| module.text);
    let Some(text) = text.or(Some(table.text_start).filter(|text| *text != 0)) else { return Vec::new() };
    let numbers: BTreeMap<&[u8], usize> = names.iter().map(|name| name.as_bytes()).zip(0..).collect();
    let longest = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let all = (0..MAX_FUNCTIONS).map_while(|index| table.function(index));
    let found = all.filter_map(|function| {
        let number = *numbers.get(table.name(&function, longest + 1)?)?;
        let at = |position: u64| text.checked_add(position);
        location(image, names.get(number)?, at(function.start)?..at(function.end)?).map(|at| (number, at))
    });
    found.take(names.len()).collect()
}

fn location(image: &Image, name: &str, addresses: Range<u64>) -> Option<Location> {
    Some(Location {
        offset: image.code_offset(addresses.start)?,
        address: addresses.start,
        symbol: Some(name.to_owned()),
        function: Some(Function { next_symbol: addresses.end, addresses }),
    })
}

/// The instructions of a function that call another one at its entry. Only code of x86-64 is read.
pub(crate) fn calls(image: &Image, of: &Location, callee: &Location) -> Vec<Placement> {
    let Some(function) = of.function.as_ref().filter(|_| image.is_x86()) else { return Vec::new() };
    let Range { start, end } = function.addresses;
    if end.saturating_sub(start) > MAX_FUNCTION {
        return Vec::new();
    }
    let decoder = Decoder::with_ip(64, image.code(start..end), start, DecoderOptions::NONE);
    let calls = decoder.into_iter().filter(|instruction| {
        instruction.code() == Code::Call_rel32_64 && instruction.near_branch_target() == callee.address
    });
    let place = |address: u64| {
        // The kernel emulates calls.
        Some(Placement { offset: image.code_offset(address)?, address, is_emulated: true })
    };
    calls.filter_map(|instruction| place(instruction.ip())).take(MAX_CALLS).collect()
}
