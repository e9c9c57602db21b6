/* Children that are forked while other processes cause a flood of records of process life.
 * usage: siege flood
 *        Renames itself in an endless loop, which needs no privilege.
 * usage: siege family [CHILDREN]
 *        Waits for a line, then forks CHILDREN children (8). Before and after each fork it maps and unmaps 20,000
 *        executable pages. Each child burns 500 ms of CPU time; the parent waits for all of them and ends.
 * Truth: main, bear, victim, spin in all of the children's samples; main, bear, pages in the parent's. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "spin.h"

#define PAGES 20000

EXACT void flood(void)
{
	for (unsigned long i = 0;; i++)
		prctl(PR_SET_NAME, i & 1 ? "one name" : "another name");
}

EXACT void victim(void)
{
	struct timespec used;
	do {
		spin(200000);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	} while (used.tv_sec == 0 && used.tv_nsec < 500000000);
	NO_TAIL_CALL;
}

EXACT void pages(void)
{
	for (long i = 0; i < PAGES; i++) {
		void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED)
			_exit(1);
		munmap(page, 4096);
	}
	NO_TAIL_CALL;
}

EXACT void bear(void)
{
	pages();
	if (fork() == 0) {
		victim();
		_exit(0);
	}
	pages();
	NO_TAIL_CALL;
}

int main(int argc, char **argv)
{
	long children = argument(argc, argv, 2, 8);

	ready();
	if (argc > 1 && strcmp(argv[1], "flood") == 0)
		flood();
	wait_for_go();
	for (long i = 0; i < children; i++)
		bear();
	while (wait(NULL) > 0)
		;
	return 0;
}
