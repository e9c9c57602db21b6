/* A function in assembly whose label the assembler drops, as those of GHC. crtbegin's frame_dummy, which has no size,
 * is the last symbol in front of it. Truth: main, enter, a function without a name. */
#include <stdint.h>

#include "truth.h"

volatile uint64_t sink;

#if defined(__x86_64__)
__asm__(".text\n"
	".Lunnamed:\n mov $30000, %ecx\n1: imul $31, %rdi, %rdi\n inc %rdi\n dec %ecx\n jnz 1b\n mov %rdi, %rax\n ret\n"
	".globl enter\n.type enter, @function\n"
	"enter:\n .cfi_startproc\n sub $8, %rsp\n .cfi_adjust_cfa_offset 8\n call .Lunnamed\n add $8, %rsp\n"
	" .cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc\n.size enter, .-enter\n");
#else
__asm__(".text\n"
	".Lunnamed:\n mov w1, #30000\n1: add x0, x0, x0, lsl #5\n subs w1, w1, #1\n b.ne 1b\n ret\n"
	".globl enter\n.type enter, %function\n"
	"enter:\n .cfi_startproc\n stp x29, x30, [sp, #-16]!\n .cfi_def_cfa_offset 16\n .cfi_offset 29, -16\n "
	".cfi_offset 30, -8\n"
	" mov x29, sp\n bl .Lunnamed\n ldp x29, x30, [sp], #16\n .cfi_restore 30\n .cfi_restore 29\n "
	".cfi_def_cfa_offset 0\n"
	" ret\n .cfi_endproc\n.size enter, .-enter\n");
#endif
uint64_t enter(uint64_t x);

int main(void)
{
	ready();
	for (;;)
		sink += enter(sink);
}
