//! The records that `perf record -z` compressed: one stream of zstd, cut into records of the file.
//!
//! In: pieces of the stream, in order. Out: the records in it, with the ends of rounds where they were met between the pieces.
//! Guaranteed: no more than a window, a block and a record are held; what is unpacked is no more than [`RATIO`] times what was packed, and
//! [`SLACK`] bytes.

use std::collections::VecDeque;

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Bytes of a window at most: that of zstd's highest level.
const MAX_WINDOW: u64 = 128 << 20;
const MIN_WINDOW: u64 = 1 << 10;
const MAX_BLOCK: u64 = 128 << 10;
const RATIO: u64 = 256;
const SLACK: u64 = 64 << 20;
/// Ends of rounds that wait at most.
const MAX_ENDS: usize = 1 << 20;
/// Bytes that were handed on are kept until there are this many.
const KEPT: usize = 1 << 20;

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Bits of a frame's descriptor.
const SINGLE_SEGMENT: u8 = 1 << 5;
const CHECKSUM: u8 = 1 << 2;

/// What comes out next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unpacked {
    /// A record, of this many bytes, at the front.
    Record(usize),
    RoundEnd,
}

/// A block's type and sizes.
struct Block {
    is_last: bool,
    /// Bytes of the block, with those of its head.
    size: usize,
}

/// Unpacks a stream.
pub(crate) struct Unpacker {
    decoder: FrameDecoder,
    /// Inside of a frame. `true`: a checksum ends it.
    frame: Option<bool>,
    /// What was not unpacked yet.
    packed: VecDeque<u8>,
    out: Vec<u8>,
    /// Where `out` was handed on up to.
    start: usize,
    /// Bytes that were handed on before `out`.
    before: u64,
    /// Bytes that were taken in, and what they became.
    taken_in: u64,
    unpacked: u64,
    window: u64,
    /// What the decoder still holds of the filling of its window.
    filling: u64,
    /// Ends of rounds, by the number of bytes before them.
    ends: VecDeque<u64>,
}

impl Default for Unpacker {
    fn default() -> Self {
        Self {
            decoder: FrameDecoder::new(),
            frame: None,
            packed: VecDeque::new(),
            out: Vec::new(),
            start: 0,
            before: 0,
            taken_in: 0,
            unpacked: 0,
            window: 0,
            filling: 0,
            ends: VecDeque::new(),
        }
    }
}

impl Unpacker {
    /// Adds a piece of the stream.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.taken_in = self.taken_in.saturating_add(piece.len() as u64);
        self.packed.extend(piece);
    }

    /// A round ends here. `false`: too many ends wait already.
    pub(crate) fn end_round(&mut self) -> bool {
        let fits = self.ends.len() < MAX_ENDS;
        if fits {
            self.ends.push_back(self.unpacked);
        }
        fits
    }

    /// What comes next; `None`: the next piece is needed. The error is a reason.
    pub(crate) fn next(&mut self) -> Result<Option<Unpacked>, String> {
        loop {
            let at = self.before + self.start as u64;
            if self.ends.front().is_some_and(|end| *end <= at) {
                self.ends.pop_front();
                return Ok(Some(Unpacked::RoundEnd));
            }
            let rest = self.out.get(self.start..).unwrap_or_default();
            if let Some(size) = rest.get(6..8) {
                let size = usize::from(u16::from_le_bytes([size[0], size[1]]));
                if size < 8 {
                    return Err(format!("a record in it says that it has {size} bytes"));
                }
                if size <= rest.len() {
                    return Ok(Some(Unpacked::Record(size)));
                }
            }
            if !self.unpack_block()? {
                return Ok(None);
            }
        }
    }

    /// The record at the front. It is there after [`Unpacked::Record`], until the next call.
    pub(crate) fn take(&mut self, size: usize) -> &[u8] {
        let from = self.start;
        self.start += size;
        self.out.get(from..self.start).unwrap_or_default()
    }

    /// The stream ends: what its window holds back comes out. Gives how many bytes are left that are no whole block.
    pub(crate) fn finish(&mut self) -> Result<usize, String> {
        if self.frame.is_some() {
            // An empty last block, of plain bytes.
            self.decode(&[1, 0, 0])?;
            self.frame = None;
        }
        Ok(self.packed.len())
    }

    /// Unpacks a block. `false`: none is whole.
    fn unpack_block(&mut self) -> Result<bool, String> {
        if self.start >= KEPT {
            self.out.drain(..self.start);
            self.before += self.start as u64;
            self.start = 0;
        }
        let Some(has_checksum) = self.frame else { return self.begin_frame() };
        let Some(Block { is_last, size }) = self.block()? else { return Ok(false) };
        let whole = size + if is_last && has_checksum { 4 } else { 0 };
        if self.packed.len() < whole {
            return Ok(false);
        }
        let block: Vec<u8> = self.packed.drain(..whole).take(size).collect();
        self.decode(&block)?;
        if is_last {
            self.frame = None;
        }
        Ok(true)
    }

    fn block(&self) -> Result<Option<Block>, String> {
        let byte = |at: usize| self.packed.get(at).copied().map(u32::from);
        let (Some(a), Some(b), Some(c)) = (byte(0), byte(1), byte(2)) else { return Ok(None) };
        let head = a | b << 8 | c << 16;
        let content = (head >> 3) as usize;
        let size = match head >> 1 & 3 {
            1 => 1,
            3 => return Err("a block in it is of no known type".to_owned()),
            _ => content,
        };
        if content as u64 > MAX_BLOCK {
            return Err(format!("a block in it has {content} bytes"));
        }
        Ok(Some(Block { is_last: head & 1 == 1, size: 3 + size }))
    }

    /// Reads the head of a frame, and has the decoder hold a whole window from the beginning: what it gives from then on is as much as it
    /// unpacks, so that the places of the ends of rounds are known.
    fn begin_frame(&mut self) -> Result<bool, String> {
        let Some(descriptor) = self.packed.get(4).copied() else { return Ok(false) };
        if !self.packed.iter().take(4).eq(&MAGIC) {
            return Err("it is no zstd".to_owned());
        }
        let is_single = descriptor & SINGLE_SEGMENT != 0;
        let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let content = [usize::from(is_single), 2, 4, 8][usize::from(descriptor >> 6)];
        let size = 5 + usize::from(!is_single) + dictionary + content;
        if self.packed.len() < size {
            return Ok(false);
        }
        let head: Vec<u8> = self.packed.drain(..size).collect();
        if dictionary > 0 {
            return Err("its frames need a dictionary".to_owned());
        }
        let content = head[size - content..].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        let wanted = if is_single { content.saturating_add(256) } else { window(head[5]) };
        if wanted > MAX_WINDOW {
            return Err(format!(
                "its window has {wanted} bytes, of {MAX_WINDOW} at most: record with a lower level (perf record -z1)"
            ));
        }
        let size = wanted.max(MIN_WINDOW).next_power_of_two();
        let exponent = u8::try_from(size.ilog2() - MIN_WINDOW.ilog2()).unwrap_or(u8::MAX);
        let [a, b, c, d] = MAGIC;
        let told = |error| format!("it cannot be unpacked: {error}");
        self.decoder.set_max_window_size(MAX_WINDOW);
        self.decoder.reset(&[a, b, c, d, 0, exponent << 3][..]).map_err(told)?;
        self.frame = Some(descriptor & CHECKSUM != 0);
        (self.window, self.filling) = (size, size);
        let block = size.min(MAX_BLOCK);
        let head = (block as u32) << 3 | 1 << 1;
        let [a, b, c, _] = head.to_le_bytes();
        for _ in 0..size / block {
            self.decoder
                .decode_blocks(&[a, b, c, 0][..], BlockDecodingStrategy::UptoBlocks(1))
                .map_err(told)?;
        }
        Ok(true)
    }

    /// Unpacks a block, and takes what the decoder gives.
    fn decode(&mut self, mut block: &[u8]) -> Result<(), String> {
        let told = |error| format!("it cannot be unpacked: {error}");
        let is_finished =
            self.decoder.decode_blocks(&mut block, BlockDecodingStrategy::UptoBlocks(1)).map_err(told)?;
        let before = self.out.len();
        self.decoder.collect_to_writer(&mut self.out).map_err(|error| error.to_string())?;
        let gave = (self.out.len() - before) as u64;
        // The first bytes that it gives are those that filled its window.
        let filling = self.filling.min(gave);
        self.filling -= filling;
        self.out.drain(before..before + usize::try_from(filling).unwrap_or(0));
        // With the last block it gives its window too.
        let held = if is_finished { self.window } else { 0 };
        self.unpacked = self.unpacked.saturating_add(gave.saturating_sub(held));
        if self.unpacked > self.taken_in.saturating_mul(RATIO).saturating_add(SLACK) {
            let (packed, unpacked) = (self.taken_in, self.unpacked);
            return Err(format!("{packed} bytes become {unpacked}, which no recording does"));
        }
        Ok(())
    }
}

/// The bytes of a window by its descriptor.
fn window(descriptor: u8) -> u64 {
    let base = 1u64 << (10 + (descriptor >> 3));
    base + base / 8 * u64::from(descriptor & 7)
}
