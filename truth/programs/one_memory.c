/* Processes that share one memory. After a line on stdin the program allocates ROUNDS objects in `by_parent`; a child made by clone(CLONE_VM),
 * which is no thread, frees them and allocates as many in `by_child`, which the program frees. Then the same with a child that its parent waits for, as
 * after vfork. Then it prints, for each, "site NAME OBJECTS BYTES OBJECTS_IN_USE BYTES_IN_USE", and waits to be killed.
 * Truth: main, share, by_parent; child, by_child. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>

#include "truth.h"

#define MOST 10000

static void *theirs[MOST], *own[MOST];
static long rounds;
static char stack[1 << 20];

EXACT void *by_parent(void)
{
	void *volatile object = malloc(1000);

	return object;
}

EXACT void *by_child(void)
{
	void *volatile object = malloc(2000);

	return object;
}

EXACT int child(void *unused)
{
	for (long i = 0; i < rounds; i++)
		free(own[i]);
	for (long i = 0; i < rounds; i++)
		theirs[i] = by_child();
	return unused != NULL;
}

EXACT void share(int flags)
{
	int status;
	pid_t pid;

	for (long i = 0; i < rounds; i++)
		own[i] = by_parent();
	pid = clone(child, stack + sizeof(stack), CLONE_VM | flags | SIGCHLD, NULL);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		_exit(1);
	for (long i = 0; i < rounds; i++)
		free(theirs[i]);
	NO_TAIL_CALL;
}

int main(int argc, char **argv)
{
	char line[128];

	rounds = argument(argc, argv, 1, 1000);
	if (rounds > MOST)
		return 1;
	ready();
	wait_for_go();
	share(0);
	share(CLONE_VFORK);
	say(line, (unsigned long)snprintf(line, sizeof(line), "site by_parent %ld %ld 0 0\n", 2 * rounds, 2000 * rounds));
	say(line, (unsigned long)snprintf(line, sizeof(line), "site by_child %ld %ld 0 0\n", 2 * rounds, 4000 * rounds));
	say("done\n", 5);
	for (;;)
		pause();
}
