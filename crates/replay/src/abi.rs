//! Numbers of `bpf/abi/`; a test holds them equal to what the C side was compiled with.

/// Words of a chunk of the table pool.
pub const CHUNK_WORDS: u32 = 1 << 14;
/// Chunks of the table pool.
pub(crate) const MAX_CHUNKS: u32 = 4096;
/// Rules of one table.
pub(crate) const MAX_RULES: usize = 8192;
/// Frames of a stack that are kept, from the leaf.
pub const MAX_FRAMES: usize = 512;

pub(crate) const FRAME_EXACT: u64 = 1 << 63;
pub(crate) const FRAME_BY_FP: u64 = 1 << 62;
pub(crate) const FRAME_PC: u64 = (1 << 57) - 1;

pub(crate) const MAPPING_TABLE: u32 = 0;
pub(crate) const MAPPING_FP: u32 = 1;
pub(crate) const MAPPING_NOT_READY: u32 = 2;
