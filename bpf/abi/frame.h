/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Frames of user and kernel stacks, and how a walk can end. */
#ifndef PERF_AGENT_ABI_FRAME_H
#define PERF_AGENT_ABI_FRAME_H

#if defined(__TARGET_ARCH_arm64) || defined(__aarch64__)
#define DWARF_REGISTERS 32 /* x0 to x30, sp */
#define LINK_REGISTER 30   /* its DWARF number: where a function finds its return address */
/* The bits above are for pointer authentication. Code lies below, unless a program asks for 52-bit addresses. */
#define USER_ADDRESS_BITS 48
#else
#define DWARF_REGISTERS 16
#define USER_ADDRESS_BITS 57
/* The page of legacy system calls, VSYSCALL_ADDR of arch/x86/include/uapi/asm/vsyscall.h. */
#define VSYSCALL_PAGE 0xffffffffff600000ULL
#define VSYSCALL_BYTES 4096
#endif

#define MAX_USER_FRAMES 512
#define MAX_KERNEL_FRAMES 127

/* Marks in the top bits of a user frame. */
#define FRAME_EXACT (1ULL << 63) /* look this pc up as it is, not at pc - 1 */
#define FRAME_BY_FP (1ULL << 62) /* its caller was found by frame pointer */
#define FRAME_PC ((1ULL << USER_ADDRESS_BITS) - 1)

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
	WALK_NONE = 9,	   /* no walk: a kernel thread, also one that belongs to a process, as for io_uring */
	WALK_EXITING = 10, /* no walk: the thread has released its memory, because it exits or executes a program */
	WALK_STACK_SWITCH = 11, /* the caller is on another stack that could not be found or read */
	WALK_CODE_32_BIT = 12,	/* 32-bit code, whose registers and stack words are of another size */
	WALK_ZERO_FRAME = 13,	/* a frame pointer or return address of 0 where no stack begins */
	WALK_ENDS = 14,
};

#endif
