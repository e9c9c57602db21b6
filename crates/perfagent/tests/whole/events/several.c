/* A program whose calls, page faults, sleeps and system calls are known. It begins when it reads a byte. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

static char *pages;

__attribute__((noinline)) static void nap(void)
{
	struct timespec moment = {.tv_nsec = 200000};

	nanosleep(&moment, NULL);
	asm volatile("");
}

__attribute__((noinline)) static void work(long call)
{
	pages[call * PAGE] = 1;
	if (call % 8 == 0)
		nap();
	asm volatile("");
}

__attribute__((noinline)) static void one(long call)
{
	work(call);
	asm volatile("");
}

__attribute__((noinline)) static void two(long call)
{
	work(call);
	asm volatile("");
}

static long switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

int main(void)
{
	long before, call;
	char byte;

	pages = mmap(NULL, CALLS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(pages, CALLS * PAGE, MADV_NOHUGEPAGE);
	if (read(0, &byte, 1) != 1)
		return 1;
	before = switches();
	for (call = 0; call < CALLS; call++) {
		if (call % 4)
			one(call);
		else
			two(call);
	}
	printf("%ld\n", switches() - before);
	fflush(stdout);
	pause();
	return 0;
}
