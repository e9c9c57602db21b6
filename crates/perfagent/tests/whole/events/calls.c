/* Waits for a line, then calls `work` CALLS times in each of CHILDREN children, one after the other, and in itself: three of four times from
 * `one`, else from `two`. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEEP __asm__ volatile("" ::: "memory")

__attribute__((noinline)) int work(int n)
{
	KEEP;
	return n * 3;
}

__attribute__((noinline)) int one(int n)
{
	int result = work(n) + 1;

	KEEP;
	return result;
}

__attribute__((noinline)) int two(int n)
{
	int result = work(n) + 2;

	KEEP;
	return result;
}

__attribute__((noinline)) void calls(void)
{
	for (int i = 0; i < CALLS; i++) {
		if (i % 4)
			one(i);
		else
			two(i);
	}
}

int main(void)
{
	getchar();
	for (int child = 0; child < CHILDREN; child++) {
		if (fork() == 0) {
			calls();
			_exit(0);
		}
		wait(NULL);
	}
	calls();
	puts("0");
	fflush(stdout);
	getchar();
	return 0;
}
