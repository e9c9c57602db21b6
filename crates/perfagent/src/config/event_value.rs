//! `value=FIELD` of an event: the field or argument whose values are summed up, and its unit.

use recording::Unit;

/// Endings of names of fields that are counted in bytes, and in ns.
const BYTES: [&str; 6] = ["bytes", "size", "len", "length", "bytes_req", "bytes_alloc"];
const NANOSECONDS: [&str; 6] = ["ns", "nsec", "nsecs", "runtime", "vruntime", "delay"];

/// A value of each occurrence of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventValue {
    /// The field or argument.
    pub(crate) field: String,
    /// What it is measured in.
    pub(crate) unit: Unit,
}

impl EventValue {
    /// Reads `FIELD` or `FIELD:UNIT`. Without a unit the name of the field tells it.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (field, unit) = match text.split_once(':') {
            None => (text, unit_by_name(text)),
            Some((field, "bytes")) => (field, Unit::Bytes),
            Some((field, "ns")) => (field, Unit::Nanoseconds),
            Some((field, "count")) => (field, Unit::Count),
            Some((_, unit)) => return Err(format!("value: the unit `{unit}` is none of bytes, ns, count")),
        };
        Ok(Self { field: field.to_owned(), unit })
    }
}

/// The unit of a field, as far as its name tells.
fn unit_by_name(field: &str) -> Unit {
    let ends_with =
        |word: &&str| field.strip_suffix(*word).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'));
    if BYTES.iter().any(ends_with) {
        Unit::Bytes
    } else if NANOSECONDS.iter().any(ends_with) {
        Unit::Nanoseconds
    } else {
        Unit::Count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_given_or_follows_from_the_name() {
        let unit = |text: &str| EventValue::parse(text).map(|value| (value.field, value.unit));
        let read = |field: &str, unit| Ok((field.to_owned(), unit));
        assert_eq!(unit("bytes"), read("bytes", Unit::Bytes));
        assert_eq!(unit("nr_bytes"), read("nr_bytes", Unit::Bytes));
        assert_eq!(unit("runtime"), read("runtime", Unit::Nanoseconds));
        assert_eq!(unit("wait_ns"), read("wait_ns", Unit::Nanoseconds));
        assert_eq!(unit("turns"), read("turns", Unit::Count), "`ns` is a part of another word");
        assert_eq!(unit("n:bytes"), read("n", Unit::Bytes));
        assert_eq!(unit("bytes:count"), read("bytes", Unit::Count));
        assert!(unit("n:miles").unwrap_err().contains("miles"));
    }
}
