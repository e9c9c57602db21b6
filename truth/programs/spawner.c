/* Children that live for some milliseconds, one after the other.
 * usage: spawner exec|fork [MILLISECONDS]
 * fork: the child burns CPU in this program. Truth: main, bear, short_life, spin.
 * exec: the child executes this program again, with the argument "child". Truth: main, short_life, spin; before that,
 * functions of the dynamic loader. */
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "spin.h"

static long life_ns = 100000000;

EXACT void short_life(void)
{
	struct timespec used;
	do {
		spin(200000);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	} while (used.tv_sec == 0 && used.tv_nsec < life_ns);
	NO_TAIL_CALL;
}

EXACT void bear(char **argv, int exec)
{
	char *milliseconds = argv[1] ? argv[2] : NULL;
	char *child[] = { argv[0], "child", milliseconds, NULL };
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
	if (argc > 2)
		life_ns = atol(argv[2]) * 1000000;
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
