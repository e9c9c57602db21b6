/* Built twice, with another NAME and another ROOM, under one build-id. A profiler that confuses them gives wrong names, or
 * unwinds by the wrong size of a frame. Both stay in spin below NAME below main. */
#include "spin.h"

EXACT long NAME(long rounds)
{
	volatile char room[ROOM];
	room[0] = 1;
	long result = spin(rounds) + room[0];
	NO_TAIL_CALL;
	return result;
}

int main(void)
{
	ready();
	for (;;)
		NAME(1000000);
}
