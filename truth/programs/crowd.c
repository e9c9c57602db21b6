/*
 * One process of a crowd: crowd THREADS PERIOD_US [FILE…]. Its threads sleep and compute a little every PERIOD_US; all but
 * the first one have small stacks. Code at TEXT_AT of each file, which is mapped as a whole, runs in turn.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "spin.h"

#define TEXT_AT 4096
#define STACK_BYTES (64 * 1024)
#define MAX_FILES 64

static long period_us;

EXACT long crowd_work(long rounds)
{
	long result = spin(rounds);
	NO_TAIL_CALL;
	return result;
}

static void *work(void *unused)
{
	(void)unused;
	for (;;) {
		usleep((useconds_t)period_us);
		crowd_work(20000);
	}
	return NULL;
}

typedef long (*text)(long rounds);

static text map_text(const char *path)
{
	struct stat status;
	int file = open(path, O_RDONLY | O_CLOEXEC);
	char *mapped;

	if (file < 0 || fstat(file, &status))
		return NULL;
	mapped = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	close(file);
	return mapped == MAP_FAILED ? NULL : (text)(void *)(mapped + TEXT_AT);
}

int main(int argc, char **argv)
{
	long threads = argc > 1 ? atol(argv[1]) : 1;
	text texts[MAX_FILES];
	int files = 0;
	pthread_attr_t attributes;

	period_us = argc > 2 ? atol(argv[2]) : 20000;
	for (int i = 3; i < argc && files < MAX_FILES; i++) {
		texts[files] = map_text(argv[i]);
		if (!texts[files++])
			return 1;
	}
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (long i = 1; i < threads; i++) {
		pthread_t thread;

		if (pthread_create(&thread, &attributes, work, NULL))
			return 2;
	}
	ready();
	for (;;) {
		usleep((useconds_t)period_us);
		crowd_work(20000);
		for (int i = 0; i < files; i++)
			texts[i](20000);
	}
}
