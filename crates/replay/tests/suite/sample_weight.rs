//! What a sampled object stands for, beside floating-point numbers.

use replay::sample_weight;

#[test]
fn a_sample_stands_for_what_its_probability_says() {
    for rate in [2u64, 100, 4096, 512 << 10, 512 << 10 | 1, 1 << 30, (1 << 31) + 5, 1 << 40, 1 << 46] {
        let ratios =
            [0.0, 1e-9, 1e-6, 1e-5, 1e-3, 0.1, 0.5, 0.999, 1.0, 1.001, 2.0, 5.0, 10.0, 15.9, 16.0, 17.0, 1e4];
        for size in ratios.map(|ratio| (rate as f64 * ratio) as u64).into_iter().chain([1, 8, 16, 48, 1024]) {
            let share = size as f64 / rate as f64;
            let wanted = if size == 0 { rate as f64 } else { size as f64 / -(-share).exp_m1() };
            let weight = sample_weight(size, rate) as f64;
            // Whole bytes; and of large sizes, whole MiB.
            let (error, whole) = if size >> 31 > 0 || rate >> 31 > 0 { (1e-3, 1 << 20) } else { (1e-4, 1) };
            assert!(
                (weight - wanted).abs() <= error * wanted + f64::from(whole),
                "{size} of {rate}: {weight}, not {wanted}"
            );
        }
    }
}

#[test]
fn without_a_rate_it_stands_for_itself() {
    for size in [0, 1, 77, 1 << 40, u64::MAX] {
        assert_eq!((sample_weight(size, 0), sample_weight(size, 1)), (size, size));
    }
    // What no allocator says does no harm.
    let _ = (sample_weight(u64::MAX, u64::MAX), sample_weight(1, u64::MAX), sample_weight(u64::MAX, 2));
}
