//! What user space tells the programs while they run: their global variables, `.bss`, which it alone writes, and the
//! map `control_words`.

use std::sync::Arc;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::Error;

/// Writes a variable at its place in the skeleton's `bss`.
pub(crate) fn set(bss: &MapHandle, at: usize, value: &[u8]) -> Result<(), Error> {
    let failed = |action| move |source| Error::Map { action, map: ".bss", source };
    let key = 0u32.to_ne_bytes();
    let mut bytes = bss.lookup(&key, MapFlags::ANY).map_err(failed("read"))?.unwrap_or_default();
    if let Some(variable) = bytes.get_mut(at..at + value.len()) {
        variable.copy_from_slice(value);
    }
    bss.update(&key, &bytes, MapFlags::ANY).map_err(failed("write"))
}

/// The words that each run of a program looks at; see [`crate::abi::control`].
#[derive(Clone)]
pub(crate) struct ControlWords(Arc<MapHandle>);

impl ControlWords {
    pub(crate) fn new(map: MapHandle) -> Self {
        Self(Arc::new(map))
    }

    pub(crate) fn set(&self, which: u32, value: u64) -> Result<(), Error> {
        let failed = |source| Error::Map { action: "write", map: "control_words", source };
        self.0.update(&which.to_ne_bytes(), &value.to_ne_bytes(), MapFlags::ANY).map_err(failed)
    }
}
