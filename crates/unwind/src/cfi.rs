//! Call frame information: `.eh_frame` and `.debug_frame`.
//!
//! [`section`] finds CIEs and FDEs, [`program`] runs their instructions. The module of the architecture translates the
//! result into rules.

pub(crate) mod pointer;
pub(crate) mod program;
pub(crate) mod section;

/// A register rule of call frame information. Only the rules of the frame pointer and of the return address are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RegisterRule<'a> {
    /// No instruction names the register.
    #[default]
    Unset,
    Undefined,
    SameValue,
    /// Saved at CFA + n.
    Offset(i64),
    /// The value is CFA + n.
    ValOffset(i64),
    Register(u64),
    /// Saved at the address that the expression computes.
    Expression(&'a [u8]),
    ValExpression(&'a [u8]),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CfaRule<'a> {
    #[default]
    Unset,
    Register(u64, i64),
    Expression(&'a [u8]),
}

/// The content of one row of call frame information for the registers that the walker follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State<'a> {
    pub cfa: CfaRule<'a>,
    pub ra: RegisterRule<'a>,
    pub fp: RegisterRule<'a>,
}
