/* 32-bit code without any library: built with -m32, it needs none of the packages for it. It works, and sleeps 1 ms in
 * between. Truth: no user stack is known; the cause names 32-bit code. */
static long call(long number, long first, long second, long third)
{
	long result;

	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(first), "c"(second), "d"(third) : "memory");
	return result;
}

enum { SYS_EXIT = 1, SYS_WRITE = 4, SYS_ALARM = 27, SYS_NANOSLEEP = 162, SYS_PRCTL = 172 };

__attribute__((noinline)) static void work(void)
{
	for (volatile int i = 0; i < 10000000; i++)
		;
}

void _start(void)
{
	long pause[2] = {0, 1000000};

	call(SYS_PRCTL, 1, 9, 0); /* PR_SET_PDEATHSIG, SIGKILL */
	call(SYS_ALARM, 300, 0, 0);
	call(SYS_WRITE, 1, (long)"ready\n", 6);
	for (;;) {
		work();
		call(SYS_NANOSLEEP, (long)pause, 0, 0);
	}
}
