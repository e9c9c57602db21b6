/* Calls whose arguments have known sums: `work` is called three times from `one` for each call from `two`. Prints the
 * sum of its results after a line comes. Some of the arguments are negative, and some pointers lead nowhere. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct part {
	long before;
	unsigned short bytes;
};

struct request {
	int kind;
	unsigned int level : 5, flags : 7;
	struct part *part;
};

static struct part part;
static struct request request = {.part = &part};

__attribute__((noipa)) static long work(int n, struct request *asked)
{
	__asm__ volatile("" ::"r"(asked) : "memory");
	return n > 0 ? n : 0;
}

__attribute__((noipa)) static long one(int n, struct request *asked)
{
	long result = work(n, asked);
	__asm__ volatile("" ::: "memory");
	return result;
}

__attribute__((noipa)) static long two(int n, struct request *asked)
{
	long result = work(n, asked);
	__asm__ volatile("" ::: "memory");
	return result;
}

/* Reads from a file without end; each tenth call fails. */
__attribute__((noipa)) static void in_kernel(int pipe_end, int call)
{
	char bytes[512];

	if (read(call % 10 ? pipe_end : -1, bytes, call % sizeof(bytes)) < 0)
		__asm__ volatile("" ::: "memory");
}

int main(void)
{
	FILE *zeros = fopen("/dev/zero", "r");
	char line[8];
	long sum = 0;

	if (!zeros || !fgets(line, sizeof(line), stdin))
		return 1;
	for (int call = 0; call < CALLS; call++) {
		request.level = call % 32;
		request.flags = call % 128;
		part.bytes = call % 1000;
		/* Each tenth value is negative, each eighth pointer leads nowhere. */
		sum += (call % 4 ? one : two)(call % 10 ? call : -call, call % 8 ? &request : NULL);
		in_kernel(fileno(zeros), call);
	}
	printf("%ld\n", sum);
	fflush(stdout);
	fgets(line, sizeof(line), stdin);
	return 0;
}
