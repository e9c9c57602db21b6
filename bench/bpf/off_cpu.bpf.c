// SPDX-License-Identifier: GPL-2.0
/*
 * A minimal tracer of off-CPU time that walks frame pointers. When a thread of the process leaves its CPU, it puts the
 * user stack into a stack map and the time into a hash map. When the thread comes back, it adds the elapsed time to the
 * sum of that stack. bcc's offcputime does the same and takes the kernel stack too.
 */
#include "measure.h"

#define HASH 1
#define STACK_TRACE 7
#define MOST_FRAMES 127
#define ANY 0

static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*bpf_get_current_comm)(void *buffer, u32 size) = (void *)16;
static long (*bpf_get_stackid)(void *ctx, void *map, u64 flags) = (void *)27;

struct key {
	u32 pid;
	u32 tgid;
	int stack;
	char name[16];
};

struct begun {
	u64 at;
	struct key key;
};

struct {
	int (*type)[STACK_TRACE];
	int (*key_size)[4];
	int (*value_size)[MOST_FRAMES * 8];
	int (*max_entries)[16384];
} stacks SEC(".maps");

struct {
	int (*type)[HASH];
	u32 *key;
	struct begun *value;
	int (*max_entries)[10240];
} begun SEC(".maps");

struct {
	int (*type)[HASH];
	struct key *key;
	u64 *value;
	int (*max_entries)[10240];
} totals SEC(".maps");

/* Set before loading: the process; 0 stands for all. */
const volatile u32 wanted = 0;

struct task_struct {
	int pid;
	int tgid;
} __attribute__((preserve_access_index));

static inline void leaves(void *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	struct begun entry = {};

	entry.key.pid = (u32)id;
	entry.key.tgid = id >> 32;
	if (!entry.key.pid || (wanted && entry.key.tgid != wanted))
		return;
	entry.key.stack = bpf_get_stackid(ctx, &stacks, USER_STACK);
	bpf_get_current_comm(entry.key.name, sizeof(entry.key.name));
	entry.at = bpf_ktime_get_ns();
	bpf_map_update_elem(&begun, &entry.key.pid, &entry, ANY);
}

static inline void returns(u32 pid)
{
	struct begun *entry = bpf_map_lookup_elem(&begun, &pid);
	if (!entry)
		return;
	u64 elapsed = bpf_ktime_get_ns() - entry->at;
	struct key key = entry->key;
	bpf_map_delete_elem(&begun, &pid);
	u64 *sum = bpf_map_lookup_elem(&totals, &key);
	if (sum)
		__sync_fetch_and_add(sum, elapsed);
	else
		bpf_map_update_elem(&totals, &key, &elapsed, ANY);
}

SEC("tp_btf/sched_switch")
int off_cpu(u64 *ctx)
{
	struct task_struct *next = (struct task_struct *)ctx[2];

	leaves(ctx);
	returns(next->pid);
	return 0;
}
