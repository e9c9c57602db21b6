//! Any text as format file and any bytes as record: no panic, and no field is read outside of the record.
#![no_main]

use tracepoints::{Format, Value};

libfuzzer_sys::fuzz_target!(|input: (&str, &[u8])| {
    let (text, record) = input;
    let Ok(format) = Format::parse(text) else { return };
    assert!(format.fields.len() <= tracepoints::MAX_FIELDS);
    for field in &format.fields {
        match field.value(record) {
            Some(Value::Text { text, raw }) => assert!(text.len() <= raw.len() && raw.len() <= record.len()),
            Some(Value::Bytes(bytes)) => assert!(bytes.len() <= record.len()),
            Some(Value::Array(elements)) => assert!(elements.iter().count() <= record.len()),
            _ => {}
        }
    }
});
