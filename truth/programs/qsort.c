/* libc calls back into the program: qsort of 256 elements with a comparison function that burns CPU time.
 * Truth: main, sort, one or more frames of libc's qsort, compare, spin. */
#include "spin.h"

static int values[256];

EXACT int compare(const void *a, const void *b)
{
	int difference = *(const int *)a - *(const int *)b;
	difference += (int)(spin(60) & 1) * 0;
	return difference;
}

EXACT void sort(void)
{
	qsort(values, 256, sizeof(values[0]), compare);
	NO_TAIL_CALL;
}

int main(void)
{
	ready();
	for (unsigned seed = 1;;) {
		for (int i = 0; i < 256; i++) {
			seed = seed * 1103515245u + 12345u;
			values[i] = (int)(seed >> 8);
		}
		sort();
	}
}
