//! Numbers of variable length, read and written.

/// An unsigned number in base 128; too large ones lose their upper bits. `None` at the end of the data.
#[inline]
pub(crate) fn uleb(data: &[u8], at: &mut usize) -> Option<u64> {
    let byte = *data.get(*at)?;
    *at += 1;
    if byte < 0x80 {
        return Some(byte.into());
    }
    let mut value = u64::from(byte & 0x7f);
    let mut shift = 7;
    loop {
        let byte = *data.get(*at)?;
        *at += 1;
        if shift < 64 {
            value |= u64::from(byte & 0x7f) << shift;
        }
        if byte < 0x80 {
            return Some(value);
        }
        shift = 64.min(shift + 7);
    }
}

/// The signed form of [`uleb`], as the line program has it.
pub(crate) fn sleb(data: &[u8], at: &mut usize) -> Option<i64> {
    let from = *at;
    let value = uleb(data, at)?;
    let bits = 7 * (*at - from).min(10) as u32;
    let is_negative = data.get(*at - 1)? & 0x40 != 0;
    Some(if is_negative && bits < 64 {
        (value | (u64::MAX << bits)).cast_signed()
    } else {
        value.cast_signed()
    })
}

/// Gets over a string and the zero behind it.
pub(crate) fn skip_string(data: &[u8], at: &mut usize) -> Option<()> {
    let length = data.get(*at..)?.iter().position(|byte| *byte == 0)?;
    *at += length + 1;
    Some(())
}

/// Appends a number for [`uleb`].
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends numbers for [`uleb`], at once: most are small.
pub(crate) fn put_all<const N: usize>(out: &mut Vec<u8>, numbers: [u32; N]) {
    if numbers.iter().all(|number| *number < 0x80) {
        out.extend_from_slice(&numbers.map(|number| number as u8));
        return;
    }
    // A number of 32 bits has at most 5 bytes.
    let (mut bytes, mut length) = ([[0u8; 5]; N], 0);
    let bytes = bytes.as_flattened_mut();
    for mut number in numbers {
        while number >= 0x80 {
            bytes[length] = number as u8 | 0x80;
            number >>= 7;
            length += 1;
        }
        bytes[length] = number as u8;
        length += 1;
    }
    out.extend_from_slice(&bytes[..length]);
}

/// Appends the difference of two numbers, for [`add`].
pub(crate) fn put_difference(out: &mut Vec<u8>, from: u32, to: u32) {
    let difference = i64::from(to) - i64::from(from);
    put(out, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
}

/// The number at a difference, as [`put_difference`] wrote it.
pub(crate) fn add(from: u32, difference: u64) -> u32 {
    let difference = (difference >> 1) as i64 ^ -((difference & 1) as i64);
    i64::from(from).wrapping_add(difference) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_as_they_were_written() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put(&mut out, value);
            let mut at = 0;
            assert_eq!((uleb(&out, &mut at), at), (Some(value), out.len()));
            assert_eq!(uleb(&out[..out.len() - 1], &mut 0), None);
        }
        for (from, to) in [(0, 0), (5, 3), (3, 5), (0, u32::MAX), (u32::MAX, 0)] {
            let mut out = Vec::new();
            put_difference(&mut out, from, to);
            assert_eq!(add(from, uleb(&out, &mut 0).unwrap()), to);
        }
    }

    #[test]
    fn signed_numbers_and_numbers_that_are_too_long() {
        assert_eq!(
            [&[0x7f][..], &[0x80, 0x7f], &[2], &[0xff, 0]].map(|data| sleb(data, &mut 0)),
            [Some(-1), Some(-128), Some(2), Some(127)]
        );
        let long = [[0xff; 30].as_slice(), &[0x7f]].concat();
        assert_eq!((uleb(&long, &mut 0), sleb(&long, &mut 0)), (Some(u64::MAX), Some(-1)));
    }
}
