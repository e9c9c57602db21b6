//! The three address spaces of a mapped file, as types that do not mix.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub u64);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }
    };
}

address! {
    /// "Actual virtual memory address": an address in a running process.
    Avma
}
address! {
    /// "Stated virtual memory address": a link-time address, as in `p_vaddr` of an ELF program header.
    Svma
}
address! {
    /// A byte position in a file, as in `p_offset` of an ELF program header or the offset of a mapping.
    FileOffset
}
