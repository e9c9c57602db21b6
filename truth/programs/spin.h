/* The leaf of most chains: `spin` burns CPU in user mode and calls nothing. */
#ifndef SPIN_H
#define SPIN_H

#include "truth.h"

EXACT long spin(long rounds)
{
	long x = rounds;
	for (long i = 0; i < rounds; i++) {
		x += i ^ (x << 1);
		__asm__ volatile("" : "+r"(x));
	}
	return x;
}

#endif
