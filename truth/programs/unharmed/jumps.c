/* Jumps out of nested calls, out of a function that allocates, and out of a signal handler. */
#include "unharmed.h"
#include <setjmp.h>
#include <signal.h>

static jmp_buf place;
static sigjmp_buf safe_place;
static volatile int odd;

N int deep(int depth)
{
	char *memory = malloc(64);
	CHECK(memory);
	memory[0] = (char)depth;
	if (!depth && odd)
		longjmp(place, 1);
	int sum = depth ? deep(depth - 1) + memory[0] : 0;
	free(memory);
	return sum;
}

static void handler(int number)
{
	siglongjmp(safe_place, number);
}

N int faults(volatile int *at)
{
	return *at;
}

int main(void)
{
	volatile long jumped = 0, faulted = 0, sum = 0;
	signal(SIGSEGV, handler);
	for (volatile int i = 0; i < 2000; i++) {
		if (setjmp(place))
			jumped++;
		else {
			odd = i % 2;
			sum += deep(i % 20);
		}
		if (sigsetjmp(safe_place, 1))
			faulted++;
		else
			faults(NULL);
	}
	printf("%ld %ld %ld\n", jumped, faulted, sum);
	return 0;
}
