//! Finds the `.eh_frame` of a file.

use std::ops::Range;

use gimli::BaseAddresses;

use crate::frames;
use crate::image::Image;

#[derive(Debug)]
pub(super) struct EhFrameSection {
    /// The range in the file.
    pub range: Range<usize>,
    pub address: u64,
    /// Link-time address of `.eh_frame_hdr`.
    pub header: Option<u64>,
    pub stop_at_terminator: bool,
}

impl EhFrameSection {
    /// Finds the section by section header, or by program header if there is no such section.
    pub(super) fn find(image: &Image<'_>) -> Option<Self> {
        let header =
            image.section(b".eh_frame_hdr").map(|section| section.address).or_else(|| image.eh_frame_hdr());
        let by_section = image.section(b".eh_frame").and_then(|section| {
            let range = image.file_range_of(section)?;
            (!range.is_empty()).then_some((range, section.address, false))
        });
        let (range, address, stop_at_terminator) = by_section.or_else(|| {
            let address = frames::address_by_program_header(image)?;
            Some((image.file_range_at(address)?, address, true))
        })?;
        Some(Self { range, address, header, stop_at_terminator })
    }

    pub(super) fn bases(&self, text: Option<u64>) -> BaseAddresses {
        let bases = BaseAddresses::default().set_eh_frame(self.address);
        text.map_or(bases.clone(), |text| bases.set_text(text))
    }
}
