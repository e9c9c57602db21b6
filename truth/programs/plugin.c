/* The library of `host`: plugin_entry, plugin_middle and plugin_burn call each other in this order. */
#include "spin.h"

EXACT long plugin_burn(long rounds)
{
	long result = spin(rounds);
	NO_TAIL_CALL;
	return result;
}

EXACT long plugin_middle(long rounds)
{
	volatile char buffer[72];
	buffer[rounds % 72] = 1;
	return plugin_burn(rounds) + buffer[rounds % 72];
}

EXACT long plugin_entry(long rounds)
{
	long result = plugin_middle(rounds);
	NO_TAIL_CALL;
	return result;
}
