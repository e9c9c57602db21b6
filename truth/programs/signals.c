/* Half of the CPU time is spent in signal handlers, which interrupt a function at any instruction.
 * usage: signals plain|altstack
 * Truth: main, work, spin (or none), the signal trampoline, on_signal, handle, spin. */
#include <string.h>
#include <sys/time.h>

#include "spin.h"

EXACT long handle(long rounds)
{
	long result = spin(rounds);
	NO_TAIL_CALL;
	return result;
}

EXACT void on_signal(int number)
{
	handle(4000000 + number);
	NO_TAIL_CALL;
}

EXACT long work(void)
{
	long result = spin(500);
	NO_TAIL_CALL;
	return result;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct itimerval timer = { { 0, 1000 }, { 0, 1000 } };

	if (argc > 1 && strcmp(argv[1], "altstack") == 0) {
		stack_t stack = { .ss_sp = malloc(1 << 18), .ss_size = 1 << 18 };
		sigaltstack(&stack, NULL);
		action.sa_flags = SA_ONSTACK;
	}
	sigaction(SIGPROF, &action, NULL);
	setitimer(ITIMER_PROF, &timer, NULL);
	ready();
	for (;;)
		work();
}
