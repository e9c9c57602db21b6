//! Where a file has its stubs of calls into other files.

use std::ops::Range;

use crate::image::Image;

/// Sections of stubs, by the start of their names.
const STUBS: [&[u8]; 2] = [b".plt", b".iplt"];

/// Stubs of calls into other files.
pub(crate) fn stubs(image: &Image<'_>) -> Vec<Range<u64>> {
    let sections = image.layout.sections.iter();
    sections
        .filter(|section| STUBS.iter().any(|name| section.name.starts_with(name)))
        .map(|section| section.address..section.address.saturating_add(section.size))
        .collect()
}
