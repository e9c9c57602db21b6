/* SWITCHING(FUNCTION) makes switching(rounds, stack), which calls FUNCTION(rounds) on another stack. Unwind information finds
 * the caller's frame by the frame pointer. */
#ifndef SWITCHING_H
#define SWITCHING_H

void switching(long rounds, char *stack);

#define SWITCHING(function) \
	__asm__(".text\n" \
		".globl switching\n" \
		".type switching, @function\n" \
		"switching:\n" \
		".cfi_startproc\n" \
		"push %rbp\n" \
		".cfi_def_cfa_offset 16\n" \
		".cfi_offset %rbp, -16\n" \
		"mov %rsp, %rbp\n" \
		".cfi_def_cfa_register %rbp\n" \
		"mov %rsi, %rsp\n" \
		"call " #function "\n" \
		"mov %rbp, %rsp\n" \
		"pop %rbp\n" \
		".cfi_def_cfa %rsp, 8\n" \
		"ret\n" \
		".cfi_endproc\n" \
		".size switching, . - switching\n")

#endif
