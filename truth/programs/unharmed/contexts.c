/* Coroutines by swapcontext, which are left for good in the middle, and stacks that are freed under them. */
#include "unharmed.h"
#include <ucontext.h>

static ucontext_t own, other;
static long value;

N void yields(int depth)
{
	char *memory = malloc(40);
	if (depth)
		yields(depth - 1);
	else
		for (;;) {
			value++;
			swapcontext(&other, &own);
		}
	free(memory);
}

static void body(void)
{
	yields(5);
}

int main(void)
{
	for (int i = 0; i < 300; i++) {
		char *stack = malloc(1 << 16);
		CHECK(!getcontext(&other));
		other.uc_stack.ss_sp = stack;
		other.uc_stack.ss_size = 1 << 16;
		other.uc_link = &own;
		makecontext(&other, body, 0);
		for (int j = 0; j < 50; j++)
			CHECK(!swapcontext(&own, &other));
		/* It never returns. */
		free(stack);
	}
	printf("%ld\n", value);
	return 0;
}
