// An allocator of the program's own, whose operator new takes memory itself and throws where more than a limit is asked for.
// Truth: each line `site FUNCTION OBJECTS BYTES IN-USE BYTES-IN-USE` that it prints; `caught N` is the number of rounds.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "truth.h"

struct LimitExceeded {
	size_t size;
};
static char arena[256 << 20];
static size_t used, limit = 1 << 20;

static inline void *take(size_t n)
{
	n = (n + 31) & ~15UL;
	if (used + n > sizeof(arena))
		return nullptr;
	used += n;
	return arena + used - n;
}

extern "C" {
EXACT void *malloc(size_t n) { return take(n); }
EXACT void free(void *p) { __asm__ volatile("" :: "r"(p)); }
EXACT void *calloc(size_t a, size_t b) { void *p = take(a * b); return p ? memset(p, 0, a * b) : p; }
EXACT void *realloc(void *o, size_t n) { void *p = take(n); return p && o ? memcpy(p, o, n) : p; }
}

EXACT void *operator new(size_t n)
{
	if (n > limit)
		throw LimitExceeded{n};
	return take(n);
}
EXACT void *operator new[](size_t n) { return operator new(n); }
EXACT void operator delete(void *p) noexcept { __asm__ volatile("" :: "r"(p)); }
EXACT void operator delete(void *p, size_t) noexcept { __asm__ volatile("" :: "r"(p)); }
EXACT void operator delete[](void *p) noexcept { __asm__ volatile("" :: "r"(p)); }

extern "C" {
EXACT void *one(size_t n) { void *p = operator new(n); NO_TAIL_CALL; return p; }
EXACT void *array(size_t n) { void *p = operator new[](n); NO_TAIL_CALL; return p; }
EXACT void gone(size_t n) { operator delete(operator new(n)); NO_TAIL_CALL; }
// Its frame covers the place of the call that was left, and writes nothing there.
EXACT void *deep(size_t n)
{
	char untouched[4096];
	__asm__ volatile("" :: "r"(untouched) : "memory");
	void *p = operator new(n);
	NO_TAIL_CALL;
	return p;
}
}

EXACT static int query(size_t n, int depth)
{
	if (depth) {
		int found = query(n, depth - 1);
		NO_TAIL_CALL;
		return found;
	}
	try {
		one(n);
		return 0;
	} catch (const LimitExceeded &exceeded) {
		return exceeded.size == n;
	}
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 50, caught = 0;
	if (argc > 2) {
		ready();
		wait_for_go();
	}
	for (long i = 0; i < rounds; i++) {
		one(100);
		caught += query(2 << 20, i % 3);
		deep(300);
		caught += query(3 << 20, i % 4);
		array(200);
		gone(50);
	}
	printf("caught %ld\n", caught);
	printf("site one %ld %ld %ld %ld\n", rounds, rounds * 100, rounds, rounds * 100);
	printf("site deep %ld %ld %ld %ld\n", rounds, rounds * 300, rounds, rounds * 300);
	printf("site array %ld %ld %ld %ld\n", rounds, rounds * 200, rounds, rounds * 200);
	printf("site gone %ld %ld 0 0\n", rounds, rounds * 50);
	fflush(stdout);
	if (argc > 2)
		say("done\n", 5);
	return caught == 2 * rounds ? 0 : 9;
}
