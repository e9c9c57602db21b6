/* A restartable sequence. The kernel sends a thread that it interrupts in there to other code when it goes on: in this
 * case to a function that works for some time.
 * Truth: main, attempt, sequence or sequence_aborted. */
#include <stddef.h>
#include <sys/rseq.h>

#include "truth.h"

/* sequence(area, rounds) */
__asm__(".text\n"
	".globl sequence\n"
	".type sequence, @function\n"
	"sequence:\n"
	".cfi_startproc\n"
	"lea section(%rip), %rax\n"
	"mov %rax, 8(%rdi)\n"
	"begin_of_section:\n"
	"dec %rsi\n"
	"jnz begin_of_section\n"
	"end_of_section:\n"
	"movq $0, 8(%rdi)\n"
	"ret\n"
	".cfi_endproc\n"
	".size sequence, . - sequence\n"
	/* ud1 with the signature that the kernel asks for */
	".byte 0x0f, 0xb9, 0x3d\n"
	".long 0x53053053\n"
	".globl sequence_aborted\n"
	".type sequence_aborted, @function\n"
	"sequence_aborted:\n"
	".cfi_startproc\n"
	"mov $3000000, %esi\n"
	"1: dec %rsi\n"
	"jnz 1b\n"
	"ret\n"
	".cfi_endproc\n"
	".size sequence_aborted, . - sequence_aborted\n"
	".section .data.rel.ro, \"aw\"\n"
	".balign 32\n"
	"section:\n"
	".long 0, 0\n"
	".quad begin_of_section, end_of_section - begin_of_section, sequence_aborted\n"
	".text\n");
void sequence(void *area, long rounds);

EXACT void attempt(void)
{
	sequence((char *)__builtin_thread_pointer() + __rseq_offset, 3000000);
	NO_TAIL_CALL;
}

int main(void)
{
	ready();
	for (;;)
		attempt();
}
