/* Calls of a tiny library function through the procedure linkage table, so that many samples hit the stubs.
 * Truth: main, knock, then a PLT stub or tiny. */
#include "truth.h"

long tiny(long x);

EXACT long knock(long x)
{
	for (int i = 0; i < 100; i++)
		x = tiny(x);
	return x;
}

int main(void)
{
	ready();
	for (long x = 0;;) {
		x = knock(x);
		NO_TAIL_CALL;
	}
}
