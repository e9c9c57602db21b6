/* The program copies its hot code to anonymous memory and puts the copy at the old addresses, as iodlr, HHVM, BOLT's
 * hugify and `node --use-largepages` do. Built without frame pointers. Truth: main, outer, middle, leaf. */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "truth.h"

extern char __start_hot[], __stop_hot[];
#define HOT EXACT __attribute__((section("hot"), aligned(64)))

volatile uint64_t sink;

HOT uint64_t leaf(uint64_t x)
{
	for (int i = 0; i < 20000; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	return x;
}

HOT uint64_t middle(uint64_t x)
{
	uint64_t each[8];
	for (int i = 0; i < 8; i++)
		each[i] = leaf(x + i);
	return each[x & 7] + each[3];
}

HOT uint64_t outer(uint64_t x)
{
	uint64_t one = middle(x), other = middle(x + 9);
	return one ^ other;
}

int main(void)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)__start_hot & ~(page - 1), to = ((uintptr_t)__stop_hot + page - 1) & ~(page - 1);
	size_t length = to - from;
	char *copy = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(copy, (void *)from, length);
	mprotect(copy, length, PROT_READ | PROT_EXEC);
	if (mremap(copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)from) == MAP_FAILED)
		return 1;
	ready();
	for (;;) {
		sink += outer(sink);
		NO_TAIL_CALL;
	}
}
