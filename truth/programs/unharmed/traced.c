/* Traces a child: counts its steps between two stops, reads its registers, and sees how it ends. */
#define _GNU_SOURCE
#include "unharmed.h"
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long value;

static void child(void)
{
	CHECK(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	raise(SIGSTOP);
	for (int i = 0; i < 100; i++)
		free(malloc(10));
	value = 77;
	raise(SIGUSR1);
	_exit(9);
}

int main(void)
{
	int status, steps = 0;
	pid_t pid = fork();
	if (!pid)
		child();
	CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	for (; steps < 2000; steps++) {
		CHECK(!ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL));
		CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	}
	CHECK(!ptrace(PTRACE_CONT, pid, NULL, NULL));
	CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR1);
	CHECK(ptrace(PTRACE_PEEKDATA, pid, &value, NULL) == 77);
	CHECK(!ptrace(PTRACE_CONT, pid, NULL, NULL));
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 9);
	printf("%d steps\n", steps);
	return 0;
}
