/* Generated code with frame pointers, in anonymous memory. C code without frame pointers calls it, and it calls C code.
 * usage: jit named|anonymous
 * named: /tmp/perf-PID.map names the two generated functions; the file stays when the program is killed.
 * Truth: main, enter, jit_outer, jit_inner, back_in_c, spin; with "anonymous", the jit_ frames have no names. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "generated.h"
#include "spin.h"

typedef long (*code_t)(long);

EXACT long back_in_c(long rounds)
{
	long result = spin(rounds);
	NO_TAIL_CALL;
	return result;
}

EXACT long enter(code_t code, long rounds)
{
	long result = code(rounds);
	NO_TAIL_CALL;
	return result;
}

int main(int argc, char **argv)
{
	unsigned char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *inner = memory, *outer = emit(inner, (const void *)back_in_c), *end = emit(outer, inner);

	if (argc > 1 && strcmp(argv[1], "named") == 0) {
		char path[64];
		snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
		FILE *map = fopen(path, "w");
		if (!map)
			return 1;
		fprintf(map, "%lx %lx jit_inner\n%lx %lx jit_outer\n", (long)inner, (long)(outer - inner), (long)outer,
			(long)(end - outer));
		fclose(map);
	}
	ready();
	for (;;)
		enter((code_t)(void *)outer, 3000);
}
