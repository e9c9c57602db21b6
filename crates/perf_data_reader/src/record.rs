//! Records other than samples.

use profile::BuildId;

use crate::bytes::Bytes;

/// Types of records that are looked at.
pub(crate) mod kind {
    pub(crate) const MMAP: u32 = 1;
    pub(crate) const LOST: u32 = 2;
    pub(crate) const COMM: u32 = 3;
    pub(crate) const EXIT: u32 = 4;
    pub(crate) const FORK: u32 = 7;
    pub(crate) const SAMPLE: u32 = 9;
    pub(crate) const MMAP2: u32 = 10;
    pub(crate) const LOST_SAMPLES: u32 = 13;
    /// From here on records are perf's, not the kernel's.
    pub(crate) const OF_PERF: u32 = 64;
    /// An event, with its ids: in streams.
    pub(crate) const HEADER_ATTR: u32 = 64;
    pub(crate) const TRACING_DATA: u32 = 66;
    pub(crate) const HEADER_BUILD_ID: u32 = 67;
    pub(crate) const FINISHED_ROUND: u32 = 68;
    pub(crate) const AUXTRACE: u32 = 71;
    pub(crate) const EVENT_UPDATE: u32 = 78;
    pub(crate) const HEADER_FEATURE: u32 = 80;
    pub(crate) const COMPRESSED: u32 = 81;
    pub(crate) const COMPRESSED2: u32 = 83;
}

/// Bits of `misc`.
pub(crate) mod misc {
    /// What ran: 1 the kernel, 2 a program.
    pub(crate) const CPU_MODE: u16 = 7;
    pub(crate) const KERNEL: u16 = 1;
    pub(crate) const USER: u16 = 2;
    /// Of a mapping: it holds data.
    pub(super) const DATA: u16 = 1 << 13;
    /// Of a name: it comes with an exec.
    pub(super) const EXEC: u16 = 1 << 13;
    /// Of a fork: the new process has no mappings but those that follow.
    pub(super) const FORK_EXEC: u16 = 1 << 13;
    /// Of a mapping: it has a build-id.
    pub(super) const BUILD_ID: u16 = 1 << 14;
}

/// A device and the number of a file on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inode {
    /// Major number of the device.
    pub dev_major: u32,
    /// Minor number of the device.
    pub dev_minor: u32,
    /// The number.
    pub inode: u64,
}

/// A new mapping of code.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) pid: i32,
    pub(crate) start: u64,
    pub(crate) size: u64,
    pub(crate) offset: u64,
    pub(crate) path: String,
    pub(crate) build_id: Option<BuildId>,
    pub(crate) inode: Option<Inode>,
}

/// A record that changes what is known of processes.
#[derive(Debug)]
pub(crate) enum Record {
    Mapped(Mapped),
    Named { pid: i32, tid: i32, name: String, is_exec: bool },
    Forked { pid: i32, parent: i32, tid: i32, parent_tid: i32, has_mappings: bool },
    Exited { pid: i32, tid: i32 },
    Lost(u64),
    Other,
}

impl Record {
    /// `None`: it is shorter than its type demands, or has a length that cannot be.
    pub(crate) fn parse(kind: u32, misc: u16, body: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(body);
        let id = |bytes: &mut Bytes<'_>| bytes.u32().map(u32::cast_signed);
        Some(match kind {
            kind::MMAP | kind::MMAP2 => return mapped(kind, misc, bytes),
            kind::COMM => {
                let (pid, tid) = (id(&mut bytes)?, id(&mut bytes)?);
                Self::Named { pid, tid, name: bytes.text(), is_exec: misc & misc::EXEC != 0 }
            }
            kind::FORK => Self::Forked {
                pid: id(&mut bytes)?,
                parent: id(&mut bytes)?,
                tid: id(&mut bytes)?,
                parent_tid: id(&mut bytes)?,
                has_mappings: misc & misc::FORK_EXEC == 0,
            },
            kind::EXIT => {
                let pid = id(&mut bytes)?;
                bytes.u32()?;
                Self::Exited { pid, tid: id(&mut bytes)? }
            }
            kind::LOST => {
                bytes.u64()?;
                Self::Lost(bytes.u64()?)
            }
            kind::LOST_SAMPLES => Self::Lost(bytes.u64()?),
            _ => Self::Other,
        })
    }
}

fn mapped(kind: u32, misc: u16, mut bytes: Bytes<'_>) -> Option<Record> {
    const PROT_EXEC: u32 = 4;
    let pid = bytes.u32()?.cast_signed();
    let _tid = bytes.u32()?;
    let (start, size, offset) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
    let (mut build_id, mut inode, mut is_code) = (None, None, misc & misc::DATA == 0);
    if kind == kind::MMAP2 {
        let mut file = Bytes(bytes.take(24)?);
        if misc & misc::BUILD_ID != 0 {
            let length = usize::from(*file.take(4)?.first()?);
            build_id = BuildId::new(file.take(length)?).ok();
        } else {
            let (dev_major, dev_minor) = (file.u32()?, file.u32()?);
            inode = Some(Inode { dev_major, dev_minor, inode: file.u64()? }).filter(|it| it.inode != 0);
        }
        is_code = bytes.u32()? & PROT_EXEC != 0;
        let _flags = bytes.u32()?;
    }
    if !is_code {
        return Some(Record::Other);
    }
    Some(Record::Mapped(Mapped { pid, start, size, offset, path: bytes.text(), build_id, inode }))
}
