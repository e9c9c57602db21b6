//! Sinks: outputs that are not files.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A writer for the bytes of an output. They are the same as in a file.
pub trait Sink: Write + Send {}

impl<T: Write + Send> Sink for T {}

/// Keeps an output in memory. Clones share the bytes: give one clone to the builder and keep the other.
///
/// ```
/// use std::io::Write;
/// let sink = perfagent::MemorySink::new();
/// sink.clone().write_all(b"bytes")?;
/// assert_eq!(sink.take(), b"bytes");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemorySink(Arc<Mutex<Vec<u8>>>);

impl MemorySink {
    /// An empty sink.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the bytes written so far out of the sink.
    #[must_use]
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for MemorySink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
