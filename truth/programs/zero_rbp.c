/* Run-time code that uses rbp for something else and sets it to 0, as PHP's JIT and LuaJIT do.
 * Truth: main, call_jit, the code; a walk by frame pointer cannot know, and must not take 0 for the root. */
#include <string.h>
#include <sys/mman.h>

#include "spin.h"

EXACT void call_jit(void (*code)(void))
{
	code();
	NO_TAIL_CALL;
}

int main(void)
{
	/* push %rbp; xor %ebp, %ebp; mov $1000000, %ecx; 1: dec %ecx; jnz 1b; pop %rbp; ret */
	static const char code[] = "\x55\x31\xed\xb9\x40\x42\x0f\x00\xff\xc9\x75\xfc\x5d\xc3";
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return 1;
	memcpy(memory, code, sizeof(code) - 1);
	ready();
	for (;;)
		call_jit((void (*)(void))memory);
}
