/* For libraries.c: a library with a constructor, a destructor and memory of its own. */
#include <stdlib.h>

int library_state;

__attribute__((constructor)) static void begin(void)
{
	library_state = 1;
}

__attribute__((destructor)) static void end(void)
{
	library_state = 0;
}

long library_work(long value)
{
	char *memory = malloc(200);
	memory[0] = (char)value;
	long result = memory[0] + library_state;
	free(memory);
	return result;
}
