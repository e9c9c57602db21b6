/* SPDX-License-Identifier: Apache-2.0 */
/* Computes for so many milliseconds of CPU time in functions whose frames have sizes of their own. Its stack is large, so few of
 * its samples could be walked in user space. */
#include <stdlib.h>
#include <time.h>

static clock_t end;

static __attribute__((noinline)) unsigned leaf(unsigned turns)
{
	volatile char room[1016];

	for (; clock() < end; turns++)
		for (unsigned at = 0; at < 1000000; at++)
			room[at % sizeof(room)] = (char)turns;
	return turns;
}

#define CALLER(name, callee, size)                                                                                     \
	static __attribute__((noinline)) unsigned name(unsigned turns)                                                 \
	{                                                                                                              \
		volatile char room[size];                                                                              \
                                                                                                                       \
		room[0] = (char)turns;                                                                                 \
		turns = callee(turns + 1);                                                                             \
		return turns + (unsigned)room[0];                                                                      \
	}
CALLER(one, leaf, 16040)
CALLER(two, one, 17064)
CALLER(three, two, 18088)
CALLER(four, three, 19112)

int main(int count, char **words)
{
	end = clock() + (count > 1 ? atol(words[1]) : 1000) * (CLOCKS_PER_SEC / 1000);
	return four(1) == 0;
}
