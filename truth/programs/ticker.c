/* A library for LD_PRELOAD whose thread burns CPU time below three functions. Their names are the digits of the time, so
 * the stack of each sample tells when it was taken.
 * Truth: thread start, tick, hi_X, mid_Y, lo_Z, spin; 0xXYZ is CLOCK_MONOTONIC in units of 5 ms, modulo 4096. */
#include <pthread.h>
#include <time.h>

#include "spin.h"

#define LO(d) EXACT long lo_##d(long n) { long r = spin(n); NO_TAIL_CALL; return r; }
#define MID(d) EXACT long mid_##d(long n, long (*f)(long)) { long r = f(n); NO_TAIL_CALL; return r; }
#define HI(d) EXACT long hi_##d(long n, long (*g)(long, long (*)(long)), long (*f)(long)) { long r = g(n, f); NO_TAIL_CALL; return r; }
#define EACH(m) m(0) m(1) m(2) m(3) m(4) m(5) m(6) m(7) m(8) m(9) m(a) m(b) m(c) m(d) m(e) m(f)
EACH(LO)
EACH(MID)
EACH(HI)

#define LO_NAME(d) lo_##d,
#define MID_NAME(d) mid_##d,
#define HI_NAME(d) hi_##d,
static long (*const lo[16])(long) = { EACH(LO_NAME) };
static long (*const mid[16])(long, long (*)(long)) = { EACH(MID_NAME) };
static long (*const hi[16])(long, long (*)(long, long (*)(long)), long (*)(long)) = { EACH(HI_NAME) };

EXACT void *tick(void *unused)
{
	ready();
	for (;;) {
		struct timespec now;
		clock_gettime(CLOCK_MONOTONIC, &now);
		long units = now.tv_sec * 200 + now.tv_nsec / 5000000;
		hi[units >> 8 & 15](20000, mid[units >> 4 & 15], lo[units & 15]);
	}
	return unused;
}

__attribute__((constructor)) static void start(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, tick, NULL);
}
