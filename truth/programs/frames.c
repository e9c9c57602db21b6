/* Frames of odd size: alloca in a loop, a variable-length array, 100 KiB of locals.
 * Truth: main, grow (alloca), variable (VLA), huge (100 KiB), spin. */
#include <alloca.h>

#include "spin.h"

EXACT long huge(long rounds)
{
	volatile char buffer[100 * 1024];
	buffer[rounds % sizeof(buffer)] = 1;
	long result = spin(rounds);
	return result + buffer[rounds % sizeof(buffer)];
}

EXACT long variable(long length, long rounds)
{
	volatile char buffer[length];
	buffer[length - 1] = 2;
	long result = huge(rounds);
	return result + buffer[length - 1];
}

EXACT long grow(long pieces)
{
	volatile char *last = NULL;
	for (long i = 1; i <= pieces; i++) {
		last = alloca((unsigned long)(i * 24));
		*last = (char)i;
	}
	long result = variable(pieces * 10 + 1, 1500);
	return result + *last;
}

int main(void)
{
	ready();
	for (long n = 1;; n = n % 50 + 1) {
		grow(n);
		NO_TAIL_CALL;
	}
}
