//! Numbers and names as the format has them, in the byte order of the machine.

/// Bytes that grow at their end.
#[derive(Debug, Default)]
pub(crate) struct Bytes(Vec<u8>);

impl Bytes {
    pub(crate) fn u16(&mut self, number: u16) -> &mut Self {
        self.raw(&number.to_ne_bytes())
    }

    pub(crate) fn u32(&mut self, number: u32) -> &mut Self {
        self.raw(&number.to_ne_bytes())
    }

    pub(crate) fn u64(&mut self, number: u64) -> &mut Self {
        self.raw(&number.to_ne_bytes())
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A name, at least one zero after it, and zeros up to a multiple of `unit`. Nothing behind a zero in the name is written.
    pub(crate) fn name(&mut self, name: &[u8], unit: usize) -> &mut Self {
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let padded = (name.len() + 1).next_multiple_of(unit);
        self.raw(name);
        self.0.resize(self.0.len() + padded - name.len(), 0);
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Overwrites what begins at a position.
    pub(crate) fn set(&mut self, at: usize, bytes: &[u8]) {
        if let Some(there) = self.0.get_mut(at..at + bytes.len()) {
            there.copy_from_slice(bytes);
        }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.0
    }
}
