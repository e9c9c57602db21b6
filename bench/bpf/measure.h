/* SPDX-License-Identifier: GPL-2.0 */
/* The parts of the BPF interface that the measuring programs use. */
#define SEC(name) __attribute__((section(name), used))
typedef unsigned int u32;
typedef unsigned long long u64;

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static long (*bpf_get_stack)(void *ctx, void *buffer, u32 size, u64 flags) = (void *)67;

#define PERCPU_ARRAY 6
#define USER_STACK (1ULL << 8)

char LICENSE[] SEC("license") = "GPL";
