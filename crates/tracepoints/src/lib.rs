//! Formats of kernel tracepoints: text in, fields out; and the values of fields in the bytes of a record.
//!
//! [`Format::parse`] reads a `format` file of tracefs. [`Field::value`] reads one field of a record as a borrowed
//! [`Value`]: no allocation and no look-up by name for each record.
//!
//! Text and records are not trusted: nothing panics, sizes of texts and numbers of fields are bounded, and each access is checked against
//! the record. A form of field that is not known costs that field ([`FieldKind::Bytes`]), not the event. This crate knows no
//! system: who reads the files, and how records arrive, belongs to the callers.
//!
//! ```
//! let text = "name: my_event\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
//!             \tfield:int answer;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"%d\", REC->answer\n";
//! let format = tracepoints::Format::parse(text)?;
//! let record = [7, 0, 0, 0, 0, 0, 0, 0, 0xd6, 0xff, 0xff, 0xff];
//! let answer = format.field("answer").and_then(|field| field.value(&record));
//! assert_eq!(answer, Some(tracepoints::Value::Signed(-42)));
//! # Ok::<(), tracepoints::FormatError>(())
//! ```
#![forbid(unsafe_code)]

mod field;
mod format;
mod value;

pub use field::{Field, FieldKind};
pub use format::{Format, FormatError, MAX_FIELDS, MAX_TEXT};
pub use value::{Element, Elements, Value};
