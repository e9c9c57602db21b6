/* One function of more than 64 KiB, full of calls.
 * Truth: main, giant, spin. */
#include "spin.h"

#define CALL x = spin(x & 15) ^ (x >> 3); __asm__ volatile("" : "+r"(x));
#define CALL8 CALL CALL CALL CALL CALL CALL CALL CALL
#define CALL64 CALL8 CALL8 CALL8 CALL8 CALL8 CALL8 CALL8 CALL8
#define CALL512 CALL64 CALL64 CALL64 CALL64 CALL64 CALL64 CALL64 CALL64
#define CALL4096 CALL512 CALL512 CALL512 CALL512 CALL512 CALL512 CALL512 CALL512

EXACT long giant(long x)
{
	CALL4096 CALL4096
	return x;
}

int main(void)
{
	ready();
	for (long x = 1;;) {
		x = giant(x | 1);
		NO_TAIL_CALL;
	}
}
