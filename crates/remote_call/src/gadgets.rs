//! Code that every program has and that leads back from a called function without us: one piece that stores the result, one that restores
//! the registers.

/// `mov $15, %rax; syscall`, the end of every signal handler in the C libraries.
const SIGRETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
/// Words of the stack that the piece behind the store may drop.
const MAX_DROPPED: u64 = 16;

/// Registers that a function keeps for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Rbx,
    Rbp,
    R12,
    R13,
    R14,
    R15,
}

/// Code that stores `%rax` at an address in a kept register, drops words of the stack, and returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Store {
    /// Position of the code.
    pub(crate) at: usize,
    pub(crate) register: Kept,
    /// It stores this far behind the address.
    pub(crate) offset: i8,
    /// Words that are dropped before it returns.
    pub(crate) dropped: u64,
}

/// The ways to write `mov %rax, OFFSET(REGISTER)`: first bytes, register, whether a byte with the offset follows.
const STORES: [(&[u8], Kept, bool); 10] = [
    (&[0x48, 0x89, 0x03], Kept::Rbx, false),
    (&[0x48, 0x89, 0x43], Kept::Rbx, true),
    (&[0x48, 0x89, 0x45], Kept::Rbp, true),
    (&[0x49, 0x89, 0x04, 0x24], Kept::R12, false),
    (&[0x49, 0x89, 0x44, 0x24], Kept::R12, true),
    (&[0x49, 0x89, 0x45], Kept::R13, true),
    (&[0x49, 0x89, 0x06], Kept::R14, false),
    (&[0x49, 0x89, 0x46], Kept::R14, true),
    (&[0x49, 0x89, 0x07], Kept::R15, false),
    (&[0x49, 0x89, 0x47], Kept::R15, true),
];

/// The position of the code that restores registers.
pub(crate) fn sigreturn(code: &[u8]) -> Option<usize> {
    code.windows(SIGRETURN.len()).position(|window| window == SIGRETURN)
}

/// The first code that stores a result and returns.
pub(crate) fn store(code: &[u8]) -> Option<Store> {
    let starts = code.windows(2).enumerate().filter(|(_, pair)| matches!(pair, [0x48 | 0x49, 0x89]));
    starts.into_iter().find_map(|(at, _)| store_at(code, at))
}

fn store_at(code: &[u8], at: usize) -> Option<Store> {
    let rest = code.get(at..)?;
    let (bytes, register, has_offset) = STORES.iter().find(|(bytes, ..)| rest.starts_with(bytes))?;
    let mut rest = rest.get(bytes.len()..)?;
    let mut offset = 0;
    if *has_offset {
        let (first, behind) = rest.split_first()?;
        (offset, rest) = (first.cast_signed(), behind);
    }
    let mut dropped = 0;
    loop {
        rest = match rest {
            [0xc3, ..] => return Some(Store { at, register: *register, offset, dropped }),
            // `add $N, %rsp`
            [0x48, 0x83, 0xc4, bytes, behind @ ..] if bytes % 8 == 0 && *bytes < 0x80 => {
                dropped += u64::from(*bytes) / 8;
                behind
            }
            // `pop` of a register that is kept
            [0x5b | 0x5d, behind @ ..] | [0x41, 0x5c..=0x5f, behind @ ..] => {
                dropped += 1;
                behind
            }
            _ => return None,
        };
        if dropped > MAX_DROPPED {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_stores_and_returns_is_found() {
        let found = |code: &[u8]| store(&[&[0x90, 0x48, 0x89], code].concat());
        let simple = found(&[0x48, 0x89, 0x03, 0x5b, 0xc3]);
        assert_eq!(simple, Some(Store { at: 3, register: Kept::Rbx, offset: 0, dropped: 1 }));
        let larger = found(&[0x49, 0x89, 0x44, 0x24, 0xf8, 0x48, 0x83, 0xc4, 0x18, 0x5d, 0x41, 0x5c, 0xc3]);
        assert_eq!(larger, Some(Store { at: 3, register: Kept::R12, offset: -8, dropped: 5 }));
        for other in [
            &[0x48, 0x89, 0x03, 0x5b][..],
            &[0x48, 0x89, 0x03, 0x90, 0xc3],
            &[0x48, 0x89, 0x5d, 0x00, 0xc3],
            &[0x48, 0x89, 0x03, 0x48, 0x83, 0xc4, 0x81, 0xc3],
            &[0x48, 0x89, 0x03, 0x48, 0x83, 0xc4, 0x0c, 0xc3],
            &[],
        ] {
            assert_eq!(found(other), None, "{other:x?}");
        }
        let pops = [&[0x48, 0x89, 0x03][..], &[0x5b; 40], &[0xc3]].concat();
        assert_eq!(found(&pops), None);
    }

    #[test]
    fn the_c_library_has_both() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let library = maps
            .lines()
            .find_map(|line| line.split(' ').next_back().filter(|path| path.contains("/libc.so")));
        let Some(library) = library else { testkit::skip!("the C library is not a file") };
        let code = std::fs::read(library).unwrap();
        assert!(sigreturn(&code).is_some() && store(&code).is_some());
    }
}
