/* 5,000 executable mappings of one page of a library; it runs code in all of them.
 * usage: mappings LIBRARY [COUNT]
 * Truth: main, tour, hop (in one of the mappings), work, spin. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#include "spin.h"

typedef long (*hop_t)(long (*)(long), long);

EXACT long work(long rounds)
{
	long result = spin(rounds);
	NO_TAIL_CALL;
	return result;
}

EXACT long tour(hop_t hop, long rounds)
{
	long result = hop(work, rounds);
	NO_TAIL_CALL;
	return result;
}

int main(int argc, char **argv)
{
	long count = argument(argc, argv, 2, 5000);
	hop_t *hops = calloc((size_t)count, sizeof(hop_t));
	void *library = dlopen(argv[1], RTLD_NOW);
	Dl_info info;

	if (!library || !dladdr(dlsym(library, "hop"), &info))
		return 1;
	/* The text of the library has the same offset in the file as in memory. */
	long offset = (char *)info.dli_saddr - (char *)info.dli_fbase, page = offset & ~4095L;
	int file = open(argv[1], O_RDONLY);
	for (long i = 0; i < count; i++) {
		char *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, page);
		if (code == MAP_FAILED) {
			perror("mmap");
			return 1;
		}
		hops[i] = (hop_t)(uintptr_t)(code + (offset - page));
	}
	ready();
	for (long i = 0;; i = (i + 1) % count)
		tour(hops[i], 1000);
}
