//! Follows all paths of one function.

use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::FlowControl;
use iced_x86::Instruction;
use iced_x86::InstructionInfoFactory;
use iced_x86::Mnemonic;
use iced_x86::OpKind;
use iced_x86::Register;

use super::jump_table;
use super::known::Known;
use super::progress::Node;
use super::progress::Progress;
use super::stack_state::StackState;
use super::starts;
use super::starts::Evidence;
use super::uncovered::UncoveredCode;
use crate::abi::Rule;

/// Limit of instructions of one function.
const MAX_INSTRUCTIONS: usize = 1 << 16;
/// Limit of branches, including those of jump tables.
const MAX_BRANCHES: usize = 1 << 17;

/// Searching so many instructions for the table of a jump counts as following one.
const SEARCHED_AT_ONCE: usize = 8;

/// The result for one function.
pub(super) struct FunctionFacts {
    /// Start, end and rule of code with one rule; sorted, disjoint.
    pub runs: Vec<(u64, u64, Rule)>,
    pub callees: Vec<u64>,
    pub addresses_taken: Vec<u64>,
    /// Whether the function returns or jumps to another one; `None`: this depends on its calls.
    pub returns: Option<bool>,
}

/// The analysis of one function.
pub(super) struct Walk<'w, 'a> {
    pub code: &'w UncoveredCode<'a>,
    /// What the analysis of other functions has shown.
    pub known: &'w Known,
    pub start: u64,
    pub evidence: Evidence,
}

impl Walk<'_, '_> {
    /// Follows all paths. `None`: an instruction or a path is not understood.
    ///
    /// With `calls_may_not_return`, a path ends at a call if an aligned address follows, immediately or after padding:
    /// this address is taken for the start of another function.
    pub(super) fn run(&self, calls_may_not_return: bool, spent: &mut u64) -> Option<FunctionFacts> {
        let mut progress = Progress::default();
        let mut info = InstructionInfoFactory::new();
        let mut understood = self
            .path(self.start, StackState::ENTRY, None, calls_may_not_return, &mut progress, &mut info)
            .is_some();
        while understood && let Some((address, state, from)) = progress.pending.pop() {
            let from = Some((from, true));
            understood =
                self.path(address, state, from, calls_may_not_return, &mut progress, &mut info).is_some();
        }
        *spent += (progress.nodes.len()
            + progress.steps
            + progress.branches
            + progress.searched / SEARCHED_AT_ONCE) as u64;
        // Functions are aligned, labels inside functions rarely are. A function that never returns gives no other
        // evidence.
        let is_plausible = match self.evidence {
            Evidence::Strong => true,
            Evidence::Weak => {
                !progress.exits.is_empty()
                    || self.start & 15 == 0 && progress.has_prologue()
                    || progress.saves_registers(&mut info)
            }
            Evidence::Shape => progress.exits.iter().any(|(_, comes_back)| *comes_back),
        };
        if !understood || !is_plausible {
            return None;
        }
        let (certain, returns) = progress.certain();
        // If paths were cut short, a missing return proves nothing.
        let returns = returns.filter(|returns| *returns || !calls_may_not_return);
        let nodes = progress.nodes.iter().zip(&certain).filter(|(_, certain)| **certain);
        let mut nodes: Vec<&Node> = nodes.map(|(node, _)| node).collect();
        nodes.sort_unstable_by_key(|node| node.instruction.ip());
        let mut runs: Vec<(u64, u64, Rule)> = Vec::new();
        for Node { instruction, state, .. } in nodes {
            let (address, next, rule) = (instruction.ip(), instruction.next_ip(), state.rule()?);
            match runs.last_mut() {
                Some((_, end, last)) if *end == address && *last == rule => *end = next,
                Some((_, end, _)) if *end > address => return None,
                _ => runs.push((address, next, rule)),
            }
        }
        let Progress { callees, addresses_taken, .. } = progress;
        Some(FunctionFacts { runs, callees, addresses_taken, returns })
    }

    /// Follows a path to its end or to code that another path has reached. `previous`: the instruction before the path,
    /// and whether control certainly comes from it.
    fn path(
        &self,
        start: u64,
        mut state: StackState,
        mut previous: Option<(u32, bool)>,
        calls_may_not_return: bool,
        progress: &mut Progress,
        info: &mut InstructionInfoFactory,
    ) -> Option<()> {
        let image = self.code.image;
        let code = image.code_at(start).and_then(|_| image.bytes_at(start))?;
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut after_call = false;
        loop {
            let address = decoder.ip();
            let known = progress.seen.get(&address).copied();
            if let Some(node) = known {
                progress.edge(previous, node);
                // Another path has reached this instruction. If it knew more, the rest is processed again. States only
                // lose knowledge, so this ends soon.
                let before = &mut progress.nodes[node as usize].state;
                let met = before.meet(state)?;
                if met == std::mem::replace(before, met) {
                    return Some(());
                }
                state = met;
                progress.steps += 1;
            }
            let another = address != self.start && self.known.is_start(address);
            if another || !self.code.contains(address) {
                // Control enters another function without a jump: on purpose, or because the last call did not return.
                if state.is_balanced() && !after_call {
                    let comes_back = self.known.returns(address) == Some(true);
                    progress.callees.push(address);
                    progress.exits.extend(previous.map(|(from, _)| (from, comes_back)));
                    return Some(());
                }
                return after_call.then_some(());
            }
            if after_call && self.known.is_likely_start(address) {
                progress.is_cut_short = true;
                return Some(());
            }
            if after_call && calls_may_not_return && address & 15 == 0 {
                return Some(());
            }
            decoder.decode_out(&mut instruction);
            // Registers are saved at the start of a function.
            if after_call && calls_may_not_return && starts::grows(&instruction) {
                return Some(());
            }
            if instruction.is_invalid() || progress.nodes.len() + progress.steps >= MAX_INSTRUCTIONS {
                return None;
            }
            let padding = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
            if after_call && padding {
                continue;
            }
            let node = known.unwrap_or(progress.nodes.len() as u32);
            if known.is_none() {
                progress.nodes.push(Node { instruction, state, previous: previous.map(|(from, _)| from) });
                progress.seen.insert(address, node);
                progress.edge(previous, node);
            }
            previous = Some((node, true));
            after_call = false;
            match instruction.flow_control() {
                FlowControl::Next => {
                    if instruction.mnemonic() == Mnemonic::Hlt {
                        return Some(());
                    }
                    progress.addresses_taken.extend(starts::address_taken(&instruction));
                    match state.after(&instruction, info) {
                        // A part of a function that has saved rbp before looks like the outermost one.
                        Some(next) if next.is_root() && self.evidence != Evidence::Strong => return None,
                        Some(next) => state = next,
                        // It goes on with another stack, of which nothing is known.
                        None if self.evidence == Evidence::Strong && loads_stack_pointer(&instruction) => {
                            progress.is_cut_short = true;
                            return Some(());
                        }
                        None => return None,
                    }
                }
                // The kernel returns. The decoder classifies system calls as calls.
                FlowControl::Call if instruction.mnemonic() == Mnemonic::Syscall => {}
                FlowControl::Call => {
                    let target = instruction.near_branch_target();
                    // It only pushes an address, unless the function behind this one is called.
                    if target == instruction.next_ip() && !self.known.is_start(target) {
                        return None;
                    }
                    progress.callees.push(target);
                    let returns = self.returns(target);
                    if returns == Some(false) {
                        return Some(());
                    }
                    previous = Some((node, returns == Some(true)));
                    after_call = returns.is_none();
                }
                FlowControl::IndirectCall => {
                    previous = Some((node, false));
                    after_call = true;
                }
                FlowControl::ConditionalBranch => {
                    self.branch(node, instruction.near_branch_target(), state, progress)?;
                }
                FlowControl::UnconditionalBranch => {
                    return self.branch(node, instruction.near_branch_target(), state, progress);
                }
                FlowControl::IndirectBranch => return self.indirect(node, state, progress, info),
                FlowControl::Return => {
                    progress.exits.push((node, true));
                    return state.is_balanced().then_some(());
                }
                // int3 and ud2: padding, or traps without a return.
                FlowControl::Interrupt | FlowControl::Exception => return Some(()),
                FlowControl::XbeginXabortXend => return None,
            }
        }
    }

    /// Whether a function returns, if that is known.
    fn returns(&self, start: u64) -> Option<bool> {
        self.known.returns(start).or_else(|| self.code.returns(start))
    }

    /// A jump inside the function, or to another function if the stack is balanced.
    fn branch(&self, from: u32, target: u64, state: StackState, progress: &mut Progress) -> Option<()> {
        if !self.code.contains(target) || (target != self.start && self.known.is_start(target)) {
            progress.callees.push(target);
            progress.exits.push((from, self.returns(target) == Some(true)));
            return state.is_balanced().then_some(());
        }
        progress.branches += 1;
        progress.pending.push((target, state, from));
        (progress.branches < MAX_BRANCHES).then_some(())
    }

    fn indirect(
        &self,
        from: u32,
        state: StackState,
        progress: &mut Progress,
        info: &mut InstructionInfoFactory,
    ) -> Option<()> {
        let (jump, way) = progress.way_to(from);
        let (searched, targets) = (way.len(), jump_table::targets(self.code.image, jump, &way, info));
        progress.searched += searched;
        match targets {
            Some(targets) => {
                targets.into_iter().try_for_each(|target| self.branch(from, target, state, progress))
            }
            None if state.is_balanced()
                && (self.evidence == Evidence::Strong || progress.saves_registers(info)) =>
            {
                progress.exits.push((from, false));
                Some(())
            }
            None => None,
        }
    }
}

/// `mov %REGISTER, %rsp`, by which functions change to another stack.
fn loads_stack_pointer(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_register() == Register::RSP
        && instruction.op1_kind() == OpKind::Register
        && instruction.op1_register() != Register::RBP
}
