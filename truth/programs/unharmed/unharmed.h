/*
 * For programs that check themselves: what they print and their exit status are the same each time, unless somebody interferes.
 */
#ifndef UNHARMED_H
#define UNHARMED_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N __attribute__((noinline, noclone))
/* Ends the program with its place if something is not as it should be. */
#define CHECK(holds)                                                                        \
	do {                                                                                \
		if (!(holds)) {                                                             \
			printf("%s:%d: not %s (%s)\n", __FILE__, __LINE__, #holds, strerror(errno)); \
			fflush(stdout);                                                     \
			_Exit(1);                                                           \
		}                                                                           \
	} while (0)

#endif
