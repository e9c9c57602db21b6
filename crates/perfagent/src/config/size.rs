//! The syntax of sizes: plain bytes, or with a suffix `K`, `M`, `G` (powers of 1024).

/// Reads a size in bytes; none if the text is not a size or does not fit into 64 bits.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The shortest spelling of a size.
pub(crate) fn format_size(bytes: u64) -> String {
    for (suffix, shift) in [("G", 30), ("M", 20), ("K", 10)] {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_formatted() {
        for (text, bytes) in [("4M", 4 << 20), ("1G", 1 << 30), ("64K", 65536), ("100", 100), ("0", 0)] {
            assert_eq!(parse_size(text), Some(bytes));
            assert_eq!(format_size(bytes), text);
        }
    }

    #[test]
    fn refuses_other_texts() {
        for text in ["", "M", "4m", "4MB", "-1", "+1", "1.5M", "4 M", "é", "18446744073709551615K", "0x10"] {
            assert_eq!(parse_size(text), None, "{text:?}");
        }
    }
}
