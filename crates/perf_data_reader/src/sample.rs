//! Samples, by the fields that their event has.

use crate::attr::{Attr, sample_type};
use crate::bytes::{Bytes, U64s};

/// The fields that are used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample<'a> {
    pub(crate) ip: Option<u64>,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) period: u64,
    pub(crate) chain: Option<U64s<'a>>,
    /// The counts of all members of its group.
    group: Option<Group<'a>>,
    /// Which registers there are.
    pub(crate) mask: u64,
    pub(crate) user: Option<UserStack<'a>>,
}

/// The registers and the innermost bytes of a program's stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserStack<'a> {
    /// 1: 32-bit code, 2: 64-bit code.
    pub(crate) abi: u64,
    /// Those of the event's mask, by bit.
    pub(crate) registers: U64s<'a>,
    /// From the stack pointer on.
    pub(crate) bytes: &'a [u8],
}

/// The counts of a group: `of_each` numbers for each member. The first is the count, the second the id of the counter.
#[derive(Clone, Copy, Debug)]
struct Group<'a> {
    numbers: U64s<'a>,
    of_each: usize,
}

/// Bits of `read_format`.
const TOTAL_TIMES: [u64; 2] = [1, 2];
const READ_ID: u64 = 4;
const READ_GROUP: u64 = 8;
const READ_LOST: u64 = 16;
/// Bit of `branch_sample_type`: an index stands before the branches.
const HW_INDEX: u64 = 1 << 17;

impl<'a> Sample<'a> {
    /// `None`: it is shorter than its event demands.
    pub(crate) fn parse(attr: &Attr, body: &'a [u8]) -> Option<Self> {
        use sample_type as field;
        let mut bytes = Bytes(body);
        let mut sample = Self { period: attr.period(), mask: attr.regs_user, ..Self::default() };
        let skip = |bytes: &mut Bytes<'a>, field| {
            if attr.has(field) { bytes.skip_u64s(1) } else { Some(()) }
        };
        skip(&mut bytes, field::IDENTIFIER)?;
        if attr.has(field::IP) {
            sample.ip = Some(bytes.u64()?);
        }
        if attr.has(field::TID) {
            sample.pid = bytes.u32()?.cast_signed();
            sample.tid = bytes.u32()?.cast_signed();
        }
        for before in [field::TIME, field::ADDR, field::ID, field::STREAM_ID, field::CPU] {
            skip(&mut bytes, before)?;
        }
        if attr.has(field::PERIOD) {
            sample.period = bytes.u64()?;
        }
        if attr.has(field::READ) {
            sample.group = read(attr, &mut bytes)?;
        }
        if attr.has(field::CALLCHAIN) {
            let count = bytes.u64()?;
            sample.chain = Some(bytes.u64s(count)?);
        }
        if attr.has(field::RAW) {
            let size = bytes.u32()?;
            bytes.take(size as usize)?;
        }
        if attr.has(field::BRANCH_STACK) {
            let count = bytes.u64()?;
            bytes.skip_u64s((attr.branch_sample_type & HW_INDEX != 0).into())?;
            bytes.skip_u64s(count.checked_mul(3)?)?;
        }
        if attr.has(field::REGS_USER) {
            let abi = bytes.u64()?;
            let count = if abi == 0 { 0 } else { attr.regs_user.count_ones() };
            let registers = bytes.u64s(count.into())?;
            sample.user = (abi != 0).then_some(UserStack { abi, registers, bytes: &[] });
        }
        if attr.has(field::STACK_USER) {
            let size = usize::try_from(bytes.u64()?).ok()?;
            let copied = bytes.take(size)?;
            let valid = if size == 0 { 0 } else { usize::try_from(bytes.u64()?).ok()? };
            if let Some(user) = &mut sample.user {
                user.bytes = copied.get(..valid).unwrap_or(copied);
            }
        }
        Some(sample)
    }

    /// The ids and counts of all members of its group; none if it has no counts with ids.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.group
            .into_iter()
            .flat_map(|Group { numbers, of_each }| {
                numbers.iter().step_by(of_each).zip(numbers.iter().skip(1).step_by(of_each))
            })
            .map(|(count, id)| (id, count))
    }
}

/// The counts in a sample, if they are of a group whose counters have ids.
fn read<'a>(attr: &Attr, bytes: &mut Bytes<'a>) -> Option<Option<Group<'a>>> {
    let has = |bit: u64| u64::from(attr.read_format & bit != 0);
    let times: u64 = TOTAL_TIMES.into_iter().map(has).sum();
    let of_each = 1 + has(READ_ID) + has(READ_LOST);
    if has(READ_GROUP) == 1 {
        let count = bytes.u64()?;
        bytes.skip_u64s(times)?;
        let numbers = bytes.u64s(count.checked_mul(of_each)?)?;
        let group = Group { numbers, of_each: usize::try_from(of_each).ok()? };
        Some((has(READ_ID) == 1).then_some(group))
    } else {
        bytes.skip_u64s(times + of_each)?;
        Some(None)
    }
}
