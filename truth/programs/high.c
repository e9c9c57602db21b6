/* A stack and code at addresses above 47 bits, where the processor and the kernel have them (5-level paging). Memory comes
 * from there only if it is asked for.
 * usage: high [must]
 * must: it ends with an error where there are no such addresses. Without it the same is done at others.
 * Truth: main, switching, on_high_stack, generated code, back_in_c, spin. */
#include <string.h>
#include <sys/mman.h>

#include "generated.h"
#include "spin.h"
#include "switching.h"

#define STACK_BYTES (256UL << 10)

typedef long (*code_t)(long);

EXACT long back_in_c(long rounds)
{
	long result = spin(rounds);
	NO_TAIL_CALL;
	return result;
}

static code_t code;

EXACT void on_high_stack(long rounds)
{
	code(rounds);
	NO_TAIL_CALL;
}

SWITCHING(on_high_stack);

static char *memory_at(unsigned long address, unsigned long bytes, int protection)
{
	return mmap((void *)address, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(int argc, char **argv)
{
	char *page = memory_at(0xabUL << 48, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	char *stack = memory_at(0xcdUL << 48, STACK_BYTES, PROT_READ | PROT_WRITE);

	if (page == MAP_FAILED || stack == MAP_FAILED)
		return 1;
	if (argc > 1 && strcmp(argv[1], "must") == 0 && (((unsigned long)page | (unsigned long)stack) >> 48) != 0xef)
		return 1;
	emit((unsigned char *)page, (const void *)back_in_c);
	code = (code_t)(void *)page;
	ready();
	for (;;)
		switching(3000, stack + STACK_BYTES);
}
