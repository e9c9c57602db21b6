//! Records of a ring, with every field.

use crate::bytes::{Bytes, Malformed, Words};
use crate::counters::CounterGroup;
use crate::layout::{Layout, SampleId};
use crate::numbers::{misc, record};
use crate::sample::Sample;

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its type: [`record`](crate::numbers::record).
    pub kind: u32,
    /// Bits of [`misc`](crate::numbers::misc).
    pub misc: u16,
    /// Bytes with the header.
    pub size: u16,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its header.
    pub header: Header,
    /// Thread, time and event, as far as the event asks for them.
    pub id: SampleId,
    /// What it tells.
    pub body: RecordBody<'a>,
}

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedFile<'a> {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Position in the file.
    pub pgoff: u64,
    /// The path, or a name such as `//anon`.
    pub filename: &'a [u8],
}

/// How the file of a mapping is identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileIdentity<'a> {
    /// By its place.
    Inode {
        /// Major number of the device.
        major: u32,
        /// Minor number of the device.
        minor: u32,
        /// Inode.
        inode: u64,
        /// Generation of the inode.
        generation: u64,
    },
    /// By its build-id, of at most 20 bytes.
    BuildId(&'a [u8]),
}

/// A thread that began or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its process.
    pub pid: u32,
    /// The process that made it.
    pub ppid: u32,
    /// The thread.
    pub tid: u32,
    /// The thread that made it.
    pub ptid: u32,
    /// When.
    pub time: u64,
}

/// What a record tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields have the kernel's names")]
pub enum RecordBody<'a> {
    /// A mapping was made.
    Mmap(MappedFile<'a>),
    /// Records were lost because the ring was full.
    Lost { id: u64, lost: u64 },
    /// A thread has a new name.
    Comm { pid: u32, tid: u32, comm: &'a [u8], exec: bool },
    /// A thread ended.
    Exit(Task),
    /// The event is throttled.
    Throttle { time: u64, id: u64, stream_id: u64 },
    /// The event runs again.
    Unthrottle { time: u64, id: u64, stream_id: u64 },
    /// A thread began.
    Fork(Task),
    /// Values of a thread's counters at its end.
    Read { pid: u32, tid: u32, values: CounterGroup },
    /// A sample.
    Sample(Box<Sample<'a>>),
    /// A mapping was made, with its file and protection.
    Mmap2 { file: MappedFile<'a>, identity: FileIdentity<'a>, prot: u32, flags: u32 },
    /// New bytes are in the AUX area.
    Aux { offset: u64, size: u64, flags: u64 },
    /// A hardware trace begins.
    ItraceStart { pid: u32, tid: u32 },
    /// Samples were lost by the hardware.
    LostSamples { lost: u64 },
    /// The thread was switched in or out.
    Switch { out: bool, preempted: bool },
    /// As `Switch`, with the other thread.
    SwitchCpuWide { out: bool, preempted: bool, other_pid: u32, other_tid: u32 },
    /// Namespaces of a thread: device and inode of each, in turn.
    Namespaces { pid: u32, tid: u32, places: Words<'a> },
    /// A symbol of the kernel came or went.
    Ksymbol { addr: u64, len: u32, kind: u16, flags: u16, name: &'a [u8] },
    /// A BPF program came or went.
    BpfEvent { kind: u16, flags: u16, id: u32, tag: &'a [u8] },
    /// A cgroup was made.
    Cgroup { id: u64, path: &'a [u8] },
    /// Code of the kernel was changed.
    TextPoke { addr: u64, old: &'a [u8], new: &'a [u8] },
    /// The number of a hardware event in AUX data.
    AuxOutputHwId { hw_id: u64 },
    /// A type that is not known here: the bytes behind its header, with the trailer.
    Other(&'a [u8]),
}

impl Header {
    /// The header of a record.
    ///
    /// # Errors
    /// [`Malformed`] if it is cut, has type 0, or a size that is too small, no multiple of 8, or not that of `record`.
    pub fn parse(record: &[u8]) -> Result<Self, Malformed> {
        let mut bytes = Bytes(record);
        let header = Self { kind: bytes.u32()?, misc: bytes.u16()?, size: bytes.u16()? };
        let size = usize::from(header.size);
        if header.kind == 0 || size < 8 || !size.is_multiple_of(8) || size != record.len() {
            return Err(Malformed);
        }
        Ok(header)
    }
}

impl<'a> Record<'a> {
    /// Reads a record with its header.
    ///
    /// # Errors
    /// [`Malformed`] if a size in it does not fit.
    pub fn parse(record: &'a [u8], layout: &Layout) -> Result<Self, Malformed> {
        let header = Header::parse(record)?;
        let body = record.get(8..).ok_or(Malformed)?;
        if header.kind == record::SAMPLE {
            let sample = Sample::parse(body, layout)?;
            return Ok(Self { header, id: sample.id, body: RecordBody::Sample(Box::new(sample)) });
        }
        if header.kind >= record::MAX {
            return Ok(Self { header, id: SampleId::default(), body: RecordBody::Other(body) });
        }
        let (own, id) = layout.split(body)?;
        Ok(Self { header, id, body: RecordBody::parse(header, own, layout)? })
    }
}

impl<'a> RecordBody<'a> {
    fn parse(header: Header, own: &'a [u8], layout: &Layout) -> Result<Self, Malformed> {
        let mut bytes = Bytes(own);
        let has = |bit: u16| header.misc & bit != 0;
        let body = match header.kind {
            record::MMAP => Self::Mmap(mapped(&mut bytes)?.named(&mut bytes)),
            record::LOST => Self::Lost { id: bytes.u64()?, lost: bytes.u64()? },
            record::COMM => {
                let (pid, tid) = (bytes.u32()?, bytes.u32()?);
                Self::Comm { pid, tid, comm: bytes.text(), exec: has(misc::COMM_EXEC) }
            }
            record::EXIT => Self::Exit(task(&mut bytes)?),
            record::FORK => Self::Fork(task(&mut bytes)?),
            record::THROTTLE => {
                Self::Throttle { time: bytes.u64()?, id: bytes.u64()?, stream_id: bytes.u64()? }
            }
            record::UNTHROTTLE => {
                Self::Unthrottle { time: bytes.u64()?, id: bytes.u64()?, stream_id: bytes.u64()? }
            }
            record::READ => {
                let (pid, tid) = (bytes.u32()?, bytes.u32()?);
                Self::Read { pid, tid, values: CounterGroup::take(&mut bytes, layout.read_format)? }
            }
            record::MMAP2 => {
                let file = mapped(&mut bytes)?;
                let identity = identity(&mut bytes, has(misc::MMAP_BUILD_ID))?;
                let (prot, flags) = (bytes.u32()?, bytes.u32()?);
                Self::Mmap2 { file: file.named(&mut bytes), identity, prot, flags }
            }
            record::AUX => Self::Aux { offset: bytes.u64()?, size: bytes.u64()?, flags: bytes.u64()? },
            record::ITRACE_START => Self::ItraceStart { pid: bytes.u32()?, tid: bytes.u32()? },
            record::LOST_SAMPLES => Self::LostSamples { lost: bytes.u64()? },
            record::SWITCH => {
                Self::Switch { out: has(misc::SWITCH_OUT), preempted: has(misc::SWITCH_OUT_PREEMPT) }
            }
            record::SWITCH_CPU_WIDE => Self::SwitchCpuWide {
                out: has(misc::SWITCH_OUT),
                preempted: has(misc::SWITCH_OUT_PREEMPT),
                other_pid: bytes.u32()?,
                other_tid: bytes.u32()?,
            },
            record::NAMESPACES => {
                let (pid, tid, count) = (bytes.u32()?, bytes.u32()?, bytes.u64()?);
                Self::Namespaces { pid, tid, places: bytes.words(count.checked_mul(2).ok_or(Malformed)?)? }
            }
            record::KSYMBOL => {
                let (addr, len, kind, flags) = (bytes.u64()?, bytes.u32()?, bytes.u16()?, bytes.u16()?);
                Self::Ksymbol { addr, len, kind, flags, name: bytes.text() }
            }
            record::BPF_EVENT => Self::BpfEvent {
                kind: bytes.u16()?,
                flags: bytes.u16()?,
                id: bytes.u32()?,
                tag: bytes.take(8)?,
            },
            record::CGROUP => Self::Cgroup { id: bytes.u64()?, path: bytes.text() },
            record::TEXT_POKE => {
                let (addr, old, new) = (bytes.u64()?, bytes.u16()?, bytes.u16()?);
                Self::TextPoke { addr, old: bytes.take(old.into())?, new: bytes.take(new.into())? }
            }
            record::AUX_OUTPUT_HW_ID => Self::AuxOutputHwId { hw_id: bytes.u64()? },
            _ => Self::Other(own),
        };
        Ok(body)
    }
}

impl<'a> MappedFile<'a> {
    fn named(self, bytes: &mut Bytes<'a>) -> Self {
        Self { filename: bytes.text(), ..self }
    }
}

fn mapped<'a>(bytes: &mut Bytes<'a>) -> Result<MappedFile<'a>, Malformed> {
    Ok(MappedFile {
        pid: bytes.u32()?,
        tid: bytes.u32()?,
        addr: bytes.u64()?,
        len: bytes.u64()?,
        pgoff: bytes.u64()?,
        filename: &[],
    })
}

fn identity<'a>(bytes: &mut Bytes<'a>, by_build_id: bool) -> Result<FileIdentity<'a>, Malformed> {
    if !by_build_id {
        let (major, minor) = (bytes.u32()?, bytes.u32()?);
        return Ok(FileIdentity::Inode { major, minor, inode: bytes.u64()?, generation: bytes.u64()? });
    }
    let len = bytes.take(1)?.first().copied().unwrap_or(0);
    bytes.take(3)?;
    bytes.take(20)?.get(..len.into()).map(FileIdentity::BuildId).ok_or(Malformed)
}

fn task(bytes: &mut Bytes<'_>) -> Result<Task, Malformed> {
    let (pid, ppid, tid, ptid) = (bytes.u32()?, bytes.u32()?, bytes.u32()?, bytes.u32()?);
    Ok(Task { pid, ppid, tid, ptid, time: bytes.u64()? })
}
