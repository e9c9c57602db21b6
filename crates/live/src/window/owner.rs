//! Whose stack it is.

use profile::{Label, LabelValue};

/// Whose stack it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owner {
    pub(crate) labels: Vec<Label>,
    pub(crate) pid: Option<i64>,
    pub(crate) tid: Option<i64>,
    /// The process as a frame.
    pub(crate) process: u32,
    /// The thread, by its name and number.
    pub(crate) thread: String,
}

/// The process of these labels as a person reads it.
pub(super) fn process_name(labels: &[Label]) -> String {
    numbered(labels, "comm", "pid")
}

impl Owner {
    /// The owner with these labels, whose process is the frame `process`.
    pub(super) fn of(labels: &[Label], process: u32) -> Self {
        Self {
            labels: labels.to_vec(),
            pid: number(labels, "pid"),
            tid: number(labels, "tid"),
            process,
            thread: numbered(labels, "thread", "tid"),
        }
    }
}

/// The text or number of a label.
fn label<'a>(labels: &'a [Label], key: &str) -> Option<&'a LabelValue> {
    labels.iter().find(|label| label.key == key).map(|label| &label.value)
}

fn text(labels: &[Label], key: &str) -> String {
    match label(labels, key) {
        Some(LabelValue::Str(text)) => text.clone(),
        Some(LabelValue::Num(number)) => number.to_string(),
        None => String::new(),
    }
}

fn number(labels: &[Label], key: &str) -> Option<i64> {
    match label(labels, key)? {
        LabelValue::Num(number) => Some(*number),
        LabelValue::Str(text) => text.parse().ok(),
    }
}

/// `NAME (NUMBER)`.
fn numbered(labels: &[Label], name: &str, id: &str) -> String {
    match (text(labels, name), number(labels, id)) {
        (name, Some(id)) => format!("{name} ({id})"),
        (name, None) if name.is_empty() => "(other)".to_owned(),
        (name, None) => name,
    }
}
