/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What a sampled object stands for. An allocator that takes a sample each `rate` bytes on average, at random distances,
 * meets an object of size s with probability 1 - exp(-s / rate). So each that it met stands for s / (1 - exp(-s /
 * rate)) bytes.
 *
 * Numbers are integers with 32 bits behind the point. The error is below 1 in 10,000, for objects of GiBs below 1 in
 * 1,000.
 */
#ifndef PERF_AGENT_SAMPLE_WEIGHT_H
#define PERF_AGENT_SAMPLE_WEIGHT_H

#define ONE_AS_FIXED (1ULL << 32)
/* An object of so many rates is met for certain, as far as that can be told. */
#define CERTAIN_RATES 16

/* exp(-x) for 0 <= x < 16: x is divided by 16, and the result of the series is squared four times. */
static __always_inline u64 exp_of_minus(u64 x)
{
	u64 h = x / CERTAIN_RATES, sum = ONE_AS_FIXED, term = ONE_AS_FIXED;
	u32 i;

	for (i = 1; i <= 8; i++) {
		term = (term * h >> 32) / i;
		sum = i % 2 ? sum - term : sum + term;
	}
	for (i = 0; i < 4; i++)
		sum = sum * sum >> 32;
	return sum;
}

/* The bytes that a sampled object of `size` bytes stands for. */
static __always_inline u64 weight_of(u64 size, u64 rate)
{
	u32 cut = size >> 31 || rate >> 31 ? 20 : 0;
	u64 x, x2, factor;

	if (rate <= 1 || size / CERTAIN_RATES >= rate)
		return size;
	if (!(rate >> cut) || rate >> 47)
		return size; /* unreachable: no allocator has such a rate */
	x = ((size >> cut) << 32) / (rate >> cut);
	if (x >= CERTAIN_RATES * ONE_AS_FIXED)
		return size;
	if (x < ONE_AS_FIXED) {
		/* x / (1 - exp(-x)), as a series: the difference would be too small to be precise. */
		x2 = x * x >> 32;
		factor = ONE_AS_FIXED + x / 2 + x2 / 12 - (x2 * x2 >> 32) / 720;
		return ((rate >> cut) * (factor >> 1) >> 31) << cut;
	}
	return (((size >> cut) << 32) / (ONE_AS_FIXED - exp_of_minus(x))) << cut;
}

#endif
