//! The Rust side of `bpf/abi/`: the generated types, and the numbers that both sides share. The assertions compare the
//! layouts of Rust with the types in the object's BTF.

use skeleton::types;
use unwind::Rule;

/// Generated from the object.
#[allow(
    missing_docs,
    dead_code,
    unused,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]
#[allow(non_camel_case_types, unsafe_op_in_unsafe_fn, unnameable_types)]
pub(crate) mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/perf_agent.skel.rs"));
}

pub(crate) const CHUNK_WORDS: u32 = 1 << 14;
pub(crate) const CHUNK_BYTES: usize = 4 * CHUNK_WORDS as usize;
/// `MAX_RULES` and `RULE_WORDS` of `bpf/abi/tables.h`.
pub(crate) const MAX_RULES: usize = 8192;
pub(crate) const RULE_WORDS: u32 = 4;
/// `TABLE_USES` of `bpf/abi/tables.h`.
pub(crate) const TABLE_USES: u32 = 16_384;
/// Words of `struct page_table`.
pub(crate) const PAGE_TABLE_WORDS: u32 = 4;

const _: () = {
    assert!(size_of::<types::rule>() == size_of::<Rule>());
    assert!(size_of::<types::rule>() == 4 * RULE_WORDS as usize);
    assert!(size_of::<types::page_table>() == 4 * PAGE_TABLE_WORDS as usize);
    assert!(size_of::<types::mapping>() == 32);
    assert!(size_of::<types::proc>() == 32);
    assert!(size_of::<types::message>() == 64);
    assert!(size_of::<types::section>() == 8);
    assert!(size_of::<types::raw_stack>() == 8);
    assert!(size_of::<types::sampled_at>() == 8);
    assert!(std::mem::offset_of!(types::sampled_at, side_changes) == 4);
    assert!(size_of::<types::interpreted_frame>() == 16);
    assert!(std::mem::offset_of!(types::interpreted_frame, instruction) == 8);
    assert!(std::mem::offset_of!(types::interpreted_frame, marks) == 12);
    assert!(size_of::<types::python>() == 152);
    assert!(size_of::<types::python_range>() == 16);
    assert!(size_of::<types::python_code>() == 32);
    assert!(std::mem::offset_of!(types::python_code, address) == 0);
    assert!(size_of::<types::linked_stack>() == 16);
    assert!(std::mem::offset_of!(types::linked_stack, role) == 8);
    assert!(size_of::<types::life>() == 40);
    assert!(size_of::<types::life_counts>() == 16);
    assert!(size_of::<types::total>() == 8 * types::value_limit::VALUE_SLOTS.0 as usize);
    assert!(size_of::<types::woken>() == 16);
    assert!(size_of::<types::lock_wait>() == 48);
    assert!(size_of::<types::seam_record>() == 56);
    assert!(size_of::<types::object_id>() == 16);
    assert!(std::mem::offset_of!(types::object_id, memory) == 8);
    assert!(unwind::abi::cfa::UNSUPPORTED as u32 == types::cfa_kind::CFA_UNSUPPORTED.0);
    assert!(unwind::abi::cfa::PLT as u32 == types::cfa_kind::CFA_PLT.0);
    assert!(unwind::abi::cfa::FP_DEREF as u32 == types::cfa_kind::CFA_FP_DEREF.0);
    assert!(unwind::abi::cfa::SP_DEREF as u32 == types::cfa_kind::CFA_SP_DEREF.0);
    assert!(unwind::abi::ra::REG as u32 == types::ra_kind::RA_REG.0);
    assert!(unwind::abi::ra::UNDEFINED as u32 == types::ra_kind::RA_UNDEFINED.0);
    assert!(unwind::abi::fp::UNDEFINED as u32 == types::fp_kind::FP_UNDEFINED.0);
    assert!(unwind::abi::fp::FP as u32 == types::fp_kind::FP_FP.0);
};

/// The entries of `enum control_word` that user space writes.
pub(crate) mod control {
    use super::types::control_word;

    pub(crate) const CHANGED_BY_USER_SPACE: u32 = control_word::CONTROL_CHANGED_BY_USER_SPACE.0;
    pub(crate) const SIDE_CHANGES: u32 = control_word::CONTROL_SIDE_CHANGES.0;
    /// The first of two words, one for each side.
    pub(crate) const SEAM_NS: u32 = control_word::CONTROL_SEAM_NS.0;
    pub(crate) const PREVIOUS_SEAM_NS: u32 = control_word::CONTROL_PREVIOUS_SEAM_NS.0;
    pub(crate) const STATS_CHANGES: u32 = control_word::CONTROL_STATS_CHANGES.0;
    pub(crate) const FOLLOWED_FROM_NS: u32 = control_word::CONTROL_FOLLOWED_FROM_NS.0;
    pub(crate) const FOLLOWED_TO_NS: u32 = control_word::CONTROL_FOLLOWED_TO_NS.0;
    pub(crate) const TELLS_ALL_LIVES: u32 = control_word::CONTROL_TELLS_ALL_LIVES.0;
    pub(crate) const EPOCH: u32 = control_word::CONTROL_EPOCH.0;
    pub(crate) const GATHERED_SEAM_NS: u32 = control_word::CONTROL_GATHERED_SEAM_NS.0;
    /// The number of words.
    pub(crate) const WORDS: u32 = control_word::CONTROL_WORDS.0;
}
