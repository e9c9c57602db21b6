/* Generated functions so small that a third of the samples is in their first and last instructions, in the forms of
 * HotSpot with -XX:+PreserveFramePointer: a leaf that stores rbp, a caller that pushes it. Named by a perf map.
 * Truth: main, enter, a_run, b_step, c_leaf. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "spin.h"

static unsigned char *put(unsigned char *at, const char *bytes, size_t size)
{
	memcpy(at, bytes, size);
	return at + size;
}

#define PUT(at, bytes) put(at, bytes, sizeof(bytes) - 1)

static unsigned char *call(unsigned char *at, const unsigned char *target)
{
	int distance = (int)(target - (at + 5));

	*at = 0xe8;
	memcpy(at + 1, &distance, sizeof(distance));
	return at + 5;
}

/* sub $0x18, %rsp; mov %rbp, 0x10(%rsp); mov %rsp, %rbp; add $0x10, %rbp; lea 1(%rax,%rax,2), %rax; add $0x10, %rsp;
 * pop %rbp; cmp (%rsp), %rax; ja to the next instruction; ret */
static unsigned char *put_leaf(unsigned char *at)
{
	at = PUT(at, "\x48\x83\xec\x18\x48\x89\x6c\x24\x10\x48\x8b\xec\x48\x83\xc5\x10\x48\x8d\x44\x40\x01");
	return PUT(at, "\x48\x83\xc4\x10\x5d\x48\x3b\x04\x24\x0f\x87\x00\x00\x00\x00\xc3");
}

/* push %rbp; mov %rsp, %rbp; sub $0x10, %rsp; two calls; add $0x10, %rsp; pop %rbp; ret */
static unsigned char *put_step(unsigned char *at, const unsigned char *leaf)
{
	at = PUT(at, "\x55\x48\x89\xe5\x48\x83\xec\x10");
	at = call(call(at, leaf), leaf);
	return PUT(at, "\x48\x83\xc4\x10\x5d\xc3");
}

/* push %rbp; mov %rsp, %rbp; push %rbx; push %rbx; mov %edi, %ebx; a call until --%ebx is 0; pop %rbx; pop %rbx;
 * pop %rbp; ret */
static unsigned char *put_run(unsigned char *at, const unsigned char *step)
{
	at = call(PUT(at, "\x55\x48\x89\xe5\x53\x53\x89\xfb"), step);
	return PUT(at, "\xff\xcb\x75\xf7\x5b\x5b\x5d\xc3");
}

EXACT long enter(long (*code)(long), long rounds)
{
	long result = code(rounds);
	NO_TAIL_CALL;
	return result;
}

int main(void)
{
	unsigned char *leaf = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *step = leaf + 64, *run = leaf + 128;
	char path[64];
	FILE *map;

	if (leaf == MAP_FAILED)
		return 1;
	put_leaf(leaf);
	put_step(step, leaf);
	put_run(run, step);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	map = fopen(path, "w");
	if (!map)
		return 1;
	fprintf(map, "%lx 40 c_leaf\n%lx 40 b_step\n%lx 40 a_run\n", (long)leaf, (long)step, (long)run);
	fclose(map);
	ready();
	for (;;)
		enter((long (*)(long))(void *)run, 100000);
}
