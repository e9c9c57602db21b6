use super::*;

const START: u64 = 0x1000;

/// What the function with this code tells, among others.
fn told(code: &[u8]) -> Option<ThreadVariable> {
    of_instructions(Decoder::with_ip(64, code, START, DecoderOptions::NONE))
}

#[test]
fn code_tells_the_variable_in_each_way_in_which_compilers_load_one() {
    // mov rax, fs:[-0x28]; ret; with endbr64 in front.
    let of_program = [0xf3, 0x0f, 0x1e, 0xfa, 0x64, 0x48, 0x8b, 0x04, 0x25, 0xd8, 0xff, 0xff, 0xff, 0xc3];
    assert_eq!(told(&of_program), Some(ThreadVariable::At { offset: -0x28 }));
    // mov rax, [rip + 0x100]; mov rax, fs:[rax]; ret
    let by_word = [0x48, 0x8b, 0x05, 0, 1, 0, 0, 0x64, 0x48, 0x8b, 0x00, 0xc3];
    assert_eq!(told(&by_word), Some(ThreadVariable::Told { word: Svma(START + 7 + 0x100) }));
    // sub rsp, 8; data16 lea rdi, [rip + 0x100]; data16 data16 rex.W call; mov rax, [rax + 0x10]; add rsp, 8; ret
    let of_library = [
        0x48, 0x83, 0xec, 0x08, 0x66, 0x48, 0x8d, 0x3d, 0, 1, 0, 0, 0x66, 0x66, 0x48, 0xe8, 0, 2, 0, 0, 0x48,
        0x8b, 0x40, 0x10, 0x48, 0x83, 0xc4, 0x08, 0xc3,
    ];
    assert_eq!(
        told(&of_library),
        Some(ThreadVariable::OfModule { words: Svma(START + 12 + 0x100), more: 0x10 })
    );
    // lea rax, [rip + 0x100]; call [rax]; mov rax, fs:[rax]; ret
    let described = [0x48, 0x8d, 0x05, 0, 1, 0, 0, 0xff, 0x10, 0x64, 0x48, 0x8b, 0x00, 0xc3];
    assert_eq!(told(&described), Some(ThreadVariable::Described { words: Svma(START + 7 + 0x100) }));
}

#[test]
fn other_code_tells_nothing() {
    for code in [
        // No return; a return alone; a jump; a call of something without an address; the thread pointer itself.
        &[0x64, 0x48, 0x8b, 0x04, 0x25, 0xd8, 0xff, 0xff, 0xff][..],
        &[0xc3],
        &[0xe9, 0, 0, 0, 0],
        &[0xe8, 0, 0, 0, 0, 0xc3],
        &[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0xc3],
        &[],
    ] {
        assert_eq!(told(code), None, "{code:x?}");
    }
}
