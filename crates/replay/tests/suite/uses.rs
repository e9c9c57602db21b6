//! Walks note which tables they use, once in each epoch, whatever they remember from earlier walks.

use replay::{Code, Mapping, Registers, Replay, Stack, TableId, Thread};
use unwind::abi::cfa;
use unwind::{PageSpan, Row, Rule, Table};

const PAGE: u64 = 0x1_0000;
const STACK: u64 = 0x7fff_0000_0000;

/// Two files with a function each, both by stack pointer, and one at whose only function stacks begin.
fn program() -> (Replay, [TableId; 3]) {
    let mut replay = Replay::new();
    let plain = Rule { cfa: cfa::SP, cfa_off: 16, ra_off: -8, ..Rule::NONE };
    let begin = Rule { ra: unwind::abi::ra::UNDEFINED, ..plain };
    let tables = [plain, plain, begin].map(|rule| {
        let table = Table {
            first_page: 0,
            pages: vec![PageSpan { first_row: 0, count: 1 }],
            rows: vec![Row { offset: 0, rule: 1 }],
            rules: vec![Rule::NONE, rule],
            ..Table::default()
        };
        replay.add_table(&table).unwrap()
    });
    let mappings = [1, 2, 3].map(|at| Mapping {
        start: at * PAGE,
        end: (at + 1) * PAGE,
        bias: at * PAGE,
        code: Code::Table(tables[at as usize - 1]),
    });
    replay.set_mappings(&mappings).unwrap();
    (replay, tables)
}

#[test]
fn each_table_of_a_stack_is_noted_in_each_epoch_though_the_walk_is_remembered() {
    let (mut replay, tables) = program();
    let thread = Thread { tid: 1, exec_id: 1, generation: 1 };
    // In the first file, called by the second, called by the third.
    let stack = Stack::of_words(STACK, &[0, 2 * PAGE + 8, 0, 3 * PAGE + 8]);
    let registers = Registers::of(PAGE + 8, STACK, 0);
    let walk = |replay: &mut Replay| replay.walk(&thread, &registers, &stack);
    let uses = |replay: &Replay| tables.map(|table| replay.last_use(table));

    assert_eq!(walk(&mut replay).frames.len(), 3);
    assert_eq!(walk(&mut replay).matched_from_memo, 3, "the second walk is remembered");
    assert_eq!(uses(&replay), [0, 0, 0], "room is not scarce");
    for epoch in [1, 2, 7] {
        replay.begin_epoch(epoch);
        assert_eq!(walk(&mut replay).matched_from_memo, 0);
        assert_eq!(walk(&mut replay).matched_from_memo, 3);
        assert_eq!(uses(&replay), [epoch; 3]);
    }
}
