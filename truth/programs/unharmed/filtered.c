/* Allocates and waits under a filter of system calls that it sets first. */
#include "filter.h"
#include <time.h>

int main(void)
{
	filter_calls();
	long sum = allocate(50000);
	nanosleep(&(struct timespec){0, 1000000}, NULL);
	printf("%ld\n", sum);
	return 0;
}
