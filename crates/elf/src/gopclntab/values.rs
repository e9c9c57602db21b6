//! Tables of a value for each instruction of a function: stack size, file, line, inlined call.

/// Steps that are looked at in one table.
const MAX_STEPS: usize = 1 << 17;

/// A step of such a table: the value of the instructions between two offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// First offset from the start of the function.
    pub from: u64,
    /// First offset after it.
    pub to: u64,
    /// The value.
    pub value: i32,
}

/// The table ends in the middle, or holds a number that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The steps of one table, in order. Nothing follows a step that is malformed.
#[derive(Clone, Copy, Debug)]
pub struct Values<'t> {
    /// Pairs of a difference of values and a difference of addresses, both of variable length.
    rest: &'t [u8],
    quantum: u64,
    done: bool,
    offset: u64,
    value: i32,
}

impl<'t> Values<'t> {
    pub(super) fn new(bytes: &'t [u8], quantum: u8) -> Self {
        Self { rest: bytes, quantum: quantum.into(), done: false, offset: 0, value: -1 }
    }

    /// `Some(None)` at the end, `None` if the table is malformed.
    #[inline]
    fn step(&mut self) -> Option<Option<Step>> {
        let delta = varint(&mut self.rest)?;
        if delta == 0 && self.offset != 0 {
            return Some(None);
        }
        self.value = self.value.checked_add((delta >> 1) as i32 ^ -((delta & 1) as i32))?;
        let from = self.offset;
        self.offset = from.checked_add(u64::from(varint(&mut self.rest)?).checked_mul(self.quantum)?)?;
        // A step always covers an instruction.
        (self.offset > from).then_some(Some(Step { from, to: self.offset, value: self.value }))
    }
}

impl Values<'_> {
    /// The value at an offset from the start of the function. `self` must be at its beginning.
    #[inline]
    pub(super) fn at(self, offset: u64) -> Option<i32> {
        let mut rest = self.rest;
        // In instructions: `offset` is in the middle of one at most.
        let target = offset / self.quantum;
        let (mut to, mut value) = (0, i64::from(self.value));
        for _ in 0..MAX_STEPS {
            let (delta, instructions) = pair(&mut rest)?;
            if delta == 0 && to != 0 || instructions == 0 {
                return None;
            }
            value += i64::from((delta >> 1) as i32 ^ -((delta & 1) as i32));
            to += u64::from(instructions);
            if target < to {
                return i32::try_from(value).ok();
            }
        }
        None
    }
}

impl Iterator for Values<'_> {
    type Item = Result<Step, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let step = self.step().ok_or(Malformed).transpose();
        self.done = !matches!(step, Some(Ok(_)));
        step
    }
}

/// The two numbers of a step. The end of a table has only the first one, 0: the second one then means nothing.
#[inline]
fn pair(bytes: &mut &[u8]) -> Option<(u32, u32)> {
    // Nearly all numbers are one byte.
    if let &[first, second, ref rest @ ..] = *bytes
        && (first | second) < 0x80
    {
        *bytes = rest;
        return Some((first.into(), second.into()));
    }
    Some((varint(bytes)?, varint(bytes)?))
}

#[inline]
fn varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0;
    for shift in [0, 7, 14, 21, 28] {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let low = u32::from(byte & 0x7f);
        if (low << shift) >> shift != low {
            return None;
        }
        value |= low << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(bytes: &[u8]) -> Vec<Result<Step, Malformed>> {
        Values::new(bytes, 4).collect()
    }

    #[test]
    fn values_are_sums_of_differences() {
        // +1 for 2 instructions, +8 for 1, -8 for 200, end.
        let table = [2, 2, 16, 1, 15, 0xc8, 1, 0, 99];
        let expected =
            [(0, 8, 0), (8, 12, 8), (12, 812, 0)].map(|(from, to, value)| Ok(Step { from, to, value }));
        assert_eq!(steps(&table), expected);
    }

    #[test]
    fn a_value_is_found_as_by_stepping() {
        let long = [2, 0x80, 1, 16, 1, 0x8f, 1, 3, 15, 0xc8, 1, 0, 99];
        let tables: [&[u8]; 8] = [
            &[2, 2, 16, 1, 15, 0xc8, 1, 0, 99],
            &long,
            &[0, 1, 0],
            &[2, 2],
            &[2],
            &[],
            &[2, 2, 16, 0],
            &[2, 0],
        ];
        for table in tables {
            for offset in 0..1200 {
                let values = Values::new(table, 4);
                let step = values.map_while(Result::ok).find(|step| offset < step.to);
                assert_eq!(values.at(offset), step.map(|step| step.value), "{table:?} {offset}");
            }
        }
    }

    #[test]
    fn malformed_tables_end() {
        let first = Ok(Step { from: 0, to: 8, value: 0 });
        assert_eq!(steps(&[]), [Err(Malformed)]);
        assert_eq!(steps(&[2]), [Err(Malformed)]);
        assert_eq!(steps(&[2, 2]), [first, Err(Malformed)]);
        assert_eq!(steps(&[2, 2, 16, 0, 16, 1]), [first, Err(Malformed)], "no instruction");
        assert_eq!(steps(&[2, 2, 0xff, 0xff, 0xff, 0xff, 0x7f, 1]), [first, Err(Malformed)], "too large");
        assert_eq!(steps(&[2, 2, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 1]), [first, Err(Malformed)], "too long");
        assert_eq!(steps(&[0, 1, 0])[0], Ok(Step { from: 0, to: 4, value: -1 }), "no change at the start");
    }
}
