//! The described code of a file, in the order of addresses.

use std::ops::Range;

use crate::cfi::section::ExceptionTable;
use crate::frames;
use crate::functions::{Kind, covering, of_description};
use crate::image::Image;
use crate::stub_sections::stubs;

/// The descriptions.
#[derive(Debug)]
pub(super) struct Described {
    code: Vec<Code>,
}

/// What one description covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Code {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) kind: Kind,
    pub(super) exceptions: ExceptionTable,
}

impl Code {
    pub(super) fn range(&self) -> Range<u64> {
        self.start..self.end
    }
}

impl Described {
    pub(super) fn read(image: &Image<'_>) -> Self {
        let stubs = stubs(image);
        let mut code = Vec::new();
        frames::each_eh_frame(image, |fde, end, cie| {
            let is_stub = stubs.iter().any(|stubs| stubs.contains(&fde.start));
            let (start, kind) =
                if is_stub { (fde.start, Kind::Stubs) } else { of_description(image, fde, cie) };
            if start < end {
                code.push(Code { start, end, kind, exceptions: fde.exceptions });
            }
        });
        Self { code }
    }

    /// The description that covers an address.
    pub(super) fn covering(&self, address: u64) -> Option<&Code> {
        covering(&self.code, address, Code::range)
    }

    /// Whether a described function begins at an address.
    pub(super) fn begins_at(&self, address: u64) -> bool {
        self.covering(address).is_some_and(|code| code.start == address && code.kind == Kind::Function)
    }
}
