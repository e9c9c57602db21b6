/* Computes and writes in seccomp's strict mode, where any other system call ends the thread. */
#include "unharmed.h"
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

N static unsigned long steps(unsigned long value)
{
	for (int i = 0; i < 200000; i++)
		value = value * 6364136223846793005UL + 1442695040888963407UL;
	return value;
}

int main(void)
{
	unsigned long value = 1;
	char text[32];
	/* What the allocator needs of the kernel, it has before. */
	for (int i = 0; i < 1000; i++)
		free(malloc(1000));
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) {
		/* A filter that is there already forbids it. */
		puts("no strict mode");
		return 0;
	}
	for (int i = 0; i < 200; i++)
		value = steps(value);
	for (int i = 0; i < 20000; i++)
		free(malloc(1000));
	for (int i = 0; i < 16; i++)
		text[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
	text[16] = '\n';
	if (write(1, text, 17) != 17)
		syscall(SYS_exit, 1);
	syscall(SYS_exit, 5);
	return 0;
}
