// Small functions of each kind, without libraries. fuzz/corpus/compile/aarch64 is this, assembled and linked:
//   aarch64-linux-gnu-as aarch64.s -o a.o
//   aarch64-linux-gnu-ld -z max-page-size=4096 -z noseparate-code --build-id=none -o aarch64 a.o
	.arch armv8.3-a
	.text
	.globl _start
	.type _start, %function
_start:
	mov x29, #0
	mov x30, #0
	bl signed_frame
	brk #1
	.size _start, .-_start

	.balign 16
	.globl signed_frame
	.type signed_frame, %function
signed_frame:
	.cfi_startproc
	paciasp
	.cfi_negate_ra_state
	stp x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	mov x29, sp
	bl large_frame
	ldp x29, x30, [sp], #32
	.cfi_restore 30
	.cfi_restore 29
	.cfi_def_cfa_offset 0
	autiasp
	.cfi_negate_ra_state
	ret
	.cfi_endproc
	.size signed_frame, .-signed_frame

	.balign 16
	.globl large_frame
	.type large_frame, %function
large_frame:
	.cfi_startproc
	sub sp, sp, #20, lsl #12
	.cfi_def_cfa_offset 81920
	stp x29, x30, [sp]
	.cfi_offset 29, -81920
	.cfi_offset 30, -81912
	bl leaf
	ldp x29, x30, [sp]
	.cfi_restore 30
	.cfi_restore 29
	add sp, sp, #20, lsl #12
	.cfi_def_cfa_offset 0
	ret
	.cfi_endproc
	.size large_frame, .-large_frame

	.balign 16
	.globl leaf
	.type leaf, %function
leaf:
	cmp x0, #3
	b.eq 1f
	add x0, x0, #1
1:	ret
	.size leaf, .-leaf

	.balign 16
	.globl pushes
	.type pushes, %function
pushes:
	str x19, [sp, #-16]!
	ldr x19, [sp], #16
	ret
	.size pushes, .-pushes

	nop
	.globl trampoline
	.type trampoline, %notype
trampoline:
	mov x8, #139
	svc #0
	.size trampoline, .-trampoline
