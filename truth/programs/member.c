/* One process of a fleet: mostly asleep, a little CPU every 20 ms. Its objects are linked many times under different
 * build-ids, as programs and as libraries. */
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
