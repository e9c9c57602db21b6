/* Breakpoints and single steps of the program's own: each gives one SIGTRAP. */
#define _GNU_SOURCE
#include "unharmed.h"
#include <signal.h>
#include <ucontext.h>

static volatile long breaks, steps;

static void handler(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	if (info->si_code == TRAP_TRACE)
		steps++;
	else
		breaks++;
}

N long stepped(long value)
{
#ifdef __x86_64__
	__asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq\n"
			 "nop\n nop\n nop\n nop\n"
			 "pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "memory", "cc");
#endif
	return value + 1;
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	long sum = 0;
	CHECK(!sigaction(SIGTRAP, &action, NULL));
	for (int i = 0; i < 1000; i++) {
#ifdef __x86_64__
		__asm__ volatile("int3" ::: "memory");
#endif
		sum += stepped(i);
		free(malloc((size_t)i + 1));
	}
	printf("%ld %ld %ld\n", breaks, steps, sum);
	return 0;
}
