/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Kernel types, with the fields that the programs use. libbpf finds the offsets of the fields in the BTF of the running
 * kernel. A full dump of kernel types would be thirty times the size of the object and change with each kernel.
 */
#ifndef PERF_AGENT_KERNEL_H
#define PERF_AGENT_KERNEL_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

/* include/uapi/linux/bpf.h */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum bpf_func_id {
	BPF_FUNC_get_task_stack = 141,
	BPF_FUNC_task_pt_regs = 175,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
};

enum {
	BPF_F_MMAPABLE = 1U << 10,
};

/* include/uapi/asm-generic/errno-base.h */
#define ENOENT 2
#define E2BIG 7
#define EEXIST 17

enum {
	BPF_RB_NO_WAKEUP = 1,
};

enum {
	BPF_F_NO_PREALLOC = 1U << 0,
};

enum {
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1U << 0,
};

enum {
	BPF_RB_AVAIL_DATA = 0,
	BPF_RB_RING_SIZE = 1,
};

/* include/linux/sched.h */
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_DEAD 0x80
#define TASK_NOLOAD 0x400

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[];
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct mm_struct {
	unsigned long start_stack;
};

/* The queue of a CPU. */
struct rq {
	struct task_struct *curr;
};

/* With CONFIG_FAIR_GROUP_SCHED. */
struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
	int level;
	struct cgroup *ancestors[];
};

struct cgroup___before_6_1 {
	int level;
	u64 ancestor_ids[];
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	/* Kernels have an int or, as 7.3, a u8: libbpf loads a field of another size only if both are unsigned. */
	unsigned int on_cpu;
	struct sched_entity se;
	int exit_state;
	int pid;
	int tgid;
	unsigned in_execve : 1;
	u64 self_exec_id;
	unsigned long nvcsw;
	unsigned long nivcsw;
	void *stack;
	struct mm_struct *mm;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	u64 start_time;
	struct pid *thread_pid;
	struct signal_struct *signal;
	struct css_set *cgroups;
	char comm[16];
};

/* Before 5.14. */
struct task_struct___before_5_14 {
	long state;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

/*
 * Since 5.18 the tracepoint has the state of the thread as a parameter, because another CPU may change it meanwhile.
 * libbpf compares the parameters.
 */
typedef void (*btf_trace_sched_switch___since_5_18)(void *, bool, struct task_struct *, struct task_struct *,
						    unsigned int);

#pragma clang attribute pop

struct bpf_perf_event_data;

#endif
