//! What has been followed of one function: instructions, the transfers of control between them, and what both prove.

use hashbrown::HashMap;
use iced_x86::Instruction;
use iced_x86::InstructionInfoFactory;
use iced_x86::Mnemonic;
use iced_x86::Register;

use super::stack_state::StackState;
use super::starts;
use crate::instructions;
use crate::instructions::CALLEE_SAVED;

/// Instructions before an indirect jump that are searched for its table. Compilers load its address outside of loops.
const LOOK_BACK: usize = 512;
/// Instructions at the start of a function among which a saved register gets another value.
const SAVES_WITHIN: usize = 64;

/// A reached instruction.
pub(super) struct Node {
    pub instruction: Instruction,
    /// The state before it.
    pub state: StackState,
    /// The instruction from which control came first.
    pub previous: Option<u32>,
}

/// What has been followed of one function.
#[derive(Default)]
pub(super) struct Progress {
    pub nodes: Vec<Node>,
    /// Address -> index in `nodes`.
    pub seen: HashMap<u64, u32>,
    /// Instructions that were processed again.
    pub steps: usize,
    /// Instructions that were searched for the tables of jumps.
    pub searched: usize,
    /// Followed and pending branches.
    pub branches: usize,
    /// Pending branch targets.
    pub pending: Vec<(u64, StackState, u32)>,
    edges: Vec<Edge>,
    /// Instructions that return or jump to another function with a balanced stack; true: control certainly returns to
    /// the caller.
    pub exits: Vec<(u32, bool)>,
    /// A path ends where the function may go on: at a change to another stack, or after a call that may not return.
    pub is_cut_short: bool,
    pub callees: Vec<u64>,
    pub addresses_taken: Vec<u64>,
}

/// A transfer of control between two instructions, by their indices in `nodes`.
#[derive(Clone, Copy)]
struct Edge {
    from: u32,
    to: u32,
    /// False after a call that may not return: `to` can belong to other code with another frame.
    certain: bool,
}

impl Progress {
    /// Whether the function takes room on the stack first.
    pub(super) fn has_prologue(&self) -> bool {
        let mut nodes = self.nodes.iter().map(|node| &node.instruction);
        nodes.find(|first| first.mnemonic() != Mnemonic::Endbr64).is_some_and(starts::grows)
    }

    /// An instruction, and those on a way to it, the last one first.
    pub(super) fn way_to(&self, node: u32) -> (&Instruction, Vec<&Instruction>) {
        let Node { instruction, previous, .. } = &self.nodes[node as usize];
        let mut next = *previous;
        let way = std::iter::from_fn(|| {
            let node = &self.nodes[next? as usize];
            next = node.previous;
            Some(&node.instruction)
        });
        (instruction, way.take(LOOK_BACK).collect())
    }

    /// Whether the code saves a register of its caller first and then gives it another value: a function does that, and
    /// code in the middle of one, which may push such a register as an argument, does not. It must also not use what
    /// only code in the middle of a function has there: values in such registers, and words of the caller's frame.
    pub(super) fn saves_registers(&self, info: &mut InstructionInfoFactory) -> bool {
        let mut saved: Vec<Register> = Vec::new();
        let mut next = self.nodes.first().map(|node| node.instruction.ip());
        for Node { instruction, state, .. } in self.nodes.iter().take(SAVES_WITHIN) {
            if next != Some(instruction.ip()) {
                return false;
            }
            next = Some(instruction.next_ip());
            let releases = instruction.stack_pointer_increment() > 0
                || instruction.mnemonic() == Mnemonic::Add && instruction.op0_register() == Register::RSP;
            if releases || state.is_callers_frame(instruction) {
                return false;
            }
            if instruction.mnemonic() == Mnemonic::Push && CALLEE_SAVED.contains(&instruction.op0_register())
            {
                saved.push(instruction.op0_register());
                continue;
            }
            for register in CALLEE_SAVED {
                if instructions::reads(info, instruction, register) {
                    return false;
                }
                if instructions::writes(info, instruction, register) {
                    return saved.contains(&register);
                }
            }
        }
        false
    }

    pub(super) fn edge(&mut self, from: Option<(u32, bool)>, to: u32) {
        self.edges.extend(from.map(|(from, certain)| Edge { from, to, certain }));
    }

    /// Instructions that certainly belong to the function: reached without passing a call that may not return, or
    /// leading to an exit or back to such an instruction with an agreeing state. And whether the function returns, if
    /// certain.
    pub(super) fn certain(&self) -> (Vec<bool>, Option<bool>) {
        let count = self.nodes.len();
        let forward = Adjacency::new(count, self.edges.iter().filter(|e| e.certain).map(|e| (e.from, e.to)));
        let backward = Adjacency::new(count, self.edges.iter().map(|e| (e.to, e.from)));
        let mut certain = vec![false; count];
        forward.close(&mut certain, vec![0]);
        let returns = if self.exits.iter().any(|&(exit, comes_back)| comes_back && certain[exit as usize]) {
            Some(true)
        } else {
            (self.exits.is_empty() && !self.is_cut_short).then_some(false)
        };
        let mut from: Vec<u32> = (0..count as u32).filter(|node| certain[*node as usize]).collect();
        from.extend(self.exits.iter().map(|(exit, _)| *exit));
        backward.close(&mut certain, from);
        let from = (0..count as u32).filter(|node| certain[*node as usize]).collect();
        forward.close(&mut certain, from);
        (certain, returns)
    }
}

/// Successors of nodes, in one array.
struct Adjacency {
    /// Successors of node n: `targets[starts[n]..starts[n + 1]]`.
    starts: Vec<u32>,
    targets: Vec<u32>,
}

impl Adjacency {
    fn new(count: usize, edges: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0; count + 1];
        edges.clone().for_each(|(from, _)| starts[from as usize + 1] += 1);
        (0..count).for_each(|node| starts[node + 1] += starts[node]);
        let mut targets = vec![0; starts[count] as usize];
        let mut next = starts.clone();
        for (from, to) in edges {
            let place = &mut next[from as usize];
            targets[*place as usize] = to;
            *place += 1;
        }
        Self { starts, targets }
    }

    /// Marks all nodes that can be reached.
    fn close(&self, reached: &mut [bool], mut pending: Vec<u32>) {
        pending.iter().for_each(|node| reached[*node as usize] = true);
        while let Some(node) = pending.pop() {
            let range = self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize;
            for &next in &self.targets[range] {
                if !std::mem::replace(&mut reached[next as usize], true) {
                    pending.push(next);
                }
            }
        }
    }
}
