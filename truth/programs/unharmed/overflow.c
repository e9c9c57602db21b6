/* Stacks that overflow, which a handler on another stack sees and leaves by a jump. */
#define _GNU_SOURCE
#include "unharmed.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static sigjmp_buf place;
static int seen;

static void handler(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	seen += info->si_code == SEGV_MAPERR || info->si_code == SEGV_ACCERR;
	siglongjmp(place, 1);
}

N int endless(volatile char *outer)
{
	volatile char bytes[4096];
	bytes[0] = (char)(outer ? outer[0] + 1 : 0);
	return endless(bytes) + bytes[0];
}

int main(int count, char **words)
{
	struct rlimit limit = {256 << 10, 256 << 10};
	stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	if (count == 1) {
		/* The limit of the first stack holds from the next program on. */
		CHECK(!setrlimit(RLIMIT_STACK, &limit));
		execl("/proc/self/exe", words[0], "again", NULL);
		CHECK(0);
	}
	CHECK(!sigaltstack(&stack, NULL) && !sigaction(SIGSEGV, &action, NULL));
	for (volatile int i = 0; i < 300; i++)
		if (!sigsetjmp(place, 1))
			endless(NULL);
	printf("%d\n", seen);
	return 0;
}
