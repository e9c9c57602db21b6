/* A function of a library whose calls are audited (LD_AUDIT, audit.c): the loader calls it, from a frame that only rbx
 * locates.
 * Truth: main, work, the loader, hop, back, spin. */
#include "spin.h"

long hop(long (*callee)(long), long x);

EXACT long back(long rounds)
{
	long result = spin(rounds);
	NO_TAIL_CALL;
	return result;
}

EXACT long work(long rounds)
{
	long result = hop(back, rounds);
	NO_TAIL_CALL;
	return result;
}

int main(void)
{
	ready();
	for (;;)
		work(30000);
}
