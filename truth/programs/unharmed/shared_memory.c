/* Processes that share their whole memory, made by clone and by vfork; one allocates, the other frees. */
#define _GNU_SOURCE
#include "unharmed.h"
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static char *handed;
static long state;

static int child(void *size)
{
	handed = malloc((size_t)size);
	memset(handed, 5, (size_t)size);
	state++;
	return 6;
}

int main(void)
{
	char *stack = malloc(1 << 16);
	long sum = 0;
	for (long i = 1; i <= 200; i++) {
		int status;
		pid_t pid = clone(child, stack + (1 << 16), CLONE_VM | SIGCHLD, (void *)(i * 10));
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
		sum += WEXITSTATUS(status) + handed[i * 10 - 1];
		free(handed);
		pid = vfork();
		if (!pid) {
			state++;
			_exit(2);
		}
		CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
		sum += WEXITSTATUS(status);
	}
	printf("%ld %ld\n", sum, state);
	return 0;
}
