/* The library of `plt` and `mappings`: small functions in one page. `tiny` returns at once; `hop` calls the function that it
 * gets as argument and uses no other symbol. */
#include "truth.h"

EXACT long tiny(long x)
{
	return x + 1;
}

EXACT __attribute__((aligned(256))) long hop(long (*callee)(long), long x)
{
	volatile char buffer[56];
	buffer[x % 56] = 1;
	return callee(x) + buffer[x % 56];
}
