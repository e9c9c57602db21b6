//! The messages of `profile.proto` (package `perftools.profiles`), field for field.
//!
//! All text is an index into [`Profile::string_table`], whose first entry is the empty string.

use prost::Message;

/// A set of samples with the tables that they refer to.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Profile {
    /// What each value of a sample means.
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    /// The samples.
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    /// Address ranges; the main executable first.
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    /// Places in code.
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    /// Functions.
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// All text of the message.
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    /// Wall clock at the start, ns since the epoch.
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    /// Length of the capture in ns.
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    /// What `period` counts.
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    /// Events between two samples.
    #[prost(int64, tag = "12")]
    pub period: i64,
    /// Free text.
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
    /// `type` of the preferred sample type.
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

/// A quantity and its unit.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ValueType {
    /// The quantity.
    #[prost(int64, tag = "1")]
    pub kind: i64,
    /// Its unit.
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// A stack with its values.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Sample {
    /// Leaf first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    /// One per sample type.
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    /// The labels, which distinguish samples with the same stack.
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

/// A key with either text or a number.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Label {
    /// The key.
    #[prost(int64, tag = "1")]
    pub key: i64,
    /// Text, or 0.
    #[prost(int64, tag = "2")]
    pub str: i64,
    /// The number.
    #[prost(int64, tag = "3")]
    pub num: i64,
    /// Unit of the number.
    #[prost(int64, tag = "4")]
    pub num_unit: i64,
}

/// An executable segment of a file.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Mapping {
    /// Nonzero.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// First address.
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    /// First address after it.
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    /// Position of the first address in the file.
    #[prost(uint64, tag = "4")]
    pub file_offset: u64,
    /// Path or special name.
    #[prost(int64, tag = "5")]
    pub filename: i64,
    /// Hex build-id.
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    /// All locations have functions.
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    /// All locations have file names.
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    /// All locations have line numbers.
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    /// Inlined functions are expanded at all locations.
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

/// A place in code.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Location {
    /// Nonzero.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Id of the mapping, or 0.
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    /// Link-time address.
    #[prost(uint64, tag = "3")]
    pub address: u64,
    /// Innermost first.
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

/// One of the functions at a location.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Line {
    /// Id of the function.
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    /// Source line, or 0.
    #[prost(int64, tag = "2")]
    pub line: i64,
    /// Source column, or 0.
    #[prost(int64, tag = "3")]
    pub column: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Function {
    /// Nonzero.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// For people.
    #[prost(int64, tag = "2")]
    pub name: i64,
    /// As in the symbol table.
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    /// Source file.
    #[prost(int64, tag = "4")]
    pub filename: i64,
    /// Line of the declaration.
    #[prost(int64, tag = "5")]
    pub start_line: i64,
}
