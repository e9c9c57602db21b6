//! A number of 64 bits for bytes, the same in each run.

/// Any change of one word changes it: each step can be undone. Four chains, since a multiplication takes as long as four.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let mut sums = [1, 2, 3, 4];
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        let words = block.as_chunks().0;
        sums.iter_mut().zip(words).for_each(|(sum, word)| *sum = mix(*sum, u64::from_le_bytes(*word)));
    }
    let rest = rest.iter().map(|byte| u64::from(*byte));
    sums.into_iter().chain(rest).fold(bytes.len() as u64, mix)
}
