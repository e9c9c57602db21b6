/* Coroutines on stacks of their own, made by makecontext: a stack starts with a function that nothing calls.
 * Truth: main, and the switch to a coroutine; or the C library's start of a context, coroutine, level, spin. */
#include <ucontext.h>

#include "spin.h"

#define COROUTINES 4
#define SIZE (256 << 10)

static ucontext_t of_main, contexts[COROUTINES];

EXACT void level(long number)
{
	spin(20000 + number);
	NO_TAIL_CALL;
}

EXACT void coroutine(int number)
{
	for (;;) {
		level(number);
		swapcontext(&contexts[number], &of_main);
	}
}

int main(void)
{
	for (int i = 0; i < COROUTINES; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = malloc(SIZE);
		contexts[i].uc_stack.ss_size = SIZE;
		contexts[i].uc_link = &of_main;
		makecontext(&contexts[i], (void (*)(void))coroutine, 1, i);
	}
	ready();
	for (unsigned i = 0;; i++)
		swapcontext(&of_main, &contexts[i % COROUTINES]);
}
