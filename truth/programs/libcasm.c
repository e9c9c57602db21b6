/* Functions of libc in hand-written assembly: copying, comparing and measuring memory.
 * Truth: main, one of copy, measure, compare; then a function of libc. */
#include <string.h>

#include "truth.h"

static char one[1 << 14], two[1 << 14];

EXACT void copy(void)
{
	memcpy(one, two, sizeof(one));
	NO_TAIL_CALL;
}
EXACT long measure(void)
{
	long result = (long)strlen(two);
	NO_TAIL_CALL;
	return result;
}
EXACT long compare(void)
{
	long result = memcmp(one, two, sizeof(one));
	NO_TAIL_CALL;
	return result;
}

int main(void)
{
	memset(two, 'x', sizeof(two) - 1);
	ready();
	for (;;) {
		copy();
		measure();
		compare();
		NO_TAIL_CALL;
	}
}
