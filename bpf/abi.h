/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Everything that crosses the border between the BPF programs and user space: one source, read by C here and by
 * Rust through the types in the skeleton (crates/kernel) and size assertions on both sides.
 */
#ifndef PERF_AGENT_ABI_H
#define PERF_AGENT_ABI_H

/* ---- the processor, also where this is compiled natively ---- */

#if defined(__TARGET_ARCH_arm64) || defined(__aarch64__)
#define DWARF_REGISTERS 32 /* x0 to x30, sp */
#define LINK_REGISTER 30   /* its DWARF number: where a function finds its return address */
/* Above are bits of pointer authentication; code lies no higher unless a program asks for it (52-bit addresses). */
#define USER_ADDRESS_BITS 48
#else
#define DWARF_REGISTERS 16
#define USER_ADDRESS_BITS 57
#endif

/* ---- sizes ---- */

#define MAX_USER_FRAMES 512
#define MAX_KERNEL_FRAMES 127
#define MAX_RULES 32768
#define COMM_LEN 16

/* The table pool: memory that both sides address by 32-bit word numbers, in chunks made on demand. */
#define CHUNK_WORDS_SHIFT 14
#define CHUNK_WORDS (1 << CHUNK_WORDS_SHIFT)
#define CHUNK_BYTES (CHUNK_WORDS * 4)
#define MAX_CHUNKS 4096

/* Text is cut into pages of this size for the row tables; not the page size of the machine. */
#define TEXT_PAGE_SHIFT 16

/* ---- unwind tables ---- */

enum cfa_kind {
	CFA_NONE = 0,	     /* gap: no unwind information here */
	CFA_SP = 1,	     /* sp + cfa_off */
	CFA_FP = 2,	     /* fp + cfa_off */
	CFA_REG = 3,	     /* register (flags & RULE_REG) + cfa_off, innermost frame only */
	CFA_SP_DEREF = 4,    /* *(sp + cfa_off) + cfa_add */
	CFA_FP_DEREF = 5,    /* *(fp + cfa_off) + cfa_add */
	CFA_PLT = 6,	     /* sp + cfa_off + (((pc & 15) >= cfa_add) << 3) */
	CFA_UNSUPPORTED = 7, /* a row, but one that the walker does not evaluate */
};

enum ra_kind {
	RA_CFA = 0,	  /* *(CFA + ra_off) */
	RA_SP = 1,	  /* *(sp + ra_off) */
	RA_UNDEFINED = 2, /* outermost frame */
	RA_FP = 3,	  /* *(fp + ra_off) */
	RA_REG = 4,	  /* in the register with DWARF number ra_off, innermost frame only */
};

enum fp_kind {
	FP_SAME = 0,
	FP_CFA = 1,	  /* *(CFA + fp_off) */
	FP_SP = 2,	  /* *(sp + fp_off) */
	FP_FP = 3,	  /* *(fp + fp_off) */
	FP_UNDEFINED = 4, /* lost; becomes 0 */
};

#define RULE_SIGNAL 0x80 /* signal trampoline: the caller was interrupted, its pc is exact */
#define RULE_REG 0x1f	 /* DWARF number of the register of CFA_REG */

/* How to get from a frame to its caller. */
struct rule {
	unsigned char cfa;
	unsigned char ra;
	unsigned char fp;
	unsigned char flags;
	int cfa_off;
	short cfa_add;
	short ra_off;
	int fp_off;
};

/* In front of a file's page entries, 2-word aligned in the table pool. */
struct page_table {
	unsigned int first_page; /* link-time address >> TEXT_PAGE_SHIFT of the first entry */
	unsigned int pages;	 /* number of entries that follow */
};

/* One text page: its rows, `offset | rule << 16` each, sorted; they never straddle a chunk. */
struct page_entry {
	unsigned int rows;
	unsigned int count;
};

/* ---- processes ---- */

enum mapping_kind {
	MAPPING_TABLE = 0,     /* `table` is the address in the table pool of a page_table */
	MAPPING_FP = 1,	       /* no unwind information: frame pointers */
	MAPPING_NOT_READY = 2, /* the table is being made */
};

/* An executable mapping; 8-word aligned in the table pool, sorted by start within a process. */
struct mapping {
	unsigned long long start; /* first address in the process */
	unsigned long long end;	  /* first address after it */
	unsigned long long bias;  /* address in the process - link-time address */
	unsigned int table;
	unsigned int kind;
};

#define PROC_NEW 1		   /* mappings not known yet */
#define PROC_ASKED 2		   /* user space has been asked to read the mappings again */
#define PROC_WAKER 4		   /* not recorded: known for its wake-ups of recorded threads only */
#define PROC_OTHER_KERNEL_STACKS 8 /* kernel frames are taken if they are not by default, or the other way round */
#define PROC_KEPT_BY_EXEC (PROC_WAKER | PROC_OTHER_KERNEL_STACKS)

/*
 * So many stacks of a process cross as they are until user space enters its mappings anew: enough for the moments
 * after an exec or a dlopen, and a bound for a process whose code lies in no mapping at all.
 */
#define MAX_DEFERRED 128

/* What the programs know of a process that is recorded. */
struct proc {
	unsigned int mappings; /* address in the table pool */
	unsigned int count;
	unsigned int generation; /* changes with the mappings and with their tables */
	unsigned short flags;
	unsigned short deferred; /* stacks that crossed as they are since the mappings were entered */
	unsigned long long
	    exec_id; /* a time, CLOCK_MONOTONIC: changes with exec and with the name, tells equal pids apart */
};

/* ---- results ---- */

enum walk_end {
	WALK_ROOT = 0,
	WALK_NO_MAPPING = 1,
	WALK_NO_ROW = 2,
	WALK_UNSUPPORTED_RULE = 3,
	WALK_FP_CHAIN = 4,
	WALK_FAULT = 5,
	WALK_FRAME_LIMIT = 6,
	WALK_TABLE_NOT_READY = 7,
	WALK_NO_REGISTERS = 8,
	WALK_NONE = 9,	   /* not a walk: a thread of the kernel's, also one inside of a process, as for io_uring */
	WALK_EXITING = 10, /* not a walk: a thread that has given back its memory on its way out or to a new program */
	WALK_ENDS = 11,
};

/* ---- statistics of the scheduler ---- */

/* Histograms of durations in ns: 64 buckets for each power of two, from 2^42 ns on one for all;
 * crates/metrics/src/bucket.rs. */
#define HISTOGRAM_SUB_SHIFT 6
#define HISTOGRAM_LIMIT_SHIFT 42
#define HISTOGRAM_BUCKETS (((HISTOGRAM_LIMIT_SHIFT - HISTOGRAM_SUB_SHIFT + 1) << HISTOGRAM_SUB_SHIFT) + 1)

struct durations {
	unsigned long long count;
	unsigned long long sum;
	unsigned long long min;
	unsigned long long max;
};

struct histogram {
	struct durations durations;
	unsigned long long buckets[HISTOGRAM_BUCKETS];
};

/* Of all followed threads, on one CPU. */
struct schedule {
	struct histogram on_cpu;
	struct histogram runqueue;
	unsigned long long switches[4]; /* by enum off_state; the end of a thread as OFF_BLOCKED */
	unsigned long long migrations;
	unsigned long long on_cpu_ns; /* also of slices whose begin was not seen */
};

/* In front of each key by process: when it began, CLOCK_MONOTONIC, which tells those apart that have had one number. */
struct process_cpu {
	unsigned long long start;
	unsigned int pid;
	unsigned int cpu;
};

/* Of one process, on one CPU. */
struct process_schedule {
	struct durations on_cpu;
	struct durations runqueue;
	unsigned long long switches[4];
	unsigned long long migrations;
	unsigned long long on_cpu_ns;
};

/* A reading of an event: struct bpf_perf_event_value of include/uapi/linux/bpf.h. */
struct event_count {
	unsigned long long value;
	unsigned long long enabled_ns;
	unsigned long long running_ns;
};

#define MAX_SPLIT_EVENTS 8

struct split_counts {
	struct event_count at[MAX_SPLIT_EVENTS];
};

struct process_event {
	unsigned long long start;
	unsigned int pid;
	unsigned int event;
};

#define DURATION_ON_CPU 0
#define DURATION_RUNQUEUE 1

struct process_bucket {
	unsigned long long start;
	unsigned int pid;
	unsigned short kind;
	unsigned short bucket;
};

enum counter {
	COUNT_SKIPPED_MIN_BLOCK_NS = 0, /* time of the off-CPU intervals that were too short to be recorded */
	COUNT_LOST_RING_FULL = 1,	/* an unseen stack did not fit into the ring */
	COUNT_LOST_MAP_FULL = 2,	/* no room for one more distinct stack */
	COUNT_LOST_NO_MEMORY = 3,	/* no state for this CPU or process */
	COUNT_OUTSIDE_NAMESPACE = 4,
	COUNT_DEFERRED = 5, /* samples whose stack crossed as it is, to be walked in user space */
	COUNT_MEMO_CHECKED = 6,
	COUNT_MEMO_DIFFERED = 7,
	COUNT_SKIPPED_MIN_BLOCK = 8, /* and their number */
	COUNT_STACKS_SENT = 9,
	COUNT_REQUESTS_LOST = 10, /* requests to user space that did not fit into the ring */
	COUNT_PROCS_LOST = 11,	  /* processes that could not be followed: table full */
	/* Those that each sample adds to stand together. */
	COUNT_MEMO_HITS = 12,
	COUNT_FRAMES_WALKED = 13, /* of COUNT_FRAMES: not taken from a memo */
	COUNT_FRAMES = 14,	  /* user frames of all walks */
	COUNT_SAMPLES = 15,	  /* recorded */
	COUNT_WALKS = 16,	  /* + enum walk_end */
	COUNT_THREADS_LOST = 27,  /* threads that could not be followed */
	COUNT_WAKERS_LOST = 28,	  /* intervals recorded without who ended them */
	COUNT_LIFETIME_NS = 29,	  /* time that ended threads lived inside the capture */
	COUNT_LOST_UNSEEN = 30,	  /* intervals whose begin the kernel did not report */
	COUNT_SWITCHES_LOST = 31, /* statistics of a process for which there was no room */
	COUNT_LOST_BUSY = 32,	  /* a table could not be changed in that moment: its lock was held */
	COUNT_CAME_UNSEEN = 33,	  /* slices, and the waits before, whose begin the kernel did not report */
	COUNT_READS_FAILED = 34,  /* counters of events that could not be read at a switch */
	COUNT_SEAMS_LOST = 40,	  /* threads of which there was no room for a seam record */
	COUNT_SINGLES_LOST = 41,  /* single samples that did not fit into the ring; they are in the sums */
	COUNTERS = 64,
};

struct counters {
	unsigned long long at[COUNTERS];
};

/* Marks in the top bits of a user frame. */
#define FRAME_EXACT (1ULL << 63) /* look this pc up as it is, not at pc - 1 */
#define FRAME_BY_FP (1ULL << 62) /* its caller was found by frame pointer */
#define FRAME_PC ((1ULL << USER_ADDRESS_BITS) - 1)

enum message_kind {
	MESSAGE_STACK = 1,
	MESSAGE_PROC = 2,	  /* please read the mappings of this process */
	MESSAGE_RAW = 3,	  /* a stack that could not be walked yet; an iterator gives only its registers */
	MESSAGE_WOKEN = 4,	  /* what was blocked and who ended it: see struct woken */
	MESSAGE_STILL_ASLEEP = 5, /* the thread has not run since its stack was asked for */
	MESSAGE_LIFE = 6,	  /* what happened to a process: see struct life */
	MESSAGE_SAMPLE = 7, /* one sample of the stack under `hash`, which is known; only where that is asked for */
};

/* What a thread does while it is not on a CPU. */
enum off_state {
	OFF_NONE = 0, /* it is on a CPU */
	OFF_BLOCKED = 1,
	OFF_IOWAIT = 2,	   /* uninterruptible sleep that adds to load */
	OFF_PREEMPTED = 3, /* runnable */
	OFF_STATES = 4,
};

/* As the state of a stack: its sums are of time on a CPU, for a wall-clock profile; of the waker of a thread. */
#define STATE_ON_CPU 4
#define STATE_WAKER 5
/* The same; the kernel's part of the stack tells whether it was an interrupt or work put off in a system call. */
#define STATE_WAKER_IN_SOFTIRQ 6
/* As OFF_PREEMPTED: from the making of a thread to its first moment on a CPU. */
#define STATE_NOT_RUN_YET 7

/* What the sums of a key are counted by. */
enum event {
	EVENT_CLOCK = 0,     /* samples of the clock */
	EVENT_SCHEDULER = 1, /* switches of threads */
	EVENTS = 2,
};

/* How the values of several occurrences become one. */
enum fold {
	FOLD_NONE = 0, /* the event has no such value */
	FOLD_SUM = 1,
	FOLD_SQUARES = 2, /* the sum of the squares; it wraps around, so values must be small enough */
	FOLD_MAX = 3,	  /* the largest; of two CPUs at the same moment, the larger one may be missed */
};

#define SCHEMA_SHIFT 4
#define SCHEMA(first, second, third) ((first) | (second) << SCHEMA_SHIFT | (third) << 2 * SCHEMA_SHIFT)

/*
 * What the sums of a key hold, by event: how each slot folds. The first slot is always the number of occurrences. Names
 * and units are in crates/recording/src/event.rs.
 */
enum event_schema {
	SCHEMA_CLOCK = SCHEMA(FOLD_SUM, FOLD_NONE, FOLD_NONE),	 /* samples, each of a period */
	SCHEMA_SCHEDULER = SCHEMA(FOLD_SUM, FOLD_SUM, FOLD_SUM), /* intervals, their time, of it the time runnable */
	SCHEMA_TEST = SCHEMA(FOLD_SUM, FOLD_SQUARES, FOLD_MAX),	 /* of no event: for tests */
};

/* The low byte of every key of sums: what they are sums of. The rest is a hash. */
#define KEY_STATE 0x0fULL
#define KEY_EVENT_SHIFT 4
#define KEY_KIND 0xffULL

/* The head of a message; sections follow. */
struct message {
	unsigned int kind;
	unsigned int pid;
	unsigned int tid;
	unsigned int end; /* enum walk_end */
	unsigned long long hash;
	unsigned long long exec_id;
	unsigned int bytes;	 /* of all sections, with their heads */
	unsigned short state;	 /* enum off_state, or one of the numbers after it */
	unsigned short event;	 /* enum event */
	char thread[COMM_LEN];	 /* the thread's name */
	unsigned long long time; /* of a stack: when it was taken, CLOCK_MONOTONIC */
};

/* User space skips sections of kinds that it does not know. */
enum section_kind {
	SECTION_KERNEL_FRAMES = 1,	/* 8 bytes a frame, leaf first */
	SECTION_NATIVE_FRAMES = 2,	/* user frames, 8 bytes each, root first */
	SECTION_REGISTERS = 3,		/* struct raw_registers */
	SECTION_STACK = 4,		/* struct raw_stack and the bytes of the user stack */
	SECTION_WOKEN = 5,		/* struct woken */
	SECTION_INTERPRETED_FRAMES = 6, /* struct interpreted_frame each, innermost first */
	SECTION_OBJECT = 7,		/* 8 bytes: the address of what it happened to, as of a lock */
	SECTION_VALUES = 8,		/* 8 bytes a value, by the schema of the event */
	SECTION_LINKED_STACKS = 9,	/* struct linked_stack each */
	SECTION_TIME_BIN = 10,		/* 8 bytes: the number of the time bin, where counts are split by time */
	SECTION_SAMPLED_AT = 11,	/* struct sampled_at */
};

/* The head of a section. */
struct section {
	unsigned short kind;
	unsigned short count; /* of its items, where it has items; there may be room for more */
	unsigned int bytes;   /* after the head, a multiple of 8 but for the last section */
};

#define RAW_STACK_BYTES (60 * 1024)
/* Below its stack pointer a function may keep registers, and epilogues leave there what they have popped (psABI). */
#define RED_ZONE 128
/* So many unreadable pages in a row are taken for the end of the stack. */
#define RAW_STACK_END 4

/* The user registers of a stack that crosses as it is, by DWARF number, and the pc. */
struct raw_registers {
	unsigned long long at[DWARF_REGISTERS];
	unsigned long long pc;
};

/* Where one sample was taken, and the side that its sum is on, as CONTROL_SIDE_CHANGES counts them. */
struct sampled_at {
	unsigned int cpu;
	unsigned int side_changes;
};

/* A frame of an interpreter. */
struct interpreted_frame {
	unsigned long long code;  /* address of the code object in the process */
	unsigned int instruction; /* its index in the code object, in units of the interpreter */
	unsigned int marks;
};

/* The marks: the lowest bit, and the other 31. */
enum interpreted_marks {
	INTERPRETED_OUTERMOST = 1,   /* the first frame of a call of the interpreter */
	INTERPRETED_STAMP_SHIFT = 1, /* a number that tells code objects apart that have had one address */
};

/* What a further stack has to do with the stack of a message. */
enum stack_role {
	ROLE_WAKER = 1, /* it ended the wait */
	ROLE_OWNER = 2, /* it held what was waited for */
};

struct linked_stack {
	unsigned long long key; /* of the further stack */
	unsigned int role;	/* enum stack_role */
	unsigned int pad;
};

/* Items of sections. User space refuses messages with more. */
enum section_limit {
	MAX_INTERPRETED_FRAMES = 512,
	MAX_LINKED_STACKS = 4,
	VALUE_SLOTS = 3, /* values of an event */
};

/* In front of the bytes of the user stack from its red zone on, as far as it was readable. */
struct raw_stack {
	/* Bit n: the nth piece of the stack, each ending with a page, was not readable: a page never touched. */
	unsigned long long holes;
};

/* The sums of a key: values by the schema of its event. */
struct total {
	unsigned long long values[VALUE_SLOTS];
};

/* As the second value of a sum with count 0: an interval with a key of its own will not be recorded. */
#define SUMS_END 1

/* So many samples of one stack on one CPU, which are still to be added to the sums of the stack. */
struct pending_count {
	unsigned long long key; /* 0: none; its sums are entered in the table */
	unsigned long long count;
};

#define PENDING_COUNTS_SHIFT 6

struct pending_counts {
	struct pending_count at[1 << PENDING_COUNTS_SHIFT];
};

/* ---- process life ---- */

/* A process may take one name in such a time; see life.h. */
#define RENAME_WINDOW_NS 100000000ULL

enum life_event {
	LIFE_FORK = 1,	     /* `time` is the exec_id of the child */
	LIFE_EXEC = 2,	     /* `time` is the new exec_id */
	LIFE_EXIT = 3,	     /* the last thread of the process has ended */
	LIFE_RENAME = 4,     /* the process has this name from now on */
	LIFE_LOOK_AGAIN = 5, /* read the name of the process at `time` or later: names until then are not told */
};

struct life {
	unsigned int kind;  /* MESSAGE_LIFE */
	unsigned int event; /* enum life_event */
	unsigned int pid;
	unsigned int parent;	 /* of LIFE_FORK: the process that forked */
	unsigned long long time; /* CLOCK_MONOTONIC */
	char comm[COMM_LEN];	 /* the name of the process; of LIFE_LOOK_AGAIN: none */
};

struct life_counts {
	unsigned long long lost;	  /* records that did not fit into the ring */
	unsigned long long names_skipped; /* names that were not told because they came too fast */
};

/*
 * Words that user space and the programs share; each is written by one of the two alone. There are two sides of sums,
 * counters and pending counts: the programs add to one while user space empties the other. At a seam, user space takes
 * what was added so far and changes the side; it also does that between seams, when a side is half full.
 */
enum control_word {
	CONTROL_CHANGED_BY_PROGRAMS = 0,   /* how often they changed `procs` */
	CONTROL_CHANGED_BY_USER_SPACE = 1, /* the same */
	CONTROL_SIDE_CHANGES = 2,	   /* how often the side was changed; the last bit names the one in use */
	/*
	 * By side: the last seam before the side was in use. The next seam is written to the other side shortly before
	 * its time. CLOCK_MONOTONIC; 0: there was none.
	 */
	CONTROL_SEAM_NS = 3,
	CONTROL_PREVIOUS_SEAM_NS = 5,
	CONTROL_GATHERED_SEAM_NS = 7, /* the seam whose records user space gathers now; 0: none */
	CONTROL_STATS_CHANGES = 8,    /* as CONTROL_SIDE_CHANGES, of the statistics of processes */
	/* Begin and end of the following of threads, CLOCK_MONOTONIC; 0: not yet. */
	CONTROL_FOLLOWED_FROM_NS = 9,
	CONTROL_FOLLOWED_TO_NS = 10,
	CONTROL_WORDS = 11,
};

/*
 * A thread at a seam: what of its stretch on or off a CPU, and of its life, lies before the seam and has not been
 * accounted at an earlier one.
 */
struct seam_record {
	unsigned long long seam_ns;
	unsigned long long key;	     /* the stretch is added under this; 0: it is not recorded */
	unsigned long long value;    /* ns of the stretch; 0: it may still be too short to be recorded */
	unsigned long long waited;   /* of these, the time in which the thread could have run */
	unsigned long long lifetime; /* ns of its life */
};

/* Of MESSAGE_WOKEN: the keys of both stacks; the sums come under the hash of the message. */
struct woken {
	unsigned long long blocked;
	unsigned long long waker;
};

_Static_assert(sizeof(struct rule) == 16, "16 bytes a rule");
_Static_assert(sizeof(struct page_table) == 8, "page table header");
_Static_assert(sizeof(struct page_entry) == 8, "page entry");
_Static_assert(sizeof(struct mapping) == 32, "8 words a mapping");
_Static_assert(sizeof(struct proc) == 24, "process");
_Static_assert(sizeof(struct raw_registers) == (DWARF_REGISTERS + 1) * 8, "registers");
_Static_assert(sizeof(struct section) == 8, "section header");
_Static_assert(sizeof(struct sampled_at) == 8, "a word");
_Static_assert(sizeof(struct interpreted_frame) == 16, "two words a frame");
_Static_assert(sizeof(struct linked_stack) == 16, "two words a stack");
_Static_assert(sizeof(struct message) == 64, "message header");
_Static_assert(sizeof(struct total) == 24, "sums of a stack");
_Static_assert(sizeof(struct pending_counts) == 1024, "pending counts");
_Static_assert(sizeof(struct seam_record) == 40, "a thread at a seam");
_Static_assert(sizeof(struct woken) == 16, "two keys");
_Static_assert(sizeof(struct life) == 40, "record of process life");
_Static_assert(sizeof(struct life_counts) == 16, "two counts");
_Static_assert(sizeof(struct process_cpu) == 16, "a process and a number");
_Static_assert(sizeof(struct process_event) == 16, "a process and a number");
_Static_assert(sizeof(struct process_bucket) == 16, "a process and two numbers");
_Static_assert(COUNT_WALKS + WALK_ENDS <= COUNT_THREADS_LOST, "room for every end of a walk");

#endif
