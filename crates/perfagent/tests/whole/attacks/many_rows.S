/* SPDX-License-Identifier: Apache-2.0 */
/* ROWS rows of unwind information, each for one instruction; no two that follow each other are equal. */
	.text
	.globl many_rows
	.type many_rows, @function
many_rows:
	.cfi_startproc
	.rept ROWS / 2
	.byte 0x0f, 0x1f, 0x40, 0x00
	.cfi_def_cfa_offset 24
	.byte 0x0f, 0x1f, 0x40, 0x00
	.cfi_def_cfa_offset 16
	.endr
	ret
	.cfi_endproc
	.size many_rows, . - many_rows
	.section .note.GNU-stack, "", @progbits
