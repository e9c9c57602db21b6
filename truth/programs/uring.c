/* A thread that the kernel makes in a process: io_uring's poller, which sleeps until there is work.
 * usage: uring MILLISECONDS
 * Ends by itself after that time. Prints "poller" if there is one, else "refused": the kernel has no io_uring, or it is switched off.
 * Truth: a thread without a user stack, and one in main, nanosleep in libc. */
#include <linux/io_uring.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "truth.h"

int main(int argc, char **argv)
{
	struct io_uring_params wanted = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 50};

	printf("%s\n", syscall(SYS_io_uring_setup, 8, &wanted) < 0 ? "refused" : "poller");
	ready();
	usleep((unsigned int)argument(argc, argv, 1, 500) * 1000);
	return 0;
}
