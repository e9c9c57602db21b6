//! The stack that the functions of a program have together: Linux 5.10 refuses a program whose deepest chain of calls needs more than
//! 512 bytes, each function rounded up to 32. Newer kernels give some programs more, so only this test and the guest of 5.10 see it.

use std::collections::HashMap;

use ::object::{self as object, Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};

/// `MAX_BPF_STACK` of include/linux/filter.h.
const LIMIT: u64 = 512;
/// `check_max_stack_depth` of kernel/bpf/verifier.c, Linux 5.10.
const ROUNDED_TO: u64 = 32;
const CALL: u8 = 0x85;
/// `BPF_PSEUDO_CALL`, in the place of the source register: of a function of the object.
const OF_PROGRAM: u8 = 1;
const MOVE_64: u8 = 0xbf;
const ADD_64: u8 = 0x07;
const LOAD_64: u8 = 0x18;
const FRAME: u8 = 10;

/// An instruction: opcode, destination and source register, offset, immediate value.
struct Instruction {
    opcode: u8,
    destination: u8,
    source: u8,
    offset: i16,
    value: i32,
}

impl Instruction {
    fn read(bytes: &[u8; 8]) -> Self {
        let [opcode, registers, low, high, value @ ..] = *bytes;
        let (destination, source) = (registers & 15, registers >> 4);
        Self {
            opcode,
            destination,
            source,
            offset: i16::from_le_bytes([low, high]),
            value: i32::from_le_bytes(value),
        }
    }

    /// How far below the frame it reaches: a load or store through the frame's register.
    fn reach(&self) -> u64 {
        let through = match self.opcode & 7 {
            1 => self.source == FRAME,
            2 | 3 => self.destination == FRAME,
            _ => false,
        };
        if through { u64::from(self.offset.min(0).unsigned_abs()) } else { 0 }
    }
}

/// A function: the stack of its own, and those it calls, by section and offset.
#[derive(Default)]
struct Function {
    name: String,
    is_program: bool,
    stack: u64,
    callees: Vec<(object::SectionIndex, u64)>,
}

type Functions = HashMap<(object::SectionIndex, u64), Function>;

/// Calls by the address of the instruction, of functions of the kernel too. Those within a section may need no relocation.
fn read_function(
    code: &[u8],
    calls: &HashMap<u64, Option<(object::SectionIndex, u64)>>,
    (section, start): (object::SectionIndex, u64),
) -> Function {
    let mut function = Function::default();
    let mut copy = None;
    let mut rest = code.as_chunks::<8>().0.iter().enumerate();
    while let Some((index, bytes)) = rest.next() {
        let instruction = Instruction::read(bytes);
        function.stack = function.stack.max(instruction.reach());
        // The address of a variable: a copy of the frame's register, and what is added to it.
        if instruction.opcode == ADD_64 && copy == Some(instruction.destination) {
            function.stack = function.stack.max(u64::from(instruction.value.min(0).unsigned_abs()));
        }
        copy =
            (instruction.opcode == MOVE_64 && instruction.source == FRAME).then_some(instruction.destination);
        if instruction.opcode == CALL && instruction.source == OF_PROGRAM {
            let at = start + 8 * index as u64;
            let relative = || (section, at.wrapping_add_signed(8 * (i64::from(instruction.value) + 1)));
            function.callees.extend(calls.get(&at).copied().unwrap_or_else(|| Some(relative())));
        }
        if instruction.opcode == LOAD_64 {
            rest.next();
        }
    }
    function
}

fn functions(file: &object::File<'_>) -> Functions {
    let mut all = Functions::new();
    for section in file.sections() {
        let mut calls = HashMap::new();
        let Ok(code) = section.data() else { continue };
        for (at, relocation) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
            let symbol = file.symbol_by_index(symbol).unwrap();
            let bytes = code.get(at as usize..at as usize + 8).and_then(|bytes| bytes.try_into().ok());
            let instruction = bytes.map(Instruction::read);
            let Some(instruction) = instruction.filter(|instruction| instruction.opcode == CALL) else {
                continue;
            };
            // Of a section: the instruction has the number of the one before the function. Of a function: -1.
            let offset = (i64::from(instruction.value) + 1) * 8 + symbol.address() as i64;
            calls.insert(at, symbol.section_index().map(|target| (target, u64::try_from(offset).unwrap())));
        }
        let symbols = file.symbols().filter(|symbol| symbol.section_index() == Some(section.index()));
        for symbol in symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0) {
            let range = symbol.address() as usize..(symbol.address() + symbol.size()) as usize;
            let mut function = read_function(&code[range], &calls, (section.index(), symbol.address()));
            function.name = symbol.name().unwrap().to_owned();
            function.is_program = section.name() != Ok(".text");
            all.insert((section.index(), symbol.address()), function);
        }
    }
    all
}

/// The deepest chain of calls from a function: its bytes, and its functions with the bytes of each.
fn deepest(all: &Functions, at: (object::SectionIndex, u64)) -> (u64, String) {
    let function = &all[&at];
    let own = function.stack.max(1).next_multiple_of(ROUNDED_TO);
    let below = function.callees.iter().map(|callee| deepest(all, *callee)).max().unwrap_or_default();
    (own + below.0, format!("{} {own}, {}", function.name, below.1))
}

#[test]
fn no_chain_of_calls_needs_more_stack_than_linux_5_10_gives() {
    let file = object::File::parse(&super::OBJECT.0[..]).unwrap();
    let all = functions(&file);
    let programs: Vec<_> =
        all.iter().filter(|(_, function)| function.is_program).map(|(at, _)| *at).collect();
    assert!(programs.len() > 20, "{} programs", programs.len());
    let chains: Vec<_> = programs.into_iter().map(|program| deepest(&all, program)).collect();
    assert!(chains.iter().any(|(bytes, _)| *bytes > LIMIT / 2), "no chain is deep: the calls are not seen");
    for (bytes, chain) in chains {
        assert!(bytes <= LIMIT, "{bytes} bytes of stack: {chain}");
    }
}
