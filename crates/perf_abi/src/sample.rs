//! Samples: all parts that an event can ask for, in the kernel's order.

use crate::bytes::{Bytes, Malformed, Words};
use crate::counters::CounterGroup;
use crate::layout::{Layout, SampleId};
use crate::numbers::{branch_sample, sample};

/// A sample. Parts that the event does not ask for are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Thread, time, CPU and numbers of the event.
    pub id: SampleId,
    /// The instruction.
    pub ip: Option<u64>,
    /// The address of the data.
    pub addr: Option<u64>,
    /// Events since the sample before.
    pub period: Option<u64>,
    /// Values of the counters.
    pub read: Option<CounterGroup>,
    /// Return addresses with the marks of [`context`](crate::numbers::context).
    pub callchain: Option<Words<'a>>,
    /// The event's own bytes: the record of a tracepoint, with padding.
    pub raw: Option<&'a [u8]>,
    /// The last branches.
    pub branches: Option<Vec<Branch>>,
    /// Position of the last branch in the hardware's list.
    pub branch_index: Option<u64>,
    /// User registers.
    pub regs_user: Option<Registers<'a>>,
    /// A copy of the user stack.
    pub stack_user: Option<UserStack<'a>>,
    /// The weight; with `WEIGHT_STRUCT` its three parts in one word.
    pub weight: Option<u64>,
    /// Where the data came from.
    pub data_src: Option<u64>,
    /// Why a transaction was aborted.
    pub transaction: Option<u64>,
    /// Registers at the interrupt.
    pub regs_intr: Option<Registers<'a>>,
    /// The physical address of the data.
    pub phys_addr: Option<u64>,
    /// The number of the cgroup.
    pub cgroup: Option<u64>,
    /// The size of the page of the data.
    pub data_page_size: Option<u64>,
    /// The size of the page of the instruction.
    pub code_page_size: Option<u64>,
    /// Bytes of the AUX area.
    pub aux: Option<&'a [u8]>,
}

/// Registers, those of the mask without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers<'a> {
    /// 0: there are none; 1: of a 32-bit program; 2: of a 64-bit one.
    pub abi: u64,
    /// Which registers, by the kernel's numbers.
    pub mask: u64,
    /// Their values.
    pub values: Words<'a>,
}

impl Registers<'_> {
    /// The register with the kernel's number.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<u64> {
        let bit = 1u64.checked_shl(number)?;
        if self.mask & bit == 0 {
            return None;
        }
        self.values.get((self.mask & (bit - 1)).count_ones() as usize)
    }
}

/// A copy of the user stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserStack<'a> {
    /// The bytes that the kernel could copy, from the stack pointer on.
    pub bytes: &'a [u8],
    /// The bytes that were asked for.
    pub asked: u64,
}

/// A branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// The instruction that branched.
    pub from: u64,
    /// Where to.
    pub to: u64,
    /// The kernel's bits of it.
    pub flags: u64,
}

impl Branch {
    /// It was predicted wrongly.
    #[must_use]
    pub fn mispredicted(&self) -> bool {
        self.flags & 1 != 0
    }

    /// It was predicted.
    #[must_use]
    pub fn predicted(&self) -> bool {
        self.flags & 2 != 0
    }

    /// In a transaction.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        self.flags & 4 != 0
    }

    /// It aborted a transaction.
    #[must_use]
    pub fn aborted(&self) -> bool {
        self.flags & 8 != 0
    }

    /// Cycles since the branch before.
    #[must_use]
    pub fn cycles(&self) -> u16 {
        (self.flags >> 4) as u16
    }

    /// The kernel's number of its type.
    #[must_use]
    pub fn kind(&self) -> u8 {
        (self.flags >> 20 & 0xf) as u8
    }

    /// The kernel's number of its speculation.
    #[must_use]
    pub fn speculation(&self) -> u8 {
        (self.flags >> 24 & 3) as u8
    }
}

impl<'a> Sample<'a> {
    /// Reads the body of a sample, which follows its header.
    ///
    /// # Errors
    /// [`Malformed`] if it is shorter than its parts.
    pub fn parse(body: &'a [u8], layout: &Layout) -> Result<Self, Malformed> {
        let mut bytes = Bytes(body);
        let mut sample = Self::default();
        sample.take_head(&mut bytes, layout)?;
        sample.take_stacks(&mut bytes, layout)?;
        sample.take_rest(&mut bytes, layout)?;
        Ok(sample)
    }

    fn take_head(&mut self, bytes: &mut Bytes<'a>, layout: &Layout) -> Result<(), Malformed> {
        let word = |bytes: &mut Bytes<'a>, bit: u64| layout.has(bit).then(|| bytes.u64()).transpose();
        self.id.identifier = word(bytes, sample::IDENTIFIER)?;
        self.ip = word(bytes, sample::IP)?;
        if layout.has(sample::TID) {
            (self.id.pid, self.id.tid) = (Some(bytes.u32()?), Some(bytes.u32()?));
        }
        self.id.time = word(bytes, sample::TIME)?;
        self.addr = word(bytes, sample::ADDR)?;
        self.id.id = word(bytes, sample::ID)?;
        self.id.stream_id = word(bytes, sample::STREAM_ID)?;
        if layout.has(sample::CPU) {
            self.id.cpu = Some(bytes.u32()?);
            bytes.take(4)?;
        }
        self.period = word(bytes, sample::PERIOD)?;
        Ok(())
    }

    fn take_stacks(&mut self, bytes: &mut Bytes<'a>, layout: &Layout) -> Result<(), Malformed> {
        if layout.has(sample::READ) {
            self.read = Some(CounterGroup::take(bytes, layout.read_format)?);
        }
        if layout.has(sample::CALLCHAIN) {
            let count = bytes.u64()?;
            self.callchain = Some(bytes.words(count)?);
        }
        if layout.has(sample::RAW) {
            let len = bytes.u32()? as usize;
            self.raw = Some(bytes.take(len)?);
        }
        if layout.has(sample::BRANCH_STACK) {
            let count = bytes.u64()?;
            if layout.branch_sample_type & branch_sample::HW_INDEX != 0 {
                self.branch_index = Some(bytes.u64()?);
            }
            let words = bytes.words(count.checked_mul(3).ok_or(Malformed)?)?;
            let branch = |at: usize| {
                let word = |offset: usize| words.get(at * 3 + offset).unwrap_or(0);
                Branch { from: word(0), to: word(1), flags: word(2) }
            };
            self.branches = Some((0..words.len() / 3).map(branch).collect());
            if layout.branch_sample_type & branch_sample::COUNTERS != 0 {
                bytes.words(count)?;
            }
        }
        if layout.has(sample::REGS_USER) {
            self.regs_user = Some(registers(bytes, layout.regs_user)?);
        }
        if layout.has(sample::STACK_USER) {
            let asked = bytes.u64()?;
            let mut stack = UserStack { bytes: &[], asked };
            if asked > 0 {
                let all = bytes.take(usize::try_from(asked).map_err(|_| Malformed)?)?;
                let copied = usize::try_from(bytes.u64()?).map_err(|_| Malformed)?;
                stack.bytes = all.get(..copied).ok_or(Malformed)?;
            }
            self.stack_user = Some(stack);
        }
        Ok(())
    }

    fn take_rest(&mut self, bytes: &mut Bytes<'a>, layout: &Layout) -> Result<(), Malformed> {
        let word = |bytes: &mut Bytes<'a>, bits: u64| layout.has(bits).then(|| bytes.u64()).transpose();
        self.weight = word(bytes, sample::WEIGHT | sample::WEIGHT_STRUCT)?;
        self.data_src = word(bytes, sample::DATA_SRC)?;
        self.transaction = word(bytes, sample::TRANSACTION)?;
        if layout.has(sample::REGS_INTR) {
            self.regs_intr = Some(registers(bytes, layout.regs_intr)?);
        }
        self.phys_addr = word(bytes, sample::PHYS_ADDR)?;
        self.cgroup = word(bytes, sample::CGROUP)?;
        self.data_page_size = word(bytes, sample::DATA_PAGE_SIZE)?;
        self.code_page_size = word(bytes, sample::CODE_PAGE_SIZE)?;
        if layout.has(sample::AUX) {
            let len = usize::try_from(bytes.u64()?).map_err(|_| Malformed)?;
            self.aux = Some(bytes.take(len)?);
        }
        Ok(())
    }
}

fn registers<'a>(bytes: &mut Bytes<'a>, mask: u64) -> Result<Registers<'a>, Malformed> {
    let abi = bytes.u64()?;
    let mask = if abi == 0 { 0 } else { mask };
    Ok(Registers { abi, mask, values: bytes.words(mask.count_ones().into())? })
}
