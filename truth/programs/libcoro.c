/* A coroutine as libcoro makes it: its first function would return to abort, which nothing calls. The switch is assembly
 * without frame information.
 * Truth: first_of_coroutine, worker, leaf, without a frame above; main and the switch. */
#include "spin.h"

static void *sp_main, *sp_coroutine;
void switch_to(void **save, void *load);

__asm__(".text\n.globl switch_to\n.type switch_to, @function\nswitch_to:\n"
	"push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
	"mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
	"pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
	".size switch_to, . - switch_to\n");

EXACT long leaf(long rounds)
{
	long result = spin(rounds);
	NO_TAIL_CALL;
	return result;
}

EXACT long worker(long rounds)
{
	long result = leaf(rounds) + leaf(rounds + 1);
	NO_TAIL_CALL;
	return result;
}

EXACT void first_of_coroutine(void)
{
	for (;;) {
		worker(3000);
		switch_to(&sp_coroutine, sp_main);
	}
}

int main(void)
{
	static char stack[1 << 16] __attribute__((aligned(4096)));
	void **sp = (void **)(stack + sizeof(stack));

	*--sp = (void *)abort;
	*--sp = (void *)first_of_coroutine;
	for (int i = 0; i < 6; i++)
		*--sp = NULL;
	sp_coroutine = sp;
	ready();
	for (;;)
		switch_to(&sp_main, sp_coroutine);
}
