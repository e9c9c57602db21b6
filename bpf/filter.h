/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Filters of samples: only of chosen threads, only of one control group. A sample that a filter leaves out is none of
 * ours: it is not counted. Without filters all of this is dead code that the kernel drops.
 */
#ifndef PERF_AGENT_FILTER_H
#define PERF_AGENT_FILTER_H

#include "task.h"

/* By number in the agent's PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} chosen_threads SEC(".maps");

#define MAX_CGROUP_LEVELS 32

static __always_inline bool has_filters(void)
{
	return chooses_threads || chosen_cgroup;
}

/* The same as below for older kernels. Functions of their own: otherwise the compiler would compute the place of a
 * field before the check whether this kernel has it. */
static __noinline u64 id_before_6_1(struct cgroup *group, u32 level)
{
	struct cgroup___before_6_1 *older = (void *)group;
	u64 id = 0;

	bpf_core_read(&id, sizeof(id), &older->ancestor_ids[level]);
	return id;
}

static __noinline u64 id_since_6_1(struct cgroup *group, u32 level)
{
	struct cgroup *ancestor = NULL;

	bpf_core_read(&ancestor, sizeof(ancestor), &group->ancestors[level]);
	return BPF_CORE_READ(ancestor, kn, id);
}

/* The id of the control group at a level above a group, or of the group itself at its own level. */
static __always_inline u64 id_at_level(struct cgroup *group, u32 level)
{
	if (bpf_core_field_exists(group->ancestors))
		return id_since_6_1(group, level);
	return id_before_6_1(group, level);
}

/* Whether a task is in the chosen control group or below it, in the hierarchy of version 2. */
static __always_inline bool is_in_chosen_cgroup(struct task_struct *task)
{
	struct cgroup *group = BPF_CORE_READ(task, cgroups, dfl_cgrp);
	u32 own = BPF_CORE_READ(group, level), level = chosen_first_level, i;

	for (i = 0; i < MAX_CGROUP_LEVELS; i++, level++) {
		if (level > own || level > chosen_last_level)
			break;
		if (id_at_level(group, level) == chosen_cgroup)
			return true;
	}
	return false;
}

/* Whether the filters let the samples of a thread pass. A function of its own, because it is rarely needed. */
static __noinline int passes_filters(struct task_struct *task, u32 tid)
{
	if (chooses_threads && !bpf_map_lookup_elem(&chosen_threads, &tid))
		return false;
	return !chosen_cgroup || is_in_chosen_cgroup(task);
}

#endif
