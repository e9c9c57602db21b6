//! Records: what happened, each as the kernel's ring would have it.

use crate::bytes::Bytes;

/// The longest record: its size is a number of 16 bits, and a multiple of 8.
const MAX_BYTES: usize = 65_528;
/// Bytes of names of files that are kept at most, as the kernel does (`PATH_MAX`).
const MAX_NAME: usize = 4_096;

const MMAP: u32 = 1;
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const FINISHED_ROUND: u32 = 68;

pub(crate) const MISC_KERNEL: u16 = 1;
pub(crate) const MISC_USER: u16 = 2;
const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;

/// Before the kernel frames of a call chain.
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
/// Before its user frames.
const CONTEXT_USER: u64 = -512_i64 as u64;

/// Bytes of a build-id that fit into a record.
pub(crate) const BUILD_ID_BYTES: usize = 20;

/// A process, by a thread of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The process.
    pub pid: u32,
    /// The thread; the main thread has the number of its process.
    pub tid: u32,
}

/// When and where something happened, and to whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// To whom.
    pub of: Process,
    /// ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The event: one of the ids of the file.
    pub id: u64,
}

/// Which file a mapping shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileIdentity<'a> {
    /// By content.
    BuildId(&'a [u8]),
    /// By place.
    Inode {
        /// Major number of the device.
        major: u32,
        /// Minor number of the device.
        minor: u32,
        /// The inode.
        inode: u64,
    },
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// How much of the event it stands for.
    pub period: u64,
    /// Runtime addresses, the leaf first: the interrupted pc, then return addresses.
    pub kernel: &'a [u64],
    /// The same in user code.
    pub user: &'a [u64],
    /// Without any frame: where the thread was interrupted in the kernel.
    pub interrupted: u64,
}

/// What a record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Code of the kernel lies here: its text, or a module.
    KernelMapping {
        /// Where it begins.
        address: u64,
        /// How long it is.
        len: u64,
        /// Its name, in brackets.
        name: &'a [u8],
    },
    /// The process of the stamp has this name.
    Comm {
        /// The name.
        name: &'a [u8],
        /// Because it executed a program.
        exec: bool,
    },
    /// The process of the stamp maps a file.
    Mapping {
        /// Where it begins.
        address: u64,
        /// How long it is.
        len: u64,
        /// Position in the file.
        offset: u64,
        /// Which file.
        file: FileIdentity<'a>,
        /// `PROT_` bits.
        protection: u32,
        /// `MAP_` bits.
        flags: u32,
        /// The name of the file.
        path: &'a [u8],
    },
    /// The process or thread of the stamp was made by `parent`.
    Fork {
        /// Who made it.
        parent: Process,
    },
    /// The process or thread of the stamp ended.
    Exit {
        /// Its parent.
        parent: Process,
    },
    /// A sample.
    Sample(Sample<'a>),
    /// Samples are missing.
    Lost {
        /// How many.
        lost: u64,
    },
}

impl Record<'_> {
    /// Appends the bytes of the record.
    pub(crate) fn encode(&self, stamp: &Stamp, body: &mut Bytes) {
        let begin = begin(body);
        let of = stamp.of;
        let (kind, misc) = match *self {
            Record::KernelMapping { address, len, name } => {
                body.u32(u32::MAX).u32(0).u64(address).u64(len).u64(address).name(cut(name), 8);
                (MMAP, MISC_KERNEL)
            }
            Record::Comm { name, exec } => {
                body.u32(of.pid).u32(of.tid).name(cut(name), 8);
                (COMM, if exec { MISC_COMM_EXEC } else { 0 })
            }
            Record::Mapping { address, len, offset, file, protection, flags, path } => {
                body.u32(of.pid).u32(of.tid).u64(address).u64(len).u64(offset);
                let misc = identity(body, file);
                body.u32(protection).u32(flags).name(cut(path), 8);
                (MMAP2, MISC_USER | misc)
            }
            Record::Fork { parent } => (FORK, life(body, stamp, parent)),
            Record::Exit { parent } => (EXIT, life(body, stamp, parent)),
            Record::Lost { lost } => {
                body.u64(0).u64(lost);
                (LOST, 0)
            }
            Record::Sample(sample) => {
                let misc = self::sample(body, stamp, &sample);
                return end(body, begin, SAMPLE, misc);
            }
        };
        body.u32(of.pid).u32(of.tid).u64(stamp.time_ns).u32(stamp.cpu).u32(0).u64(stamp.id);
        end(body, begin, kind, misc);
    }
}

/// Appends the end of a round.
pub(crate) fn finished_round(body: &mut Bytes) {
    let begin = begin(body);
    end(body, begin, FINISHED_ROUND, 0);
}

/// Leaves room for the header of a record. Where it begins.
fn begin(body: &mut Bytes) -> usize {
    let begin = body.len();
    body.u64(0);
    begin
}

/// Writes the header of a record that is complete.
fn end(body: &mut Bytes, begin: usize, kind: u32, misc: u16) {
    // `cut` and `sample` limit what is of any length.
    let size = u16::try_from(body.len() - begin).unwrap_or(u16::MAX);
    body.set(begin, &kind.to_ne_bytes());
    body.set(begin + 4, &misc.to_ne_bytes());
    body.set(begin + 6, &size.to_ne_bytes());
}

fn cut(name: &[u8]) -> &[u8] {
    name.get(..MAX_NAME).unwrap_or(name)
}

/// 24 bytes that identify a file, and the bit that tells how.
fn identity(body: &mut Bytes, file: FileIdentity<'_>) -> u16 {
    match file {
        FileIdentity::BuildId(id) => {
            let id = id.get(..BUILD_ID_BYTES).unwrap_or(id);
            body.raw(&[id.len() as u8, 0, 0, 0]).raw(id).raw(&[0; BUILD_ID_BYTES][id.len()..]);
            MISC_MMAP_BUILD_ID
        }
        FileIdentity::Inode { major, minor, inode } => {
            body.u32(major).u32(minor).u64(inode).u64(0);
            0
        }
    }
}

fn life(body: &mut Bytes, stamp: &Stamp, parent: Process) -> u16 {
    body.u32(stamp.of.pid).u32(parent.pid).u32(stamp.of.tid).u32(parent.tid).u64(stamp.time_ns);
    0
}

fn sample(body: &mut Bytes, stamp: &Stamp, sample: &Sample<'_>) -> u16 {
    let Sample { period, kernel, user, interrupted } = *sample;
    let (ip, misc) = match (kernel.first(), user.first()) {
        (Some(leaf), _) => (*leaf, MISC_KERNEL),
        (None, Some(leaf)) => (*leaf, MISC_USER),
        (None, None) => (interrupted, MISC_KERNEL),
    };
    // The header, seven fields before the call chain, its length, and two marks.
    let room = MAX_BYTES / 8 - 11;
    let kernel = kernel.get(..room).unwrap_or(kernel);
    let user = user.get(..room - kernel.len()).unwrap_or(user);
    let length = kernel.len() + usize::from(!kernel.is_empty()) + user.len() + usize::from(!user.is_empty());
    body.u64(stamp.id).u64(ip).u32(stamp.of.pid).u32(stamp.of.tid).u64(stamp.time_ns);
    body.u32(stamp.cpu).u32(0).u64(period).u64(length as u64);
    for (mark, frames) in [(CONTEXT_KERNEL, kernel), (CONTEXT_USER, user)] {
        if !frames.is_empty() {
            body.u64(mark);
            frames.iter().for_each(|address| _ = body.u64(*address));
        }
    }
    misc
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(record: Record<'_>) -> Vec<u8> {
        let mut bytes = Bytes::default();
        record.encode(&STAMP, &mut bytes);
        bytes.into_vec()
    }

    const STAMP: Stamp = Stamp { of: Process { pid: 7, tid: 8 }, time_ns: 99, cpu: 3, id: 5 };

    /// The words of a record, 32 bits each.
    fn words(record: Record<'_>) -> Vec<u32> {
        let bytes = encoded(record);
        assert_eq!(bytes.len() % 8, 0);
        bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
    }

    fn header(kind: u32, misc: u32, size: u32) -> [u32; 2] {
        [kind, misc | size << 16]
    }

    /// {pid, tid, time, cpu, reserved, identifier}
    const TRAILER: [u32; 8] = [7, 8, 99, 0, 3, 0, 5, 0];

    #[test]
    fn names_and_mappings() {
        let abc = u32::from_ne_bytes(*b"abc\0");
        let comm = words(Record::Comm { name: b"abc", exec: true });
        assert_eq!(comm, [&header(3, 1 << 13, 56)[..], &[7, 8, abc, 0], &TRAILER].concat());
        let renamed = words(Record::Comm { name: b"abc", exec: false });
        assert_eq!(renamed[1], 56 << 16);
        let kernel = words(Record::KernelMapping { address: 16, len: 32, name: b"abc" });
        let fields = [u32::MAX, 0, 16, 0, 32, 0, 16, 0, abc, 0];
        assert_eq!(kernel, [&header(1, 1, 80)[..], &fields, &TRAILER].concat());
        let mapping = |file| {
            let path = b"abc";
            words(Record::Mapping { address: 16, len: 32, offset: 48, file, protection: 5, flags: 2, path })
        };
        let begin = [7, 8, 16, 0, 32, 0, 48, 0];
        let by_id = mapping(FileIdentity::BuildId(&[1, 2, 3, 4, 9]));
        let id = [5, u32::from_ne_bytes([1, 2, 3, 4]), u32::from_ne_bytes([9, 0, 0, 0]), 0, 0, 0];
        let rest = [5, 2, abc, 0];
        assert_eq!(by_id, [&header(10, 2 | 1 << 14, 112)[..], &begin, &id, &rest, &TRAILER].concat());
        let by_place = mapping(FileIdentity::Inode { major: 8, minor: 1, inode: 77 });
        assert_eq!(
            by_place,
            [&header(10, 2, 112)[..], &begin, &[8, 1, 77, 0, 0, 0], &rest, &TRAILER].concat()
        );
    }

    #[test]
    fn life_and_losses() {
        let parent = Process { pid: 1, tid: 2 };
        let fields = [7, 1, 8, 2, 99, 0];
        assert_eq!(words(Record::Fork { parent }), [&header(7, 0, 64)[..], &fields, &TRAILER].concat());
        assert_eq!(words(Record::Exit { parent }), [&header(4, 0, 64)[..], &fields, &TRAILER].concat());
        assert_eq!(
            words(Record::Lost { lost: 6 }),
            [&header(2, 0, 56)[..], &[0, 0, 6, 0], &TRAILER].concat()
        );
        let mut round = Bytes::default();
        finished_round(&mut round);
        assert_eq!(round.as_slice(), [68, 0, 0, 0, 0, 0, 8, 0]);
    }

    #[test]
    fn the_leaf_of_a_sample_tells_where_it_was_taken() {
        let sample = |kernel, user| words(Record::Sample(Sample { period: 6, kernel, user, interrupted: 4 }));
        let fields = |ip, nr| [5, 0, ip, 0, 7, 8, 99, 0, 3, 0, 6, 0, nr, 0];
        let (in_kernel, in_user) = ([-128_i32 as u32, u32::MAX], [-512_i32 as u32, u32::MAX]);
        assert_eq!(sample(&[], &[]), [&header(9, 1, 64)[..], &fields(4, 0)].concat());
        let user = [&header(9, 2, 88)[..], &fields(20, 3), &in_user, &[20, 0, 21, 0]].concat();
        assert_eq!(sample(&[], &[20, 21]), user);
        let both = [&header(9, 1, 96)[..], &fields(30, 4), &in_kernel, &[30, 0], &in_user, &[20, 0]].concat();
        assert_eq!(sample(&[30], &[20]), both);
    }

    #[test]
    fn no_record_is_longer_than_its_size_can_tell() {
        let many = vec![1; 20_000];
        for (kernel, user) in [(&many[..], &many[..]), (&many[..1], &many[..]), (&many[..], &many[..1])] {
            let bytes = encoded(Record::Sample(Sample { period: 1, kernel, user, interrupted: 0 }));
            assert!(bytes.len() <= 65_528, "{}", bytes.len());
            assert_eq!(usize::from(u16::from_ne_bytes([bytes[6], bytes[7]])), bytes.len());
        }
        let comm = encoded(Record::Comm { name: &[b'a'; 100_000], exec: false });
        assert_eq!(usize::from(u16::from_ne_bytes([comm[6], comm[7]])), comm.len());
    }
}
