/* What runs at the end: functions for exit and quick_exit, buffers that are flushed, destructors; a pipe that nobody reads. */
#define _GNU_SOURCE
#include "unharmed.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void first(void) { printf("first "); }
static void second(void) { printf("second "); }
static void quick(void) { CHECK(write(1, "quick ", 6) == 6); }

__attribute__((destructor)) static void last(void) { printf("last\n"); }

int main(void)
{
	int pipes[2], status;
	setvbuf(stdout, NULL, _IOFBF, 4096);
	at_quick_exit(quick);
	if (!fork())
		quick_exit(4);
	CHECK(wait(&status) > 0 && WEXITSTATUS(status) == 4);
	CHECK(!pipe(pipes) && !close(pipes[0]));
	if (!fork()) {
		status = (int)write(pipes[1], "x", 1);
		_exit(status);
	}
	CHECK(wait(&status) > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
	signal(SIGPIPE, SIG_IGN);
	CHECK(write(pipes[1], "x", 1) == -1 && errno == EPIPE);
	atexit(first);
	atexit(second);
	exit(13);
}
