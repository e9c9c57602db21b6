//! USDT probes: the notes that `DTRACE_PROBE` and its kin leave in a file.
//!
//! A note holds the address of the site, the address that `.stapsdt.base` had when the note was made, the address of the semaphore, and three texts:
//! provider, name, arguments. Tools that move sections (prelink) do not change notes, so that addresses are moved by the difference of the bases.
//! Guaranteed: bounded by the size of the section and by [`MAX_SITES`]. Sites outside of code are left out.

use elf::constants::SHT_NOTE;

use crate::image::Image;

/// Sites that are read of a file.
const MAX_SITES: usize = 1 << 16;
const NOTE_KIND: u32 = 3;
const OWNER: &[u8] = b"stapsdt\0";

/// One place in the code where a probe fires.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UsdtSite {
    /// The offset in the file.
    pub offset: u64,
    /// The link-time address.
    pub address: u64,
    /// The offset in the file of the counter that a user of the probe must raise, if there is one.
    pub semaphore: Option<u64>,
    /// Where the arguments are, as the assembler wrote it: `-4@%eax 8@-8(%rbp)`.
    pub arguments: String,
}

/// A probe and its sites.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UsdtProbe {
    /// The provider.
    pub provider: String,
    /// The name.
    pub name: String,
    /// All places in the code where it fires, in order of the file.
    pub sites: Vec<UsdtSite>,
}

/// All probes of a file, in order of their names.
pub(crate) fn probes(image: &Image) -> Vec<UsdtProbe> {
    let base = image.layout.section(b".stapsdt.base").map(|section| section.address);
    let sections = image.layout.sections.iter();
    let notes = sections.filter(|section| section.kind == SHT_NOTE && *section.name == *b".note.stapsdt");
    let mut sites: Vec<(String, String, UsdtSite)> = notes
        .flat_map(|section| Notes { rest: section.bytes(&image.bytes).unwrap_or_default() })
        .take(MAX_SITES)
        .filter_map(|note| site(image, base, note))
        .collect();
    sites.sort_by(|one, other| (&one.0, &one.1, one.2.offset).cmp(&(&other.0, &other.1, other.2.offset)));
    sites.dedup();
    let mut probes: Vec<UsdtProbe> = Vec::new();
    for (provider, name, site) in sites {
        match probes.last_mut().filter(|last| last.provider == provider && last.name == name) {
            Some(last) => last.sites.push(site),
            None => probes.push(UsdtProbe { provider, name, sites: vec![site] }),
        }
    }
    probes
}

fn site(image: &Image, base: Option<u64>, note: &[u8]) -> Option<(String, String, UsdtSite)> {
    let (numbers, texts) = note.split_at_checked(24)?;
    let mut numbers =
        numbers.chunks_exact(8).filter_map(|part| Some(u64::from_le_bytes(*part.first_chunk()?)));
    let (address, noted_base, semaphore) = (numbers.next()?, numbers.next()?, numbers.next()?);
    let moved = base.map_or(0, |base| base.wrapping_sub(noted_base));
    let address = address.wrapping_add(moved);
    let mut texts = texts.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
    let (provider, name) = (texts.next()?, texts.next()?);
    let site = UsdtSite {
        offset: image.code_offset(address)?,
        address,
        semaphore: match semaphore {
            0 => None,
            // Without its counter the probe would never fire.
            _ => Some(image.data_offset(semaphore.wrapping_add(moved))?),
        },
        arguments: texts.next().unwrap_or_default(),
    };
    (!provider.is_empty() && !name.is_empty()).then_some((provider, name, site))
}

/// The descriptors of the notes of a section that are USDT probes.
struct Notes<'f> {
    rest: &'f [u8],
}

impl<'f> Iterator for Notes<'f> {
    type Item = &'f [u8];

    fn next(&mut self) -> Option<&'f [u8]> {
        loop {
            let word = |at: usize| Some(u32::from_le_bytes(*self.rest.get(at..)?.first_chunk()?));
            let (owner_len, len, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
            let owner_end = 12usize.checked_add(owner_len)?;
            let start = owner_end.checked_next_multiple_of(4)?;
            let end = start.checked_add(len)?;
            let (owner, note) = (self.rest.get(12..owner_end)?, self.rest.get(start..end)?);
            self.rest = self.rest.get(end.checked_next_multiple_of(4)?..).unwrap_or_default();
            if kind == NOTE_KIND && owner == OWNER {
                return Some(note);
            }
        }
    }
}
