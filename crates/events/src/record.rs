//! The records that the kernel writes about mappings, from bytes.

use profile::BuildId;
use sys::perf;

/// `PROT_EXEC` of a mapping.
const PROT_EXEC: u32 = 4;
/// type, misc, size
const HEADER: usize = 8;
/// The kernel appends this with `sample_id_all` and a `sample_type` of time only.
const TRAILER: usize = 8;

/// A mapping that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mmap {
    /// The process.
    pub pid: u32,
    /// The thread that made it.
    pub tid: u32,
    /// First address.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// Position in the file.
    pub file_offset: u64,
    /// Major number of the device; 0 if the build-id is given.
    pub dev_major: u32,
    /// Minor number of the device; 0 if the build-id is given.
    pub dev_minor: u32,
    /// Inode; 0 if the build-id is given.
    pub inode: u64,
    /// The build-id, if the kernel gives it instead of device and inode.
    pub build_id: Option<BuildId>,
    /// Whether it is code.
    pub executable: bool,
    /// `PROT_` bits.
    pub protection: u32,
    /// `MAP_` bits.
    pub flags: u32,
    /// Path as the process sees it, or a name such as `//anon`.
    pub path: Vec<u8>,
}

/// A thread that began or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its process.
    pub pid: u32,
    /// The process that made it; at its end, the parent of its process.
    pub parent_pid: u32,
    /// The thread.
    pub tid: u32,
    /// The thread that made it; at its end, one of `parent_pid`.
    pub parent_tid: u32,
    /// It ended.
    pub ended: bool,
}

/// What happened. Numbers are those of the PID namespace of the process that opened the events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// An executable mapping was made.
    Mmap(Mmap),
    /// A thread began or ended; only of a [`SideBand`](crate::SideBand) that was opened with threads.
    Task(Task),
    /// So many records were lost because the ring was full.
    Lost(u64),
}

impl Record {
    /// The process that it is about; none for lost records.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match self {
            Self::Mmap(mmap) => Some(mmap.pid),
            Self::Task(task) => Some(task.pid),
            Self::Lost(_) => None,
        }
    }
}

/// A record with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedRecord {
    /// `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// CPU on which it happened.
    pub cpu: u32,
    /// What happened.
    pub record: Record,
}

/// A record whose bytes do not make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed perf record")]
pub struct Malformed;

/// Reads a record of the side band with its header: its time, and what happened. None for kinds that are not known here.
///
/// # Errors
/// [`Malformed`] if it is shorter than its kind.
pub fn parse(bytes: &[u8]) -> Result<Option<(u64, Record)>, Malformed> {
    let mut header = Fields(bytes);
    let (kind, misc) = (header.u32()?, header.u16()?);
    let body = bytes.get(HEADER..).ok_or(Malformed)?;
    let (body, trailer) = body.split_at_checked(body.len().wrapping_sub(TRAILER)).ok_or(Malformed)?;
    let time_ns = Fields(trailer).u64()?;
    let mut fields = Fields(body);
    let record = match kind {
        perf::RECORD_MMAP2 => Record::Mmap(mmap2(&mut fields, misc)?),
        perf::RECORD_FORK => Record::Task(task(&mut fields, false)?),
        perf::RECORD_EXIT => Record::Task(task(&mut fields, true)?),
        perf::RECORD_LOST => {
            fields.take(8)?;
            Record::Lost(fields.u64()?)
        }
        perf::RECORD_LOST_SAMPLES => Record::Lost(fields.u64()?),
        _ => return Ok(None),
    };
    Ok(Some((time_ns, record)))
}

fn task(fields: &mut Fields<'_>, ended: bool) -> Result<Task, Malformed> {
    let (pid, parent_pid) = (fields.u32()?, fields.u32()?);
    let (tid, parent_tid) = (fields.u32()?, fields.u32()?);
    Ok(Task { pid, parent_pid, tid, parent_tid, ended })
}

fn mmap2(fields: &mut Fields<'_>, misc: u16) -> Result<Mmap, Malformed> {
    let (pid, tid) = (fields.u32()?, fields.u32()?);
    let (address, len, file_offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let mut file = Fields(fields.take(24)?);
    let (build_id, dev_major, dev_minor, inode) = if misc & perf::MISC_MMAP_BUILD_ID != 0 {
        let size = usize::from(file.take(4)?[0]);
        (BuildId::new(file.0.get(..size).ok_or(Malformed)?).ok(), 0, 0, 0)
    } else {
        (None, file.u32()?, file.u32()?, file.u64()?)
    };
    let (protection, flags) = (fields.u32()?, fields.u32()?);
    Ok(Mmap {
        pid,
        tid,
        address,
        len,
        file_offset,
        dev_major,
        dev_minor,
        inode,
        build_id,
        executable: protection & PROT_EXEC != 0,
        protection,
        flags,
        path: fields.text(),
    })
}

/// The rest of a record.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (field, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(field)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_ne_bytes(self.take(2)?.try_into().map_err(|_| Malformed)?))
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_ne_bytes(self.take(4)?.try_into().map_err(|_| Malformed)?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_ne_bytes(self.take(8)?.try_into().map_err(|_| Malformed)?))
    }

    /// What is left up to the first zero.
    fn text(&mut self) -> Vec<u8> {
        let len = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        self.0[..len].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u32, misc: u16, body: &[&[u8]], time: u64) -> Vec<u8> {
        let mut bytes = [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &[0, 0]].concat();
        bytes.extend(body.concat());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend(time.to_ne_bytes());
        let size = bytes.len() as u16;
        bytes[6..8].copy_from_slice(&size.to_ne_bytes());
        bytes
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn longs(longs: &[u64]) -> Vec<u8> {
        longs.iter().flat_map(|long| long.to_ne_bytes()).collect()
    }

    fn mapping(misc: u16, file: &[u8]) -> Vec<u8> {
        let place = longs(&[0x7f00_0000_1000, 0x2000, 0x3000]);
        record(10, misc, &[&words(&[5, 6]), &place, file, &words(&[5, 2]), b"/usr/lib/a b.so\0junk"], 77)
    }

    #[test]
    fn reads_mappings() {
        let file = [words(&[0xfe, 1]), longs(&[1234, 0])].concat();
        let (time, Record::Mmap(mmap)) = parse(&mapping(2, &file)).unwrap().unwrap() else { panic!() };
        let expected = Mmap {
            pid: 5,
            tid: 6,
            address: 0x7f00_0000_1000,
            len: 0x2000,
            file_offset: 0x3000,
            dev_major: 0xfe,
            dev_minor: 1,
            inode: 1234,
            build_id: None,
            executable: true,
            protection: 5,
            flags: 2,
            path: b"/usr/lib/a b.so".to_vec(),
        };
        assert_eq!((time, mmap), (77, expected));
    }

    #[test]
    fn reads_mappings_with_build_id() {
        let file = [&[20, 0, 0, 0][..], &[0xab; 20]].concat();
        let (_, Record::Mmap(mmap)) = parse(&mapping(1 << 14, &file)).unwrap().unwrap() else { panic!() };
        assert_eq!(mmap.build_id.unwrap().as_bytes(), [0xab; 20]);
        assert_eq!((mmap.dev_major, mmap.dev_minor, mmap.inode), (0, 0, 0));
        let file = [&[21, 0, 0, 0][..], &[0xab; 20]].concat();
        assert_eq!(parse(&mapping(1 << 14, &file)), Err(Malformed), "longer than its room");
        let (_, Record::Mmap(mmap)) = parse(&mapping(1 << 14, &[0; 24])).unwrap().unwrap() else { panic!() };
        assert_eq!(mmap.build_id, None, "no build-id");
    }

    #[test]
    fn reads_losses_and_leaves_other_kinds_out() {
        assert_eq!(parse(&record(2, 0, &[&longs(&[1, 42])], 4)), Ok(Some((4, Record::Lost(42)))));
        let numbers = words(&[7, 1, 8, 2]);
        let task = Task { pid: 7, parent_pid: 1, tid: 8, parent_tid: 2, ended: false };
        let of = |kind| parse(&record(kind, 0, &[&numbers, &longs(&[4])], 4));
        assert_eq!(of(7), Ok(Some((4, Record::Task(task)))));
        assert_eq!(of(4), Ok(Some((4, Record::Task(Task { ended: true, ..task })))));
        assert_eq!(parse(&record(13, 0, &[&longs(&[42])], 4)), Ok(Some((4, Record::Lost(42)))));
        assert_eq!(parse(&record(99, 0, &[], 4)), Ok(None));
    }

    #[test]
    fn refuses_short_records() {
        for kind in [2, 10, 13] {
            assert_eq!(parse(&record(kind, 0, &[], 1)), Err(Malformed), "{kind}");
        }
        let lost = record(2, 0, &[&longs(&[1, 42])], 4);
        assert_eq!(parse(&lost[..24]), Err(Malformed));
        assert_eq!(parse(&[]), Err(Malformed));
        assert_eq!(parse(&[2, 0, 0, 0, 0, 0, 8, 0]), Err(Malformed));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn any_bytes_are_stood(kind in 0u8..20, rest in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = rest;
            if let Some(first) = bytes.get_mut(..4) {
                first.copy_from_slice(&u32::from(kind).to_ne_bytes());
            }
            let _ = parse(&bytes);
        }
    }
}
