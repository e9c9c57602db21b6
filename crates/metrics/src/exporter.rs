//! Receivers of snapshots.

use std::error::Error;
use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use crate::{MetricsSnapshot, json_report, text_report};

/// An error of an exporter.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A receiver of snapshots: one at the end of a capture and, if an interval is set, one at each interval.
pub trait MetricsExporter {
    /// The name in messages about it.
    fn name(&self) -> &str;

    /// Receives a snapshot.
    ///
    /// # Errors
    /// Any failure. The capture and other exporters go on.
    fn export(&self, snapshot: &MetricsSnapshot) -> Result<(), BoxError>;
}

/// Writes the text report of each snapshot.
pub struct ConsoleExporter<W>(Mutex<W>);

/// Writes the JSON report of each snapshot.
pub struct JsonExporter<W>(Mutex<W>);

impl<W: Write> ConsoleExporter<W> {
    /// Writes to `writer`.
    pub fn new(writer: W) -> Self {
        Self(Mutex::new(writer))
    }
}

impl<W: Write> JsonExporter<W> {
    /// Writes to `writer`.
    pub fn new(writer: W) -> Self {
        Self(Mutex::new(writer))
    }
}

impl<W: Write> MetricsExporter for ConsoleExporter<W> {
    fn name(&self) -> &str {
        "console"
    }

    fn export(&self, snapshot: &MetricsSnapshot) -> Result<(), BoxError> {
        write(&self.0, &text_report(snapshot))
    }
}

impl<W: Write> MetricsExporter for JsonExporter<W> {
    fn name(&self) -> &str {
        "json"
    }

    fn export(&self, snapshot: &MetricsSnapshot) -> Result<(), BoxError> {
        write(&self.0, &json_report(snapshot))
    }
}

fn write(writer: &Mutex<impl Write>, report: &str) -> Result<(), BoxError> {
    let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
    writer.write_all(report.as_bytes())?;
    Ok(writer.flush()?)
}

impl<W> fmt::Debug for ConsoleExporter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleExporter").finish_non_exhaustive()
    }
}

impl<W> fmt::Debug for JsonExporter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonExporter").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scope;
    use crate::snapshot::fixture;

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn exporters_write_their_reports_and_return_errors() {
        let snapshot = fixture::snapshot(Scope::Pids(vec![1]), vec![fixture::process(1)]);
        let mut bytes = Vec::new();
        let console = ConsoleExporter::new(&mut bytes);
        let exporter: &dyn MetricsExporter = &console;
        exporter.export(&snapshot).unwrap();
        assert_eq!(exporter.name(), "console");
        assert_eq!(String::from_utf8(bytes).unwrap(), text_report(&snapshot));
        let mut bytes = Vec::new();
        JsonExporter::new(&mut bytes).export(&snapshot).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), json_report(&snapshot));
        assert!(ConsoleExporter::new(Full).export(&snapshot).is_err());
        assert!(JsonExporter::new(Full).export(&snapshot).is_err());
    }
}
