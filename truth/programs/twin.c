/* Built twice, with different NAME and ROOM but the same build-id. A profiler that confuses the two programs gives wrong
 * names, or unwinds with the wrong frame size.
 * Truth: main, NAME, spin. */
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
