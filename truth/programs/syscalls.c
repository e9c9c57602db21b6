/* Spends nearly all its time in the kernel: short system calls, and reads of zeros.
 * Truth: main, (ask_kernel | fill), the wrapper in libc. */
#include <fcntl.h>
#include <sys/syscall.h>

#include "truth.h"

static char buffer[65536];

EXACT long ask_kernel(void)
{
	long result = 0;
	for (int i = 0; i < 50; i++)
		result += getppid();
	return result;
}

EXACT long fill(int zero)
{
	long result = read(zero, buffer, sizeof(buffer));
	NO_TAIL_CALL;
	return result;
}

int main(void)
{
	int zero = open("/dev/zero", O_RDONLY);
	ready();
	for (;;) {
		ask_kernel();
		fill(zero);
		NO_TAIL_CALL;
	}
}
