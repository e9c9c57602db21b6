/* One process of a fleet: it sleeps most of the time and computes a little every 20 ms. Its object files are linked many
 * times, as programs and as libraries, each time with another build-id. */
#include "spin.h"

EXACT long member_work(long rounds)
{
	long result = spin(rounds);
	NO_TAIL_CALL;
	return result;
}

int main(void)
{
	ready();
	for (;;) {
		member_work(20000);
		usleep(20000);
	}
}
