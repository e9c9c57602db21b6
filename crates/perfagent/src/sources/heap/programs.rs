//! The programs at functions of allocators, as descriptors that another thread may attach.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use kernel::{HeapProgram, Kernel};

use crate::Error;
use crate::failure::load_error;

/// The programs by what they are for.
pub(super) type Programs = BTreeMap<HeapProgram, OwnedFd>;

/// All of them.
pub(super) fn of(kernel: &Kernel) -> Result<Programs, Error> {
    let one = |program| {
        let kept = kernel.with_heap_program(program, |program| program.try_clone_to_owned());
        let kept = kept
            .map_err(load_error)?
            .map_err(|source| Error::System { attempt: "keep a program for --heap".to_owned(), source })?;
        Ok((program, kept))
    };
    HeapProgram::ALL.into_iter().map(one).collect()
}
