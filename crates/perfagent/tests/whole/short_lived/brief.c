/* Executes itself 40 times. Each time it lives for some milliseconds below a frame of 300 KiB, in its main thread and in a second one. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LARGE (300 * 1024)

static char *volatile seen;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) static void compute(void)
{
	double end = now() + 0.008;

	while (now() < end)
		for (volatile int i = 0; i < 10000; i++)
			;
}

__attribute__((noinline)) static void below_a_large_frame(void)
{
	char large[LARGE];

	/* Most of it is never touched. */
	seen = large;
	large[LARGE - 1] = 1;
	compute();
	large[0] = *seen;
}

static void *second(void *unused)
{
	below_a_large_frame();
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc > 1) {
		below_a_large_frame();
		if (pthread_create(&thread, 0, second, 0) == 0)
			pthread_join(thread, 0);
		return 0;
	}
	for (int i = 0; i < 40; i++) {
		pid_t child = fork();

		if (child == 0) {
			execl(argv[0], argv[0], "child", (char *)0);
			_exit(1);
		}
		waitpid(child, 0, 0);
	}
	return 0;
}
