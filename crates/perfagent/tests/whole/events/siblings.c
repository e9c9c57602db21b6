/* Children on one CPU call `hit`; each ends some time before the next one. Begins when a line comes, and prints the number of calls. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHILDREN 6

/* Begins with a push, which the kernel emulates. */
__attribute__((noinline)) long hit(long number)
{
	long kept = number;
	__asm__ volatile("" : "+r"(kept)::"rbx", "memory");
	return kept;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(void)
{
	volatile long *calls = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cpu_set_t first;
	long sum = 0;

	if (getchar() < 0 || calls == MAP_FAILED)
		return 1;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	/* Where this is refused, they still meet on CPUs. */
	sched_setaffinity(0, sizeof(first), &first);
	for (int i = 0; i < CHILDREN; i++) {
		if (fork())
			continue;
		/* All have begun, and perf-agent has been told. */
		usleep(300000);
		for (double end = now() + 0.2 * (i + 1); now() < end; calls[i]++)
			hit(i);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	for (int i = 0; i < CHILDREN; i++)
		sum += calls[i];
	printf("%ld\n", sum);
	return 0;
}
