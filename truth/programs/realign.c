/* Functions that realign their stack: 64-byte aligned locals, alone and together with alloca (the compiler then finds
 * the caller's frame through a register of its own, DRAP).
 * At three instructions near the end of align_two, gcc's unwind information gives a wrong place for the saved rbp, which is
 * popped already. spin takes so long that few samples hit these instructions.
 * Truth: main, align_one, align_two, align_one, align_two, …, ten in all, spin. */
#include <alloca.h>

#include "spin.h"

long align_two(long depth, long rounds);

EXACT long align_one(long depth, long rounds)
{
	_Alignas(64) volatile char block[128];
	block[depth] = 1;
	long result = align_two(depth - 1, rounds);
	return result + block[depth];
}

EXACT long align_two(long depth, long rounds)
{
	_Alignas(64) volatile char block[64];
	volatile char *extra = alloca((unsigned long)(depth * 16 + 16));
	block[depth] = extra[0] = 2;
	long result = depth > 1 ? align_one(depth - 1, rounds) : spin(rounds);
	return result + block[depth] + extra[0];
}

int main(void)
{
	ready();
	for (;;) {
		align_one(10, 10000);
		NO_TAIL_CALL;
	}
}
