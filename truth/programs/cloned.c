/* A thread that the program makes by clone, on a stack of its own, without the thread library.
 * Truth: clone of libc, work, spin. */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/mman.h>

#include "spin.h"

#define SIZE (256 << 10)

EXACT int work(void *unused)
{
	for (;;) {
		spin(3000);
		NO_TAIL_CALL;
	}
	return unused != NULL;
}

int main(void)
{
	int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
	char *stack = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED || clone(work, stack + SIZE, flags, NULL) < 0)
		return 1;
	ready();
	for (;;)
		pause();
}
