/* A program that causes known numbers of events, each in a function of its own. It begins when it reads a byte. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define IN_ONE 3000
#define IN_OTHER 1000
#define IN_KERNEL 500
#define SLEEPS 200

static char *fresh_pages(long pages)
{
	char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(at, pages * PAGE, MADV_NOHUGEPAGE);
	return at;
}

__attribute__((noinline)) static void touch(char *at, long pages)
{
	long i;

	for (i = 0; i < pages; i++) {
		at[i * PAGE] = 1;
		asm volatile("" ::: "memory");
	}
}

__attribute__((noinline)) static void one(char *at)
{
	touch(at, IN_ONE);
	asm volatile("");
}

__attribute__((noinline)) static void other(char *at)
{
	touch(at, IN_OTHER);
	asm volatile("");
}

__attribute__((noinline)) static void in_kernel(char *at, int zeros)
{
	long i;

	for (i = 0; i < IN_KERNEL; i++)
		if (read(zeros, at + i * PAGE, PAGE) != PAGE)
			_exit(1);
}

static long switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

/* Returns how often this thread left a CPU here. */
__attribute__((noinline)) static long sleeper(void)
{
	struct timespec moment = {.tv_nsec = 200000};
	long before = switches(), i;

	for (i = 0; i < SLEEPS; i++)
		nanosleep(&moment, NULL);
	return switches() - before;
}

int main(void)
{
	char *first = fresh_pages(IN_ONE), *second = fresh_pages(IN_OTHER), *third = fresh_pages(IN_KERNEL);
	int zeros = open("/dev/zero", O_RDONLY);
	char byte;

	if (read(0, &byte, 1) != 1)
		return 1;
	one(first);
	other(second);
	in_kernel(third, zeros);
	printf("%ld\n", sleeper());
	fflush(stdout);
	pause();
	return 0;
}
