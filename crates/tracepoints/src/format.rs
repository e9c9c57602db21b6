//! `format` files: their text as fields.

use crate::field::{Field, FieldKind};

/// Longer texts are refused. The longest of Linux 6.18 has 30 KiB.
pub const MAX_TEXT: usize = 1 << 20;
/// Texts with more fields are refused.
pub const MAX_FIELDS: usize = 1024;
/// No record is longer.
const MAX_RECORD: usize = 1 << 16;

/// A text is no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// It has no line `name:`, or no line `ID:` with a number.
    #[error("the format has no {0}")]
    Missing(&'static str),
    /// A line of a field does not have the known form.
    #[error("line {line} of the format describes no field: {text:?}")]
    Field {
        /// Its number, from 1.
        line: usize,
        /// What it says.
        text: String,
    },
    /// It is too long, or has too many fields.
    #[error("the format is too large: more than {0}")]
    TooLarge(&'static str),
}

/// The format of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Its name without its group.
    pub name: String,
    /// `config` of its event, and the first field of its records.
    pub id: u64,
    /// Its fields in the kernel's order; those of all tracepoints first.
    pub fields: Vec<Field>,
    /// How the kernel would print it, as it writes that itself.
    pub print_fmt: String,
}

impl Format {
    /// Reads the text of a `format` file.
    ///
    /// # Errors
    /// [`FormatError`] if it lacks name or number, or if a line of a field cannot be read.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        if text.len() > MAX_TEXT {
            return Err(FormatError::TooLarge("1 MiB"));
        }
        let (mut name, mut id, mut fields, mut print_fmt) = (None, None, Vec::new(), String::new());
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(rest) = line.strip_prefix("name:") {
                name.get_or_insert_with(|| rest.trim().to_owned());
            } else if let Some(rest) = line.strip_prefix("ID:") {
                id = id.or(rest.trim().parse().ok());
            } else if let Some(rest) = line.strip_prefix("print fmt:") {
                print_fmt = rest.trim().to_owned();
                break;
            } else if let Some(rest) = line.trim_start().strip_prefix("field:") {
                if fields.len() == MAX_FIELDS {
                    return Err(FormatError::TooLarge("1024 fields"));
                }
                let text = || line.trim().chars().take(100).collect();
                fields.push(field(rest).ok_or_else(|| FormatError::Field { line: number, text: text() })?);
            }
        }
        let name = name.filter(|name| !name.is_empty()).ok_or(FormatError::Missing("name"))?;
        let id = id.ok_or(FormatError::Missing("ID"))?;
        Ok(Self { name, id, fields, print_fmt })
    }

    /// The field with this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The fields that only this tracepoint has.
    pub fn own_fields(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| !field.common)
    }
}

/// A line behind `field:`, as `unsigned short common_type; offset:0; size:2; signed:0;`.
fn field(text: &str) -> Option<Field> {
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next().filter(|declaration| !declaration.is_empty())?;
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", number)) => offset = number.trim().parse::<usize>().ok(),
            Some(("size", number)) => size = number.trim().parse::<usize>().ok(),
            Some(("signed", number)) => signed = number.trim() == "1",
            _ => {}
        }
    }
    let within = |number: &usize| *number <= MAX_RECORD;
    let (offset, size) = (offset.filter(within)?, size.filter(within)?);
    let (name, type_text) = names(declaration)?;
    let common = name.starts_with("common_");
    let kind = FieldKind::of(declaration, size, signed);
    Some(Field { name, type_text, offset, size, signed, common, kind })
}

/// The name in a declaration, and its type without it.
fn names(declaration: &str) -> Option<(String, String)> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    // The brackets of `char comm[16]` stand behind the name, those of `__data_loc char[] name` before it.
    let head = match declaration.strip_suffix(']') {
        Some(_) => declaration.split('[').next().unwrap_or(declaration),
        None => declaration,
    };
    let head = head.trim_end();
    let start = head.bytes().rposition(|byte| !is_part(byte)).map_or(0, |at| at + 1);
    let name = head.get(start..).filter(|name| !name.is_empty())?;
    let before = head.get(..start)?.trim_end();
    let behind = declaration.get(head.len()..)?.trim();
    Some((name.to_owned(), format!("{before}{behind}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SWITCH: &str = "name: sched_switch
ID: 372
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:__data_loc char[] note;\toffset:28;\tsize:4;\tsigned:0;
\tfield:const char * where;\toffset:32;\tsize:8;\tsigned:0;

print fmt: \"field:%s\", REC->prev_comm
\tfield:int not_a_field;\toffset:0;\tsize:4;\tsigned:0;
";

    #[test]
    fn a_format_is_read_up_to_its_print_fmt() {
        let format = Format::parse(SWITCH).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("sched_switch", 372));
        let names: Vec<_> = format.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["common_type", "common_pid", "prev_comm", "prev_pid", "note", "where"]);
        assert_eq!(format.own_fields().count(), 4);
        let types: Vec<_> = format.own_fields().map(|field| field.type_text.as_str()).collect();
        assert_eq!(types, ["char[16]", "pid_t", "__data_loc char[]", "const char *"]);
        let pid = format.field("prev_pid").unwrap();
        assert_eq!((pid.offset, pid.size, pid.signed, pid.common), (24, 4, true, false));
        assert_eq!(format.print_fmt, "\"field:%s\", REC->prev_comm");
    }

    #[test]
    fn what_is_no_format_is_refused() {
        assert_eq!(Format::parse(""), Err(FormatError::Missing("name")));
        assert_eq!(Format::parse("name: x\nID: y\n"), Err(FormatError::Missing("ID")));
        for line in [
            "field:",
            "field:int x;",
            "field:int x; offset:1;",
            "field:int x; offset:99999999; size:4;",
            "field:*; offset:0; size:4;",
        ] {
            let text = format!("name: x\nID: 1\n{line}\n");
            assert!(matches!(Format::parse(&text), Err(FormatError::Field { line: 3, .. })), "{line}");
        }
        let many = "field:int x; offset:0; size:4;\n".repeat(MAX_FIELDS + 1);
        assert_eq!(
            Format::parse(&format!("name: x\nID: 1\n{many}")),
            Err(FormatError::TooLarge("1024 fields"))
        );
        assert_eq!(Format::parse(&" ".repeat(MAX_TEXT + 1)), Err(FormatError::TooLarge("1 MiB")));
    }

    fn declaration() -> impl Strategy<Value = String> {
        let words = prop::sample::select(vec![
            "int",
            "char",
            "[",
            "]",
            "[]",
            "[4]",
            "*",
            " ",
            "__data_loc ",
            "__rel_loc ",
            "u64",
            "x",
            "unsigned ",
            "é",
            ";",
            ":",
        ]);
        prop::collection::vec(words, 0..8).prop_map(|words| words.concat())
    }

    proptest! {
        #[test]
        fn any_text_is_handled(text in "\\PC{0,200}") {
            let _ = Format::parse(&text);
        }

        #[test]
        fn any_field_reads_only_its_record(
            declaration in declaration(),
            offset in 0usize..70_000,
            size in 0usize..70_000,
            signed in 0..2,
            record in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            for (offset, size) in [(offset, size), (offset % 64, size % 10)] {
                let text = format!("name: x\nID: 1\nfield:{declaration};offset:{offset};size:{size};signed:{signed};\n");
                if let Ok(format) = Format::parse(&text) {
                    for field in &format.fields {
                        if let Some(crate::Value::Array(elements)) = field.value(&record) {
                            prop_assert!(elements.iter().count() <= record.len());
                        }
                    }
                }
            }
        }
    }
}
