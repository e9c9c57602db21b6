/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Records of process life: fork, exec, exit and names of recorded processes (of all processes while the whole system
 * is recorded). They go through the same ring as stacks, so user space sees a process before its first stack.
 * Records that do not fit are counted; then user space reads /proc again.
 */
#ifndef PERF_AGENT_LIFE_H
#define PERF_AGENT_LIFE_H

#include "task.h"

/* When a process was last renamed with a record. */
struct rename_window {
	u64 since;
	u64 looks; /* not 0: user space has been asked to read the name when the window ends */
};

/* If an entry is evicted too early, one more record is sent. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct rename_window);
} rename_windows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct life_counts);
} life_counts SEC(".maps");

/* Sends a record. `comm`: kernel address of the name. Returns false if the record is lost, and counts it. */
static __noinline int send_life(u32 event, u32 pid, u32 parent, u64 time, const char *comm)
{
	struct life life = {.kind = MESSAGE_LIFE, .event = event, .pid = pid, .parent = parent, .time = time};
	struct life_counts *counts;
	u32 zero = 0;

	bpf_probe_read_kernel_str(life.comm, sizeof(life.comm), comm);
	if (!bpf_ringbuf_output(&ring, &life, sizeof(life), BPF_RB_NO_WAKEUP))
		return true;
	counts = bpf_map_lookup_elem(&life_counts, &zero);
	if (counts)
		__sync_fetch_and_add(&counts->lost, 1);
	return false;
}

static __always_inline bool same_name(struct task_struct *task, const char *comm)
{
	u64 before[COMM_LEN / 8] = {}, after[COMM_LEN / 8] = {};

	bpf_probe_read_kernel_str(before, sizeof(before), &task->comm);
	bpf_probe_read_kernel_str(after, sizeof(after), comm);
	return before[0] == after[0] && before[1] == after[1];
}

/* Counts a name that is not sent. No sample shows it, unless it is still the name when user space reads it. */
static __always_inline void skip_name(struct rename_window *window, u32 pid, u64 now)
{
	struct life_counts *counts;
	u32 zero = 0;

	counts = bpf_map_lookup_elem(&life_counts, &zero);
	if (counts)
		__sync_fetch_and_add(&counts->names_skipped, 1);
	if (!window->looks)
		window->looks = send_life(LIFE_LOOK_AGAIN, pid, 0, window->since + RENAME_WINDOW_NS, NULL);
}

/*
 * Reports the new name of a recorded process. Without a limit, a process that renames itself in a loop would fill the
 * ring. So the first name of a window is sent, and at the second name user space is asked to read the name when the
 * window ends. The window that follows directly sends no name, only another request to read: user space gets at most
 * one name for each window. Every name after the end of a window opens the next window, so user space always learns the
 * last name.
 */
static __always_inline void tell_name(u32 pid, const char *comm)
{
	struct rename_window *window = bpf_map_lookup_elem(&rename_windows, &pid), first = {};
	u64 now = bpf_ktime_get_ns();

	if (!window) {
		first.since = now;
		if (send_life(LIFE_RENAME, pid, 0, now, comm))
			bpf_map_update_elem(&rename_windows, &pid, &first, BPF_ANY);
		return;
	}
	if (now < window->since + RENAME_WINDOW_NS) {
		skip_name(window, pid, now);
	} else if (window->looks && now < window->since + 2 * RENAME_WINDOW_NS) {
		window->since = now;
		window->looks = 0;
		skip_name(window, pid, now);
	} else if (send_life(LIFE_RENAME, pid, 0, now, comm)) {
		window->since = now;
		window->looks = 0;
	}
}

static __always_inline void forget_names(u32 pid)
{
	bpf_map_delete_elem(&rename_windows, &pid);
}

#endif
