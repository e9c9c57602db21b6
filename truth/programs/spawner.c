/* Children that live for 100 ms, one after the other.
 * usage: spawner exec|fork
 * fork: the child burns CPU in this program. Truth: main, bear, short_life, spin.
 * exec: the child executes this program again, with the argument "child". Truth: main, short_life, spin; before that,
 * functions of the dynamic loader. */
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "spin.h"

EXACT void short_life(void)
{
	struct timespec used;
	do {
		spin(200000);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	} while (used.tv_sec == 0 && used.tv_nsec < 100000000);
	NO_TAIL_CALL;
}

EXACT void bear(char **argv, int exec)
{
	char *child[] = { argv[0], "child", NULL };
	pid_t pid = fork();
	if (pid == 0) {
		if (exec)
			execv("/proc/self/exe", child);
		short_life();
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "child") == 0) {
		short_life();
		return 0;
	}
	ready();
	for (;;) {
		bear(argv, argc > 1 && strcmp(argv[1], "exec") == 0);
		NO_TAIL_CALL;
	}
}
