//! One field of a tracepoint: where it lies, and how its bytes are read.

use crate::value::{Element, Elements, Value};

/// A field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type as the kernel writes it, without its name: `char[16]`, `pid_t`, `__data_loc char[]`.
    pub type_text: String,
    /// Its first byte in the record.
    pub offset: usize,
    /// Its bytes; 0 if it goes on to the end of the record.
    pub size: usize,
    /// Whether its numbers have a sign.
    pub signed: bool,
    /// Whether all tracepoints have it.
    pub common: bool,
    /// How it is read.
    pub kind: FieldKind,
}

/// How a field is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldKind {
    /// A number of 1, 2, 4 or 8 bytes.
    Integer,
    /// Text up to the first NUL, in the record itself.
    Text,
    /// An array in the record itself; to the end of the record if its size is 0.
    Array(Element),
    /// Four bytes that tell where the text lies: low 16 bits the offset in the record, high 16 the length.
    LocatedText {
        /// The offset counts from the end of the field.
        relative: bool,
    },
    /// The same for an array.
    LocatedArray {
        /// The offset counts from the end of the field.
        relative: bool,
        /// Its elements.
        element: Element,
    },
    /// Anything else.
    Bytes,
}

impl FieldKind {
    /// The name of the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Text => "string",
            Self::Array(_) => "array",
            Self::LocatedText { .. } => "located string",
            Self::LocatedArray { .. } => "located array",
            Self::Bytes => "bytes",
        }
    }

    /// The kind of a field with this declaration: type and name as in `unsigned long args[6]`.
    pub(crate) fn of(declaration: &str, size: usize, signed: bool) -> Self {
        let located = [("__data_loc ", false), ("__rel_loc ", true)];
        for (mark, relative) in located {
            let Some(rest) = declaration.strip_prefix(mark) else { continue };
            // Sets of CPUs have no brackets: `__data_loc cpumask_t cpus`.
            let base = match rest.split_once('[') {
                Some((base, _)) => base.trim(),
                None => base_of(rest),
            };
            return match element_of(base, signed) {
                _ if size != 4 => Self::Bytes,
                Some(_) if is_char(base) => Self::LocatedText { relative },
                Some(element) => Self::LocatedArray { relative, element },
                None => Self::Bytes,
            };
        }
        let Some((before, brackets)) = declaration.split_once('[') else {
            return if matches!(size, 1 | 2 | 4 | 8) { Self::Integer } else { Self::Bytes };
        };
        let base = base_of(before);
        if is_char(base) {
            return Self::Text;
        }
        // The number in brackets may be a macro. Then the size of the elements comes from their type alone.
        let count: Option<usize> = brackets.trim_end_matches(']').trim().parse().ok();
        let by_count = count
            .filter(|&count| count > 0 && size > 0 && size.is_multiple_of(count))
            .map(|count| size / count);
        let known = element_of(base, signed).map(|element| element.size);
        match by_count.or(known) {
            Some(bytes @ (1 | 2 | 4 | 8)) if size.is_multiple_of(bytes) => {
                Self::Array(Element { size: bytes, signed })
            }
            _ => Self::Bytes,
        }
    }
}

/// The type in front of a name: `unsigned long args` is `unsigned long`, and the type alone is itself.
fn base_of(before: &str) -> &str {
    let before = before.trim();
    match before.rsplit_once([' ', '*']) {
        Some((base, _)) if element_of(before, false).is_none() => {
            // The star belongs to the type.
            before
                .get(..base.len() + usize::from(before.as_bytes().get(base.len()) == Some(&b'*')))
                .unwrap_or(base)
                .trim()
        }
        _ => before,
    }
}

fn is_char(base: &str) -> bool {
    matches!(base.trim_start_matches("const ").trim(), "char")
}

/// The elements of arrays of a type, by its name.
fn element_of(base: &str, signed: bool) -> Option<Element> {
    let base = base.trim_start_matches("const ").trim();
    let size = match base {
        _ if base.ends_with('*') => size_of::<usize>(),
        "char" | "signed char" | "unsigned char" | "u8" | "__u8" | "s8" | "__s8" | "uint8_t" | "int8_t"
        | "bool" => 1,
        "short" | "unsigned short" | "short int" | "u16" | "__u16" | "s16" | "__s16" | "uint16_t"
        | "int16_t" | "__le16" | "__be16" => 2,
        "int" | "unsigned int" | "unsigned" | "u32" | "__u32" | "s32" | "__s32" | "uint32_t" | "int32_t"
        | "__le32" | "__be32" | "gid_t" | "uid_t" | "pid_t" | "dev_t" => 4,
        "u64" | "__u64" | "s64" | "__s64" | "uint64_t" | "int64_t" | "long long" | "unsigned long long"
        | "__le64" | "__be64" | "dma_addr_t" | "phys_addr_t" | "sector_t" | "loff_t" => 8,
        "long" | "unsigned long" | "long int" | "size_t" | "cpumask_t" => size_of::<usize>(),
        _ => return None,
    };
    Some(Element { size, signed })
}

impl Field {
    /// Whether it is a single number.
    #[must_use]
    pub fn is_number(&self) -> bool {
        self.kind == FieldKind::Integer
    }

    /// The value in a record. None if the record is too short for it.
    #[must_use]
    pub fn value<'a>(&self, record: &'a [u8]) -> Option<Value<'a>> {
        match self.kind {
            FieldKind::Integer => Value::integer(self.own(record)?, self.signed),
            FieldKind::Text => Some(Value::text(self.own(record)?)),
            FieldKind::Array(element) => Some(Value::Array(Elements::new(self.own(record)?, element))),
            FieldKind::LocatedText { relative } => Some(Value::text(self.located(record, relative)?)),
            FieldKind::LocatedArray { relative, element } => {
                Some(Value::Array(Elements::new(self.located(record, relative)?, element)))
            }
            FieldKind::Bytes => Some(Value::Bytes(self.own(record)?)),
        }
    }

    /// The bytes of the field itself.
    fn own<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let rest = record.get(self.offset..)?;
        if self.size == 0 { Some(rest) } else { rest.get(..self.size) }
    }

    /// The bytes that the field tells of.
    fn located<'a>(&self, record: &'a [u8], relative: bool) -> Option<&'a [u8]> {
        let place = u32::from_ne_bytes(self.own(record)?.try_into().ok()?);
        let (offset, len) = ((place & 0xffff) as usize, (place >> 16) as usize);
        let from = if relative { self.offset.checked_add(self.size)?.checked_add(offset)? } else { offset };
        record.get(from..from.checked_add(len)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(declaration: &str, size: usize) -> FieldKind {
        FieldKind::of(declaration, size, false)
    }

    fn array(size: usize) -> FieldKind {
        FieldKind::Array(Element { size, signed: false })
    }

    #[test]
    fn kinds_follow_size_and_brackets() {
        assert_eq!(kind("pid_t prev_pid", 4), FieldKind::Integer);
        assert_eq!(kind("int dfd", 8), FieldKind::Integer, "the size decides, not the type");
        assert_eq!(kind("const char * name", 8), FieldKind::Integer);
        assert_eq!(kind("struct x y", 12), FieldKind::Bytes);
        assert_eq!(kind("char prev_comm[16]", 16), FieldKind::Text);
        assert_eq!(kind("char buf[]", 0), FieldKind::Text);
        assert_eq!(kind("char name[NAME_MAX_OF_IT]", 32), FieldKind::Text);
        assert_eq!(kind("unsigned long args[6]", 48), array(8));
        assert_eq!(kind("__u8 addr[6]", 6), array(1));
        assert_eq!(kind("u32 buf[]", 0), array(4));
        assert_eq!(kind("u32 x[N_OF_THEM]", 24), array(4), "a macro as length");
        assert_eq!(kind("strange_t x[3]", 24), array(8), "an unknown type with a number");
        assert_eq!(kind("strange_t x[N]", 24), FieldKind::Bytes);
        assert_eq!(kind("void *list[2]", 16), array(8));
        assert_eq!(kind("__data_loc char[] name", 4), FieldKind::LocatedText { relative: false });
        assert_eq!(kind("__rel_loc char[] name", 4), FieldKind::LocatedText { relative: true });
        let element = Element { size: 8, signed: false };
        assert_eq!(kind("__data_loc u64[] a", 4), FieldKind::LocatedArray { relative: false, element });
        assert_eq!(
            kind("__data_loc cpumask_t cpus", 4),
            FieldKind::LocatedArray { relative: false, element }
        );
        assert_eq!(kind("__rel_loc cpumask_t cpus", 4), FieldKind::LocatedArray { relative: true, element });
        assert_eq!(kind("__data_loc strange_t[] a", 4), FieldKind::Bytes);
        assert_eq!(kind("__data_loc strange_t a", 4), FieldKind::Bytes);
        assert_eq!(kind("__data_loc char[] name", 8), FieldKind::Bytes);
    }

    fn field(kind: FieldKind, offset: usize, size: usize) -> Field {
        let (name, type_text) = (String::new(), String::new());
        Field { name, type_text, offset, size, signed: true, common: false, kind }
    }

    #[test]
    fn located_fields_are_read_inside_of_the_record_only() {
        let mut record = vec![0u8; 8];
        record.extend_from_slice(&(16u32 | 4 << 16).to_ne_bytes());
        record.extend_from_slice(&[9, 9, 9, 9]);
        record.extend_from_slice(b"abc\0");
        let absolute = field(FieldKind::LocatedText { relative: false }, 8, 4);
        assert_eq!(absolute.value(&record), Some(Value::Text { text: b"abc", raw: b"abc\0" }));
        record[8] = 4;
        let relative = field(FieldKind::LocatedText { relative: true }, 8, 4);
        assert_eq!(relative.value(&record), Some(Value::Text { text: b"abc", raw: b"abc\0" }));
        record[8] = 5;
        assert_eq!(relative.value(&record), None, "one byte behind the end");
        let element = Element { size: 2, signed: true };
        record[8] = 16;
        let list = field(FieldKind::LocatedArray { relative: false, element }, 8, 4);
        let Some(Value::Array(elements)) = list.value(&record) else { panic!("no array") };
        assert_eq!(elements.len(), 2);
        assert_eq!(elements.get(1), Some(Value::Signed(i64::from(i16::from_ne_bytes(*b"c\0")))));
    }

    #[test]
    fn a_field_of_size_0_goes_to_the_end() {
        let tail = field(FieldKind::Array(Element { size: 4, signed: false }), 2, 0);
        let Some(Value::Array(elements)) = tail.value(&[0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 7]) else { panic!() };
        assert_eq!(elements.iter().collect::<Vec<_>>(), [Value::Unsigned(1), Value::Unsigned(2)]);
        assert_eq!(tail.value(&[0]), None);
    }
}
