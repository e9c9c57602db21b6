/* SPDX-License-Identifier: Apache-2.0 */
/* A file with 32,768 different unwind rules, as any user can make one. It computes until it is killed. */
asm(".text\n"
    ".type many_rules, @function\n"
    "many_rules:\n"
    ".cfi_startproc\n"
    ".set room, 16\n"
    ".rept 32768\n"
    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n" /* a nop of five bytes */
    ".set room, room + 8\n"
    ".cfi_def_cfa_offset room\n"
    ".endr\n"
    "ret\n"
    ".cfi_endproc\n"
    ".size many_rules, . - many_rules\n");

int main(void)
{
	for (volatile unsigned long turns = 0;; turns++)
		;
}
