/* Two arenas of trampolines as CPython makes them (python3 -X perf): generated code without frame pointers. C code without
 * frame pointers calls it, and it calls C code.
 * usage: trampolines
 * Truth: main, enter, py_outer, middle, py_inner, back_in_c, spin. /tmp/perf-PID.map names the py_ frames; the file stays
 * when the program is killed. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "spin.h"

#define ARENA 65536

typedef long (*evaluate_t)(long);
/* It calls the fourth argument with the other three. */
typedef long (*trampoline_t)(long, long, long, evaluate_t);

static trampoline_t inner, outer;

EXACT long back_in_c(long rounds)
{
	long result = spin(rounds);
	NO_TAIL_CALL;
	return result;
}

EXACT long middle(long rounds)
{
	long result = inner(rounds, 0, 0, back_in_c);
	NO_TAIL_CALL;
	return result;
}

EXACT long enter(long rounds)
{
	long result = outer(rounds, 0, 0, middle);
	NO_TAIL_CALL;
	return result;
}

int main(void)
{
	/* sub $8, %rsp; call *%rcx; add $8, %rsp; ret */
	static const unsigned char copy[] = { 0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3 };
	unsigned char *memory = mmap(NULL, 2 * ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[64];

	if (memory == MAP_FAILED)
		return 1;
	for (size_t arena = 0; arena < 2; arena++)
		for (size_t i = 0; i < ARENA / sizeof(copy); i++)
			memcpy(memory + arena * ARENA + i * sizeof(copy), copy, sizeof(copy));
	if (mprotect(memory, 2 * ARENA, PROT_READ | PROT_EXEC) != 0)
		return 1;
	outer = (trampoline_t)(void *)memory;
	inner = (trampoline_t)(void *)(memory + ARENA + 5000 * sizeof(copy));
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	FILE *map = fopen(path, "w");
	if (!map)
		return 1;
	fprintf(map, "%lx %zx py_outer\n%lx %zx py_inner\n", (long)outer, sizeof(copy), (long)inner, sizeof(copy));
	fclose(map);
	ready();
	for (;;)
		enter(3000);
}
