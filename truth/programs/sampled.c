/* Three functions that allocate, in a program whose allocator samples itself. After a line on stdin each does so; then the
 * program prints, for each, "site NAME OBJECTS BYTES OBJECTS_IN_USE BYTES_IN_USE", and waits to be killed. `small` frees at
 * once, `medium` keeps every third object, `large` every twentieth. Objects from before the line are freed after it.
 * With OTEL the program takes samples itself and tells them by the probes of otel_memory; it prints "told NAME BYTES
 * BYTES_IN_USE", the weights that it has told, and "counter N", how many ask for them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "truth.h"

enum { SMALL, MEDIUM, LARGE, SITES };

static const char *const names[SITES] = { "small", "medium", "large" };
static struct {
	long objects, bytes, live, live_bytes, told, live_told;
} sites[SITES];

#ifdef OTEL
enum { INTERVAL = 65536 };
static long countdown = 1;
unsigned short alloc_counter __attribute__((section(".probes")));
unsigned short free_counter __attribute__((section(".probes")));

#define NOTE(NAME, ARGS) \
	"990: nop\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n" \
	"991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte 0\n.8byte " NAME "_counter\n" \
	".asciz \"otel_memory\"\n.asciz \"" NAME "\"\n.asciz \"" ARGS "\"\n994: .balign 4\n.popsection\n"

static long gap(void)
{
	static unsigned long long state = 88172645463325252ULL;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return 1 - (long)(INTERVAL * log((double)((state >> 11) + 1) / 9007199254740993.0));
}

/* Bytes that the sample of this object stands for; 0: there is none. */
static long sample(void *object, long bytes)
{
	long times = 0;

	for (countdown -= bytes; countdown <= 0; countdown += gap())
		times++;
	if (!times)
		return 0;
	__asm__ volatile(NOTE("alloc", "8@%0 -8@%1 8@%2") : : "r"(object), "m"(bytes), "r"(times * INTERVAL));
	return times * INTERVAL;
}

static void end_sample(void *object)
{
	__asm__ volatile(NOTE("free", "8@%0") : : "r"(object));
}
#else
static long sample(void *object, long bytes)
{
	return object ? 0 * bytes : 0;
}

static void end_sample(void *object)
{
	(void)object;
}
#endif

struct kept {
	void *object;
	long weight;
};

static inline __attribute__((always_inline)) struct kept take(int site, long bytes)
{
	struct kept kept = { malloc(bytes), 0 };

	if (!kept.object)
		_exit(1);
	kept.weight = sample(kept.object, bytes);
	sites[site].objects++;
	sites[site].bytes += bytes;
	sites[site].live++;
	sites[site].live_bytes += bytes;
	sites[site].told += kept.weight;
	sites[site].live_told += kept.weight;
	return kept;
}

static inline __attribute__((always_inline)) void give(int site, struct kept kept, long bytes)
{
	if (kept.weight)
		end_sample(kept.object);
	free(kept.object);
	sites[site].live--;
	sites[site].live_bytes -= bytes;
	sites[site].live_told -= kept.weight;
}

EXACT void small(void)
{
	for (int i = 0; i < 5000; i++)
		give(SMALL, take(SMALL, 64), 64);
	NO_TAIL_CALL;
}

EXACT void medium(void)
{
	for (int i = 0; i < 100; i++) {
		struct kept kept = take(MEDIUM, 3000);

		if (i % 3)
			give(MEDIUM, kept, 3000);
	}
	NO_TAIL_CALL;
}

EXACT void large(long round)
{
	struct kept kept = take(LARGE, 1 << 20);

	if (round % 20)
		give(LARGE, kept, 1 << 20);
	NO_TAIL_CALL;
}

int main(int argc, char **argv)
{
	static struct kept before[1000];
	long rounds = argument(argc, argv, 1, 300);
	char line[128];

	for (int i = 0; i < 1000; i++)
		before[i] = take(MEDIUM, 3000);
	ready();
	wait_for_go();
	for (int i = 0; i < 1000; i++)
		give(MEDIUM, before[i], 3000);
	memset(sites, 0, sizeof(sites));
	for (long round = 0; round < rounds; round++) {
		small();
		medium();
		large(round);
	}
	for (int site = 0; site < SITES; site++) {
		int length = snprintf(line, sizeof(line), "site %s %ld %ld %ld %ld\ntold %s %ld %ld\n", names[site],
				      sites[site].objects, sites[site].bytes, sites[site].live, sites[site].live_bytes,
				      names[site], sites[site].told, sites[site].live_told);
		say(line, (unsigned long)length);
	}
#ifdef OTEL
	say(line, (unsigned long)snprintf(line, sizeof(line), "counter %d\n", alloc_counter));
#endif
	say("done\n", 5);
	for (;;)
		pause();
}
