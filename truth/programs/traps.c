/* Breakpoint instructions, as debuggers put them into code; a handler of SIGTRAP works and returns behind them.
 * Truth: main, trap, [signal], on_trap, spin. */
#include "spin.h"

EXACT void on_trap(int number)
{
	spin(3000 + (number & 1));
	NO_TAIL_CALL;
}

EXACT void trap(void)
{
	__asm__ volatile("int3");
	NO_TAIL_CALL;
}

int main(void)
{
	struct sigaction action = {.sa_handler = on_trap};

	sigaction(SIGTRAP, &action, NULL);
	ready();
	for (;;)
		trap();
}
