//! The code objects that the programs have sent, until the stacks that go through them are resolved.
//!
//! The address of a code object is used again when it is freed. A stamp tells such code objects apart, and a program that a process executes
//! later has code objects of its own.

use std::collections::HashMap;
use std::sync::Arc;

use crate::processes::ExecInstance;

/// Bytes of code objects of one generation. Those that no stack has used for two generations are forgotten.
const GENERATION: usize = 32 << 20;

/// A code object as the programs sent it.
#[derive(Debug)]
pub(crate) struct SentCode {
    /// The qualified name of the function, or its name.
    pub(crate) name: String,
    /// The source file.
    pub(crate) file: String,
    /// The first line of the function.
    pub(crate) first_line: u32,
    /// The line table as the interpreter has it. It may be cut.
    pub(crate) line_table: Vec<u8>,
    /// The program that it belongs to. It is kept, so that no other one gets its address.
    _instance: Arc<ExecInstance>,
}

impl SentCode {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.file.len() + self.line_table.len()
    }
}

/// Program, address and stamp.
type Key = (usize, u64, u32);

/// The code objects of all processes.
#[derive(Default)]
pub(crate) struct CodeStore {
    young: HashMap<Key, Arc<SentCode>>,
    old: HashMap<Key, Arc<SentCode>>,
    young_bytes: usize,
}

impl CodeStore {
    /// Takes in a code object. One that is known already stays.
    pub(crate) fn add(&mut self, instance: &Arc<ExecInstance>, message: kernel::CodeMessage) {
        let key = (Arc::as_ptr(instance).addr(), message.address, message.stamp);
        if self.get_by(key).is_some() {
            return;
        }
        let kernel::CodeMessage { name, file, first_line, line_table, .. } = message;
        let code = SentCode { name, file, first_line, line_table, _instance: Arc::clone(instance) };
        self.insert(key, Arc::new(code));
    }

    /// The code object at an address.
    pub(crate) fn get(
        &mut self,
        instance: &Arc<ExecInstance>,
        address: u64,
        stamp: u32,
    ) -> Option<Arc<SentCode>> {
        self.get_by((Arc::as_ptr(instance).addr(), address, stamp))
    }

    fn get_by(&mut self, key: Key) -> Option<Arc<SentCode>> {
        if let Some(known) = self.young.get(&key) {
            return Some(Arc::clone(known));
        }
        let known = self.old.remove(&key)?;
        self.insert(key, Arc::clone(&known));
        Some(known)
    }

    fn insert(&mut self, key: Key, code: Arc<SentCode>) {
        if self.young_bytes >= GENERATION {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += code.bytes();
        self.young.insert(key, code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(address: u64, stamp: u32, name: &str, table: usize) -> kernel::CodeMessage {
        kernel::CodeMessage {
            pid: 1,
            exec_id: 2,
            address,
            stamp,
            first_line: 3,
            name: name.to_owned(),
            file: "app.py".to_owned(),
            line_table: vec![0; table],
            truncated: false,
        }
    }

    fn instance() -> Arc<ExecInstance> {
        Arc::new(ExecInstance::begun(1, 0, 1))
    }

    #[test]
    fn functions_at_one_address_are_told_apart() {
        let (mut store, one, other) = (CodeStore::default(), instance(), instance());
        store.add(&one, sent(0x1000, 1, "first", 0));
        store.add(&one, sent(0x1000, 2, "second", 0));
        store.add(&other, sent(0x1000, 1, "of another program", 0));
        store.add(&one, sent(0x1000, 1, "sent again", 0));
        let mut name = |instance, stamp| store.get(instance, 0x1000, stamp).map(|code| code.name.clone());
        assert_eq!(name(&one, 1).as_deref(), Some("first"));
        assert_eq!(name(&one, 2).as_deref(), Some("second"));
        assert_eq!(name(&other, 1).as_deref(), Some("of another program"));
        assert_eq!(name(&other, 2), None);
    }

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let (mut store, program) = (CodeStore::default(), instance());
        store.add(&program, sent(1, 0, "used", 0));
        store.add(&program, sent(2, 0, "not used", 0));
        let large = 1 << 20;
        for address in 0..200 {
            store.add(&program, sent(0x1000 + address, 0, "f", large));
            assert!(store.get(&program, 1, 0).is_some(), "{address}");
            let held: usize = store.young.values().chain(store.old.values()).map(|code| code.bytes()).sum();
            assert!(held <= 2 * (GENERATION + 2 * large), "{held}");
        }
        assert!(store.get(&program, 2, 0).is_none());
    }
}
