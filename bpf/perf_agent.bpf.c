// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* The one BPF object: the entry points are in the headers, one for each topic; see ARCHITECTURE.md. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "arch.h"
#include "thread_iter.h"
#include "cpu.h"
#include "probe.h"
#include "heap_samples.h"
#include "sched.h"
#include "wakers.h"
#include "kernel_locks.h"
#include "go_locks.h"

/* Makes the compiler keep the types that Rust reads from the object's BTF. */
struct abi {
	enum cfa_kind cfa;
	enum ra_kind ra;
	enum fp_kind fp;
	enum mapping_kind mapping_kind;
	enum walk_end end;
	enum counter counter;
	enum message_kind message_kind;
	enum off_state off_state;
	enum event event;
	enum fold fold;
	enum event_schema event_schema;
	struct rule rule;
	struct page_table page_table;
	struct page_entry page_entry;
	struct mapping mapping;
	struct proc proc;
	struct message message;
	enum section_kind section_kind;
	struct section section;
	struct raw_registers raw_registers;
	struct raw_stack raw_stack;
	struct sampled_at sampled_at;
	struct interpreted_frame interpreted_frame;
	struct linked_stack linked_stack;
	enum stack_role stack_role;
	enum interpreted_marks interpreted_marks;
	enum section_limit section_limit;
	enum python_end python_end;
	struct python python;
	struct python_code python_code;
	enum value_limit value_limit;
	struct total total;
	struct woken woken;
	struct lock_wait lock_wait;
	enum lock_kind lock_kind;
	struct life life;
	struct life_counts life_counts;
	enum life_event life_event;
	struct thread thread;
	struct seam_record seam_record;
	struct pending_counts pending_counts;
	struct sampler_state sampler_state;
	enum control_word control_word;
	enum sampler_context sampler_context;
	struct schedule schedule;
	struct process_cpu process_cpu;
	struct process_schedule process_schedule;
	struct process_bucket process_bucket;
	struct event_count event_count;
	struct process_event process_event;
	struct counters counters;
	enum value_base value_base;
	enum value_step_limit value_step_limit;
	struct value_plan value_plan;
	enum heap_count heap_count;
	struct heap_counts heap_counts;
	struct object_id object_id;
	struct object object;
	struct heap_site heap_site;
	enum heap_site_limit heap_site_limit;
} abi = {};

char LICENSE[] SEC("license") = "GPL";
