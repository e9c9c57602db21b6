/* SPDX-License-Identifier: Apache-2.0 */
/* Maps so many pages of code without a file, none beside another one, says so, and waits for the end of its input. Then it computes for a
 * moment and waits to be killed. With a second word it computes until then, and each of its stacks ends at a return address that is in
 * no mapping. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL

static __attribute__((noinline)) void compute_lost(void)
{
	void *volatile *word = (void **)__builtin_frame_address(0) + 1;

	*word = (void *)0x123456789000;
	for (volatile unsigned long turns = 0;; turns++)
		;
}

int main(int count, char **words)
{
	unsigned long pages = count > 1 ? strtoul(words[1], NULL, 10) : 1, at;
	char *all = mmap(NULL, 2 * pages * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	clock_t end;

	if (all == MAP_FAILED)
		return 1;
	for (at = 0; at < pages; at++)
		if (munmap(all + (2 * at + 1) * PAGE, PAGE))
			return 2;
	puts("mapped");
	fflush(stdout);
	getchar();
	if (count > 2)
		compute_lost();
	for (end = clock() + CLOCKS_PER_SEC / 20; clock() < end;)
		;
	pause();
}
