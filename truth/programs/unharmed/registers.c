/* Registers that a called function must keep, the flags, and the whole vector state across a signal. */
#define _GNU_SOURCE
#include "unharmed.h"
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile long signals;

static void handler(int number)
{
	(void)number;
	signals++;
	free(malloc(100));
}

#ifdef __x86_64__
/* The callee-saved registers before and after malloc and free. */
N static int keeps(uint64_t seed)
{
	uint64_t before[5] = {seed, seed * 3, seed * 5, seed * 7, seed * 11}, after[5];
	void *memory;
	__asm__ volatile("push %%rbp\n mov %%rsp, %%rbp\n sub $192, %%rsp\n and $-16, %%rsp\n"
			 "mov %%rsi, 0(%%rsp)\n mov %%rdx, 8(%%rsp)\n"
			 "mov 0(%%rsi), %%rbx\n mov 8(%%rsi), %%r12\n mov 16(%%rsi), %%r13\n mov 24(%%rsi), %%r14\n mov 32(%%rsi), %%r15\n"
			 "mov $100, %%edi\n call *%%rcx\n"
			 "mov 8(%%rsp), %%rdx\n"
			 "mov %%rbx, 0(%%rdx)\n mov %%r12, 8(%%rdx)\n mov %%r13, 16(%%rdx)\n mov %%r14, 24(%%rdx)\n mov %%r15, 32(%%rdx)\n"
			 "leave\n"
			 : "=a"(memory)
			 : "S"(before), "d"(after), "c"(malloc)
			 : "rdi", "rbx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc");
	free(memory);
	return !memcmp(before, after, sizeof(before));
}

/* Vector registers across a signal. */
N static int keeps_vectors(uint64_t seed)
{
	uint64_t before[4] = {seed, seed ^ 1, seed ^ 2, seed ^ 3}, after[4] = {0};
	long pid = getpid(), tid = gettid(), result = SYS_tgkill;
	__asm__ volatile("movdqu 0(%[before]), %%xmm6\n movdqu 16(%[before]), %%xmm15\n"
			 "syscall\n"
			 "movdqu %%xmm6, 0(%[after])\n movdqu %%xmm15, 16(%[after])\n"
			 : "+a"(result)
			 : [before] "r"(before), [after] "r"(after), "D"(pid), "S"(tid), "d"((long)SIGUSR1)
			 : "rcx", "r11", "xmm6", "xmm15", "memory");
	return !result && !memcmp(before, after, sizeof(before));
}
#else
static int keeps(uint64_t seed) { free(malloc(seed % 100)); return 1; }
static int keeps_vectors(uint64_t seed) { (void)seed; return !raise(SIGUSR1); }
#endif

int main(void)
{
	long kept = 0;
	signal(SIGUSR1, handler);
	for (uint64_t i = 1; i <= 20000; i++)
		kept += keeps(i * 0x9e3779b97f4a7c15) && keeps_vectors(i);
	printf("%ld %ld\n", kept, signals);
	return 0;
}
