/* Threads that end last: they run only when their CPU has nothing else to run, and end with their process. So the kernel
 * reports the end of the process before their last switch.
 * usage: stragglers MILLISECONDS
 * Ends by itself after that time. All threads are pinned to the first CPU.
 * Truth: thread start, straggle, pause in libc. */
#include "metered.h"

enum { THREADS = 4 };

EXACT void *straggle(void *unused)
{
	struct sched_param none = { 0 };
	sched_setscheduler(0, SCHED_IDLE, &none);
	pause();
	NO_TAIL_CALL;
	return unused;
}

int main(int argc, char **argv)
{
	pin(0);
	ready();
	for (int i = 0; i < THREADS; i++)
		thread_start(straggle, NULL);
	sleep_us((unsigned long)argument(argc, argv, 1, 200) * 1000);
	_exit(0);
}
