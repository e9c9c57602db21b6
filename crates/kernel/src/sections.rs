//! The sections of a message of the programs: `struct section` of `bpf/abi/messages.h`. A message with a length that does not fit is
//! refused as a whole; sections of unknown kinds are skipped and counted.

use crate::abi::skeleton::types::{section_kind, section_limit, value_limit};
use crate::attached::{Attached, InterpretedFrame, InterpretedWalk, LinkedStack, SampledAt};
use crate::headers::REGISTERS;

const KERNEL_FRAMES: u32 = section_kind::SECTION_KERNEL_FRAMES.0;
const NATIVE_FRAMES: u32 = section_kind::SECTION_NATIVE_FRAMES.0;
const USER_REGISTERS: u32 = section_kind::SECTION_REGISTERS.0;
const STACK: u32 = section_kind::SECTION_STACK.0;
const WOKEN: u32 = section_kind::SECTION_WOKEN.0;
const INTERPRETED_FRAMES: u32 = section_kind::SECTION_INTERPRETED_FRAMES.0;
const OBJECT: u32 = section_kind::SECTION_OBJECT.0;
const VALUES: u32 = section_kind::SECTION_VALUES.0;
const LINKED_STACKS: u32 = section_kind::SECTION_LINKED_STACKS.0;
const TIME_BIN: u32 = section_kind::SECTION_TIME_BIN.0;
const SAMPLED_AT: u32 = section_kind::SECTION_SAMPLED_AT.0;
const CODE_OBJECT: u32 = section_kind::SECTION_CODE_OBJECT.0;
const LOCK: u32 = section_kind::SECTION_LOCK.0;
const INTERPRETED_WALK: u32 = section_kind::SECTION_INTERPRETED_WALK.0;

const MAX_INTERPRETED_FRAMES: usize = section_limit::MAX_INTERPRETED_FRAMES.0 as usize;
const MAX_LINKED_STACKS: usize = section_limit::MAX_LINKED_STACKS.0 as usize;
/// The largest number of values of an event.
pub const VALUE_SLOTS: usize = value_limit::VALUE_SLOTS.0 as usize;

/// User registers by DWARF number, and the pc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    pub(crate) at: [u64; REGISTERS],
    pub(crate) pc: u64,
}

/// Bytes of a user stack, and which pieces of it were not readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StackBytes<'a> {
    pub(crate) holes: u64,
    pub(crate) bytes: &'a [u8],
}

/// What the sections of a message hold. Of two sections of a kind the last one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sections<'a> {
    /// Kernel frames, leaf first.
    pub(crate) kernel: &'a [[u8; 8]],
    /// User frames, root first.
    pub(crate) native: &'a [[u8; 8]],
    pub(crate) registers: Option<Registers>,
    pub(crate) stack: Option<StackBytes<'a>>,
    /// Keys of the blocked stack and of the waker's.
    pub(crate) woken: Option<[u64; 2]>,
    /// What waits for a lock have in common.
    pub(crate) lock: Option<&'a [u8; 48]>,
    /// Frames of an interpreter, innermost first.
    interpreted: &'a [[u8; 16]],
    /// How the walk of these ended.
    interpreted_walk: Option<u64>,
    /// A code object of an interpreter.
    pub(crate) code_object: Option<&'a [u8]>,
    /// Further stacks.
    links: &'a [[u8; 16]],
    /// The address of an object.
    object: Option<u64>,
    time_bin: Option<u32>,
    /// Values by the schema of the event.
    pub(crate) values: Option<&'a [[u8; 8]]>,
    pub(crate) sampled_at: Option<SampledAt>,
    /// Sections of kinds that are not known here.
    pub(crate) skipped: u64,
}

impl<'a> Sections<'a> {
    /// Takes the sections apart. None: a length or a number of items does not fit.
    pub(crate) fn split(mut bytes: &'a [u8]) -> Option<Self> {
        let mut sections = Self::default();
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_first_chunk::<8>()?;
            let [a, b, c, d, length @ ..] = *head;
            let (kind, count) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]));
            let (content, rest) = rest.split_at_checked(u32::from_ne_bytes(length) as usize)?;
            sections.take(u32::from(kind), usize::from(count), content)?;
            bytes = rest;
        }
        Some(sections)
    }

    fn take(&mut self, kind: u32, count: usize, content: &'a [u8]) -> Option<()> {
        let (words, odd) = content.as_chunks::<8>();
        let word = |at: usize| words.get(at).map(|word| u64::from_ne_bytes(*word));
        match kind {
            KERNEL_FRAMES => self.kernel = words.get(..count)?,
            NATIVE_FRAMES => self.native = words.get(..count)?,
            USER_REGISTERS => {
                let mut at = [0; REGISTERS];
                for (number, register) in at.iter_mut().enumerate() {
                    *register = word(number)?;
                }
                self.registers = Some(Registers { at, pc: word(REGISTERS)? });
            }
            STACK => {
                let (holes, bytes) = content.split_first_chunk::<8>()?;
                self.stack = Some(StackBytes { holes: u64::from_ne_bytes(*holes), bytes });
            }
            WOKEN => self.woken = Some([word(0)?, word(1)?]),
            LOCK => self.lock = Some(content.first_chunk()?),
            INTERPRETED_FRAMES => self.interpreted = pairs(content, count, MAX_INTERPRETED_FRAMES)?,
            INTERPRETED_WALK => self.interpreted_walk = Some(word(0)?),
            CODE_OBJECT => self.code_object = Some(content),
            LINKED_STACKS => self.links = pairs(content, count, MAX_LINKED_STACKS)?,
            OBJECT => self.object = Some(word(0)?),
            TIME_BIN => self.time_bin = Some(u32::try_from(word(0)?).ok()?),
            VALUES => self.values = Some(words.get(..count).filter(|_| count <= VALUE_SLOTS)?),
            SAMPLED_AT => self.sampled_at = Some(SampledAt::from_raw(words.first()?)),
            _ => self.skipped += 1,
        }
        (kind == STACK || odd.is_empty()).then_some(())
    }

    /// What the sections tell of a stack besides its frames. None: one of them has an unknown number.
    pub(crate) fn attached(&self) -> Option<Attached> {
        Some(Attached {
            interpreted: self.interpreted.iter().map(InterpretedFrame::from_raw).collect(),
            interpreted_walk: match self.interpreted_walk {
                Some(word) => Some(InterpretedWalk::from_raw(word)?),
                None => None,
            },
            links: self.links.iter().map(LinkedStack::from_raw).collect::<Option<_>>()?,
            object: self.object,
            time_bin: self.time_bin,
        })
    }
}

/// The first `count` items of two words, of which there are at most `most`.
fn pairs(content: &[u8], count: usize, most: usize) -> Option<&[[u8; 16]]> {
    content.as_chunks::<16>().0.get(..count).filter(|_| count <= most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attached::Role;

    fn section(kind: u32, count: u16, content: &[u8]) -> Vec<u8> {
        let mut bytes = (kind as u16).to_ne_bytes().to_vec();
        bytes.extend(count.to_ne_bytes());
        bytes.extend((content.len() as u32).to_ne_bytes());
        bytes.extend(content);
        bytes
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn all() -> Vec<u8> {
        let registers: Vec<u64> = (0..=REGISTERS as u64).collect();
        let mut stack = words(&[5]);
        stack.extend(b"eleven byte");
        [
            section(KERNEL_FRAMES, 2, &words(&[10, 11, 0, 0])),
            section(NATIVE_FRAMES, 1, &words(&[20])),
            section(USER_REGISTERS, 0, &words(&registers)),
            section(999, 3, &words(&[1])),
            section(WOKEN, 0, &words(&[7, 8])),
            section(LOCK, 0, &words(&[1, 2, 3, 4, 5, 6])),
            section(INTERPRETED_FRAMES, 2, &words(&[0xc0de, 3 | 5 << 33, 0xc0df, 9 | 1 << 32])),
            section(OBJECT, 0, &words(&[0x7f00_1234])),
            section(VALUES, 2, &words(&[40, 41, 42])),
            section(LINKED_STACKS, 2, &words(&[77, 2, 78, 1])),
            section(TIME_BIN, 0, &words(&[12])),
            section(SAMPLED_AT, 0, &words(&[3 | 6 << 32])),
            section(STACK, 0, &stack),
        ]
        .concat()
    }

    #[test]
    fn every_section_is_found_and_unknown_ones_are_counted() {
        let bytes = all();
        let sections = Sections::split(&bytes).unwrap();
        assert_eq!(sections.kernel, [10u64.to_ne_bytes(), 11u64.to_ne_bytes()]);
        assert_eq!(sections.native, [20u64.to_ne_bytes()]);
        let registers = sections.registers.unwrap();
        assert_eq!((registers.at[3], registers.pc), (3, REGISTERS as u64));
        assert_eq!(sections.stack, Some(StackBytes { holes: 5, bytes: b"eleven byte" }));
        assert_eq!((sections.woken, sections.skipped), (Some([7, 8]), 1));
        assert_eq!(sections.sampled_at, Some(SampledAt { cpu: 3, side_changes: 6 }));
        assert_eq!(sections.values.unwrap(), [40u64.to_ne_bytes(), 41u64.to_ne_bytes()]);
        let attached = sections.attached().unwrap();
        let frame =
            |code, instruction, outermost, stamp| InterpretedFrame { code, instruction, outermost, stamp };
        assert_eq!(attached.interpreted, [frame(0xc0de, 3, false, 5), frame(0xc0df, 9, true, 0)]);
        assert_eq!((attached.object, attached.time_bin), (Some(0x7f00_1234), Some(12)));
        let linked = |role, key| LinkedStack { role, key };
        assert_eq!(attached.links, [linked(Role::Owner, 77), linked(Role::Waker, 78)]);
        assert_eq!(Sections::split(&[]), Some(Sections::default()));
    }

    #[test]
    fn a_length_that_does_not_fit_is_refused() {
        let bytes = all();
        // Cut anywhere but between two sections, it is refused.
        let mut whole = vec![0];
        for content in [32, 8, 8 * (REGISTERS + 1), 8, 16, 48, 32, 8, 24, 32, 8, 8, 19] {
            whole.push(whole[whole.len() - 1] + 8 + content);
        }
        for length in 0..=bytes.len() {
            assert_eq!(Sections::split(&bytes[..length]).is_some(), whole.contains(&length), "{length}");
        }
        let refused = [
            section(KERNEL_FRAMES, 3, &words(&[1, 2])),
            section(NATIVE_FRAMES, u16::MAX, &[]),
            section(NATIVE_FRAMES, 1, &[0; 9]),
            section(USER_REGISTERS, 0, &words(&[1; REGISTERS])),
            section(WOKEN, 0, &words(&[1])),
            section(LOCK, 0, &words(&[1; 5])),
            section(STACK, 0, &[0; 7]),
            section(INTERPRETED_FRAMES, 2, &words(&[1, 2, 3])),
            section(INTERPRETED_FRAMES, 1, &[0; 17]),
            section(INTERPRETED_FRAMES, 513, &words(&[0; 2 * 513])),
            section(LINKED_STACKS, 5, &words(&[1; 10])),
            section(LINKED_STACKS, 1, &words(&[1])),
            section(OBJECT, 0, &[]),
            section(SAMPLED_AT, 0, &[0; 4]),
            section(OBJECT, 0, &[0; 9]),
            section(TIME_BIN, 0, &words(&[1 << 32])),
            section(VALUES, 2, &words(&[1])),
            section(VALUES, 4, &words(&[1; 4])),
            [&[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], &words(&[0; 4])[..]].concat(),
        ];
        for bytes in refused {
            assert_eq!(Sections::split(&bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn sections_may_be_as_long_as_their_limits_and_no_number_is_guessed() {
        let longest = section(INTERPRETED_FRAMES, 512, &words(&[7; 2 * 512]));
        assert_eq!(Sections::split(&longest).unwrap().attached().unwrap().interpreted.len(), 512);
        let links = section(LINKED_STACKS, 4, &words(&[9, 1, 9, 1, 9, 2, 9, 2]));
        assert_eq!(Sections::split(&links).unwrap().attached().unwrap().links.len(), 4);
        let unknown_role = section(LINKED_STACKS, 1, &words(&[9, 3]));
        assert_eq!(Sections::split(&unknown_role).unwrap().attached(), None);
    }

    #[test]
    fn no_bytes_lead_outside() {
        let bytes = all();
        for at in 0..bytes.len() {
            for value in [0, 1, 7, 8, 0x7f, 0x80, 0xff] {
                let mut hostile = bytes.clone();
                hostile[at] = value;
                if let Some(sections) = Sections::split(&hostile) {
                    let held = 8 * (sections.kernel.len() + sections.native.len())
                        + 16 * (sections.interpreted.len() + sections.links.len())
                        + 8 * sections.values.map_or(0, <[_]>::len);
                    let _ = sections.attached();
                    assert!(held + sections.stack.map_or(0, |stack| stack.bytes.len()) <= hostile.len());
                }
            }
        }
    }
}
