//! Follows all paths of one function, and of the code that it jumps to.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use iced_x86::{
    Code as Op, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind,
    Register,
};

use super::code::Described;
use super::landing_pads;
use super::model::{Callee, Exits, JumpsOut, MAX_INSTRUCTIONS, Question, Unfollowed};
use crate::cfi::section::ExceptionTable;
use crate::codewalk::jump_table;
use crate::functions::Kind;
use crate::image::Image;

/// Limit of pieces of code with extents of their own.
const MAX_PIECES: usize = 256;
/// Limit of pending branches.
const MAX_PENDING: usize = 1 << 17;
/// Instructions before an indirect jump that are searched for its table. Compilers load its address outside of loops.
const LOOK_BACK: usize = 512;
/// Limit of instructions that are searched for tables.
const MAX_SEARCHED: usize = 1 << 20;

/// A reached instruction.
struct Node {
    instruction: Instruction,
    /// The instruction from which control came first.
    previous: Option<u32>,
}

/// How control leaves an instruction for another place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Jump,
    /// A branch that may not be taken.
    Branch,
    /// The next instruction belongs to other code.
    FallsThrough,
}

/// What has been followed.
pub(super) struct Follow<'f, 'e> {
    image: &'f Image<'e>,
    index: &'f Described,
    question: &'f Question<'f>,
    /// Extents of code that belongs to the function: start and end.
    pieces: BTreeMap<u64, u64>,
    nodes: Vec<Node>,
    seen: HashMap<u64, u32>,
    pending: Vec<(u64, Option<u32>)>,
    searched: usize,
    exits: Exits,
}

impl<'f, 'e> Follow<'f, 'e> {
    pub(super) fn new(image: &'f Image<'e>, index: &'f Described, question: &'f Question<'f>) -> Self {
        Self {
            image,
            index,
            question,
            pieces: BTreeMap::new(),
            nodes: Vec::new(),
            seen: HashMap::new(),
            pending: vec![(question.entry, None)],
            searched: 0,
            exits: Exits::default(),
        }
    }

    pub(super) fn run(mut self) -> Result<Exits, Unfollowed> {
        let mut info = InstructionInfoFactory::new();
        while let Some((address, from)) = self.pending.pop() {
            self.path(address, from, &mut info)?;
        }
        let Exits { returns, jumps, .. } = &mut self.exits;
        for exits in [returns, jumps] {
            exits.sort_unstable();
            exits.dedup();
        }
        Ok(self.exits)
    }

    /// The end of the piece of code at an address, which is entered if it is new.
    fn piece_end(&mut self, address: u64) -> Result<u64, Unfollowed> {
        if let Some((_, end)) = self.pieces.range(..=address).next_back().filter(|(_, end)| address < **end) {
            return Ok(*end);
        }
        let described = self.index.covering(address).filter(|code| code.kind != Kind::Stubs).copied();
        let extent = described.map(|code| code.range()).or_else(|| self.question.symbols.extent(address));
        let extent =
            extent.filter(|extent| extent.contains(&address)).ok_or(Unfollowed::Extent { at: address })?;
        if self.pieces.len() == MAX_PIECES {
            return Err(Unfollowed::TooLong);
        }
        self.pieces.insert(extent.start, extent.end);
        if let Some(code) = described.filter(|_| self.question.landing_pads) {
            let unreadable = Unfollowed::ExceptionTable { at: code.start };
            match code.exceptions {
                ExceptionTable::None => {}
                ExceptionTable::Unreadable => return Err(unreadable),
                ExceptionTable::At(table) => {
                    let pads = landing_pads::of_table(self.image, table, code.start).ok_or(unreadable)?;
                    if self.pending.len() + pads.len() > MAX_PENDING {
                        return Err(Unfollowed::TooLong);
                    }
                    self.pending.extend(pads.into_iter().map(|pad| (pad, None)));
                }
            }
        }
        Ok(extent.end)
    }

    /// Follows a path to its end or to code that another path has reached.
    fn path(
        &mut self,
        start: u64,
        from: Option<u32>,
        info: &mut InstructionInfoFactory,
    ) -> Result<(), Unfollowed> {
        let end = self.piece_end(start)?;
        let code = self.image.code_at(start).and_then(|_| self.image.bytes_at(start)).unwrap_or_default();
        let len = usize::try_from(end - start).unwrap_or(usize::MAX).min(code.len());
        let code = code.get(..len).unwrap_or_default();
        if code.is_empty() {
            return Err(Unfollowed::Instruction { at: start });
        }
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        let mut previous = from;
        let mut after_call = false;
        loop {
            let at = decoder.ip();
            if !decoder.can_decode() {
                // A call before the end of the code does not return.
                return match previous.filter(|_| !after_call) {
                    None => Ok(()),
                    Some(node) => self.leave(node, at, Way::FallsThrough),
                };
            }
            if self.seen.contains_key(&at) {
                return Ok(());
            }
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                return Err(Unfollowed::Instruction { at });
            }
            if self.nodes.len() == MAX_INSTRUCTIONS {
                return Err(Unfollowed::TooLong);
            }
            let node = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
            self.nodes.push(Node { instruction, previous });
            self.seen.insert(at, node);
            previous = Some(node);
            let is_padding = instruction.mnemonic() == Mnemonic::Nop;
            match instruction.flow_control() {
                FlowControl::Next if instruction.mnemonic() == Mnemonic::Hlt => return Ok(()),
                FlowControl::Next => after_call &= is_padding,
                FlowControl::Call if instruction.mnemonic() == Mnemonic::Syscall => after_call = false,
                FlowControl::Call => {
                    if instruction.op0_kind() != OpKind::NearBranch64 {
                        return Err(Unfollowed::Instruction { at });
                    }
                    if self.ends_at(instruction.near_branch_target()) {
                        return Ok(());
                    }
                    after_call = true;
                }
                FlowControl::IndirectCall => {
                    let slot = slot_of(&instruction);
                    if slot.is_some_and(|slot| self.ends_at_import(slot)) {
                        return Ok(());
                    }
                    after_call = true;
                }
                FlowControl::ConditionalBranch => {
                    self.leave(node, instruction.near_branch_target(), Way::Branch)?;
                    after_call = false;
                }
                FlowControl::UnconditionalBranch if instruction.op0_kind() == OpKind::NearBranch64 => {
                    return self.leave(node, instruction.near_branch_target(), Way::Jump);
                }
                FlowControl::IndirectBranch => return self.indirect(node, &instruction, info),
                FlowControl::Return if matches!(instruction.code(), Op::Retnq | Op::Retnq_imm16) => {
                    self.exits.returns.push(at);
                    return Ok(());
                }
                // Padding behind a call that does not return. Elsewhere it stands for an instruction that another tracer has replaced.
                FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int3 && after_call => {
                    return Ok(());
                }
                // ud2 ends the program, or is never reached.
                FlowControl::Exception => return Ok(()),
                _ => return Err(Unfollowed::Instruction { at }),
            }
        }
    }

    /// Control leaves an instruction for another place.
    fn leave(&mut self, from: u32, to: u64, way: Way) -> Result<(), Unfollowed> {
        if self.pending.len() >= MAX_PENDING {
            return Err(Unfollowed::TooLong);
        }
        if self.is_own(to) {
            self.pending.push((to, Some(from)));
            return Ok(());
        }
        if self.ends_at(to) {
            return Ok(());
        }
        let at = self.ip(from);
        let import = self.import_at(to);
        let is_start = import.is_some() || self.begins_function(to);
        match (self.question.jumps_out, import) {
            (JumpsOut::Follow, Some(to)) => Err(Unfollowed::Import { at, to: to.to_owned() }),
            (JumpsOut::Follow, None) => {
                self.pending.push((to, Some(from)));
                Ok(())
            }
            (JumpsOut::Exit, _) if is_start && way == Way::Jump => {
                self.exits.jumps.push(at);
                Ok(())
            }
            (JumpsOut::Exit, None) if !is_start && self.is_part(to) => {
                self.pending.push((to, Some(from)));
                Ok(())
            }
            (JumpsOut::Exit, _) => Err(Unfollowed::Shared { at, to }),
        }
    }

    /// A jump by a register or by memory.
    fn indirect(
        &mut self,
        node: u32,
        jump: &Instruction,
        info: &mut InstructionInfoFactory,
    ) -> Result<(), Unfollowed> {
        let at = jump.ip();
        if let Some(slot) = slot_of(jump) {
            let name = self.question.symbols.import(slot);
            let callee = name.map(Callee::Import);
            return match (callee, self.question.jumps_out) {
                (Some(callee), _) if (self.question.ends_at)(callee) => Ok(()),
                (_, JumpsOut::Exit) => {
                    self.exits.jumps.push(at);
                    Ok(())
                }
                (_, JumpsOut::Follow) => match name {
                    Some(to) => Err(Unfollowed::Import { at, to: to.to_owned() }),
                    None => Err(Unfollowed::IndirectJump { at }),
                },
            };
        }
        // A `switch` jumps by a table, whose index is not a plain member of an object: that is a call of a virtual function at the end.
        let is_member = jump.op0_kind() == OpKind::Memory
            && jump.memory_base() != Register::None
            && jump.memory_index() == Register::None;
        if is_member && self.question.jumps_out == JumpsOut::Exit {
            // An interpreter of threaded code jumps so too, to code of its own, but from within its frame.
            self.exits.jumps.push(at);
            self.exits.members.push(at);
            return Ok(());
        }
        let mut next = self.nodes.get(node as usize).and_then(|node| node.previous);
        let way = std::iter::from_fn(|| {
            let node = self.nodes.get(next? as usize)?;
            next = node.previous;
            Some(&node.instruction)
        });
        let way: Vec<&Instruction> = way.take(LOOK_BACK).collect();
        self.searched += way.len();
        let targets = jump_table::targets(self.image, jump, &way, info);
        let targets =
            targets.filter(|_| self.searched < MAX_SEARCHED).ok_or(Unfollowed::IndirectJump { at })?;
        for target in targets {
            // The cases of a `switch` are in the function, or in a part of it.
            if !self.is_own(target) && !self.is_part(target) || self.pending.len() >= MAX_PENDING {
                return Err(Unfollowed::IndirectJump { at });
            }
            self.pending.push((target, Some(node)));
        }
        Ok(())
    }

    fn ip(&self, node: u32) -> u64 {
        self.nodes.get(node as usize).map_or(0, |node| node.instruction.ip())
    }

    /// Whether an address is in code that is known to belong to the function.
    fn is_own(&self, address: u64) -> bool {
        self.pieces.range(..=address).next_back().is_some_and(|(_, end)| address < *end)
    }

    /// Whether a function begins at an address.
    fn begins_function(&self, address: u64) -> bool {
        if self.question.symbols.is_part(address) {
            return false;
        }
        match self.index.covering(address) {
            Some(_) => self.index.begins_at(address),
            None => self.question.symbols.extent(address).is_some_and(|extent| extent.start == address),
        }
    }

    /// Whether an address is in a part of a function that lies apart from it.
    fn is_part(&self, address: u64) -> bool {
        match self.index.covering(address) {
            Some(code) => code.kind == Kind::MaybePart || self.question.symbols.is_part(code.start),
            None => {
                let extent = self.question.symbols.extent(address);
                extent.is_some_and(|extent| self.question.symbols.is_part(extent.start))
            }
        }
    }

    /// Whether a path ends with a call of a function, or with a jump to it.
    fn ends_at(&self, function: u64) -> bool {
        (self.question.ends_at)(Callee::At(function))
            || self.import_at(function).is_some_and(|name| (self.question.ends_at)(Callee::Import(name)))
    }

    fn ends_at_import(&self, slot: u64) -> bool {
        let name = self.question.symbols.import(slot);
        name.is_some_and(|name| (self.question.ends_at)(Callee::Import(name)))
    }

    /// The function of another file that the stub at an address leads to.
    fn import_at(&self, address: u64) -> Option<&str> {
        let is_stub = self.index.covering(address).is_none_or(|code| code.kind == Kind::Stubs);
        let code =
            self.image.code_at(address).filter(|_| is_stub).and_then(|_| self.image.bytes_at(address))?;
        let code = code.get(..code.len().min(32))?;
        let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
        let mut first = decoder.decode();
        if first.mnemonic() == Mnemonic::Endbr64 {
            first = decoder.decode();
        }
        if first.flow_control() != FlowControl::IndirectBranch {
            return None;
        }
        self.question.symbols.import(slot_of(&first)?)
    }
}

/// The place in memory that has the target of a call or jump, if it is in the file.
fn slot_of(instruction: &Instruction) -> Option<u64> {
    (instruction.op0_kind() == OpKind::Memory && instruction.is_ip_rel_memory_operand())
        .then(|| instruction.ip_rel_memory_address())
}
