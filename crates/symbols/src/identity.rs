//! What identifies an ELF file on disk, as bytes that can be compared.

use std::fs::File;

use crate::elf_file::ElfFile;
use crate::stamp::Stamp;

/// Its stamp and build-id. A fetched file was checked to have its build-id, lies where only this user can write, and gets a new time whenever it is
/// used: its build-id and its size stand for it. `None` if the file may change without another identity.
pub(crate) fn identity(file: Option<&File>, elf: &ElfFile, is_fetched: bool) -> Option<Vec<u8>> {
    let mut bytes = vec![1 + u8::from(is_fetched)];
    if is_fetched {
        bytes.extend_from_slice(&(elf.bytes().len() as u64).to_le_bytes());
    } else {
        bytes.extend_from_slice(&Stamp::of(file?).filter(Stamp::is_settled)?.to_bytes());
    }
    if let Some(build_id) = elf.build_id() {
        bytes.extend_from_slice(build_id.to_string().as_bytes());
    }
    Some(bytes)
}
