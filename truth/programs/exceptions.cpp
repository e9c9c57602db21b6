// Exceptions thrown through frames with destructors, thousands per second.
// Truth: main, attempt, level_one, level_two, level_three, then spin or functions of the C++ runtime (libstdc++, libgcc,
// libc, the loader). While a landing pad runs, the frames that the exception has left are missing at the leaf end.
// Before it jumps to a landing pad, libgcc overwrites the return address of its own frame with the address of the pad.
// For a few instructions memory then shows the frame of the pad twice, and so does every correct walk.
#include "spin.h"

struct Guard {
	long value;
	EXACT ~Guard() { spin(value); }
};

EXACT long level_three(long n)
{
	Guard guard{20};
	spin(5000);
	if (n % 4 == 0)
		throw n;
	return n;
}
EXACT long level_two(long n)
{
	Guard guard{30};
	return level_three(n) + 1;
}
EXACT long level_one(long n)
{
	Guard guard{40};
	return level_two(n) + 1;
}
EXACT long attempt(long n)
{
	try {
		return level_one(n);
	} catch (long thrown) {
		return spin(thrown % 64);
	}
}

int main()
{
	ready();
	for (long n = 0;; n++) {
		attempt(n);
		NO_TAIL_CALL;
	}
}
