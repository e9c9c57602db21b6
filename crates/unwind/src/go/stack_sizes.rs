//! The functions of a Go program as unwinding needs them: addresses, name, and the sizes of the stack.

use elf::gopclntab::{PcLnTab, Values};

/// Accepted deltas: the largest leaves room for the return address; below zero, sp is above its value at entry.
const DELTAS: std::ops::Range<i32> = -4096..i32::MAX - 16;
/// No name that is looked for is longer.
const MAX_NAME: usize = 256;

/// One function.
#[derive(Clone, Copy, Debug)]
pub(super) struct GoFunction<'t> {
    pub start: u64,
    /// Where the next function starts.
    pub end: u64,
    /// Empty if it is too long to be one of the names that are looked for.
    pub name: &'t [u8],
    pub writes_sp: bool,
    pub stack_sizes: StackSizes<'t>,
}

/// All functions with a table of stack sizes. `text` is where the program's text starts.
pub(super) fn functions<'t>(table: &PcLnTab<'t>, text: u64) -> impl Iterator<Item = GoFunction<'t>> {
    (0..table.function_count).filter_map(move |index| {
        let function = table.function(index)?;
        let name = table.name(&function, MAX_NAME).unwrap_or_default();
        Some(GoFunction {
            start: text.checked_add(function.start)?,
            end: text.checked_add(function.end)?,
            name: name.strip_suffix(b".abi0").unwrap_or(name),
            writes_sp: function.writes_sp,
            stack_sizes: StackSizes(table.stack_sizes(&function)?),
        })
    })
}

/// Iterates over `(from, to, delta)`: offsets inside of the function, and how far sp is below its value at entry.
///
/// The item is `None` if the table is malformed or a delta makes no sense. Every step covers code.
#[derive(Clone, Copy, Debug)]
pub(super) struct StackSizes<'t>(Values<'t>);

impl Iterator for StackSizes<'_> {
    type Item = Option<(u64, u64, i32)>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.0.next()?.ok();
        Some(step.filter(|step| DELTAS.contains(&step.value)).map(|step| (step.from, step.to, step.value)))
    }
}
