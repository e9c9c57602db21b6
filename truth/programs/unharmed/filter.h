/* A filter of system calls that lets these through and ends the process at any other, as sandboxes of services do. */
#ifndef FILTER_H
#define FILTER_H

#include "unharmed.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void filter_calls(void)
{
	static const int allowed[] = {SYS_read, SYS_write, SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_mprotect, SYS_futex,
				      SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_clock_nanosleep, SYS_nanosleep,
				      SYS_getrandom, SYS_fstat, SYS_newfstatat};
	enum { COUNT = sizeof(allowed) / sizeof(*allowed) };
	struct sock_filter code[2 * COUNT + 2] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	struct sock_fprog program = {2 * COUNT + 2, code};

	for (int i = 0; i < COUNT; i++) {
		code[1 + 2 * i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
		code[2 + 2 * i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[1 + 2 * COUNT] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

/* Allocates in all ways that memory profilers watch. */
N static long allocate(int rounds)
{
	long sum = 0;
	for (int i = 0; i < rounds; i++) {
		char *at = malloc((size_t)(i % 100) + 1), *more = calloc(3, 7);
		CHECK(at && more && !more[20]);
		at = realloc(at, 5000);
		CHECK(at);
		sum += at != NULL;
		free(at);
		free(more);
	}
	return sum;
}

#endif
