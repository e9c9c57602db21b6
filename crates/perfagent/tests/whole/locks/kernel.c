/* Waits for locks of the kernel that a sleeping thread has: it writes memory that is not there yet into a pipe, under the mutex of the pipe, or into
 * a file, under the read-write semaphore of the file. It begins when it reads a byte, and prints the time of the waits in ns, 0 where it may not. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_barrier_t round_begins, round_ends;
static int faults, out;
static char *page;
static long waited_ns;

static void sleep_us(long us)
{
	struct timespec moment = {.tv_nsec = us * 1000};

	nanosleep(&moment, NULL);
}

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* Gives the page 10 ms after somebody has asked for it. */
static void *giver(void *unused)
{
	struct uffd_msg message;

	while (read(faults, &message, sizeof(message)) == sizeof(message)) {
		struct uffdio_zeropage zero = {.range = {(unsigned long)page, 4096}};

		sleep_us(10000);
		ioctl(faults, UFFDIO_ZEROPAGE, &zero);
	}
	return unused;
}

__attribute__((noinline)) static void write_with_lock(void)
{
	if (write(out, page, 1) != 1)
		_exit(1);
	asm volatile("");
}

static void *holder(void *unused)
{
	long i;

	for (i = 0; i < ROUNDS; i++) {
		madvise(page, 4096, MADV_DONTNEED);
		pthread_barrier_wait(&round_begins);
		write_with_lock();
		pthread_barrier_wait(&round_ends);
	}
	return unused;
}

__attribute__((noinline)) static void wait_in_kernel(void)
{
	if (write(out, "x", 1) != 1)
		_exit(1);
	asm volatile("");
}

static void *waiter(void *unused)
{
	long i, from;

	for (i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&round_begins);
		/* Meanwhile the holder falls asleep. */
		sleep_us(2000);
		from = now_ns();
		wait_in_kernel();
		waited_ns += now_ns() - from;
		pthread_barrier_wait(&round_ends);
	}
	return unused;
}

static void contend(int fd)
{
	pthread_t threads[2];

	out = fd;
	pthread_create(&threads[0], NULL, holder, NULL);
	pthread_create(&threads[1], NULL, waiter, NULL);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
}

int main(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	pthread_t thread;
	int pipes[2];
	char byte;

	pthread_barrier_init(&round_begins, NULL, 2);
	pthread_barrier_init(&round_ends, NULL, 2);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	faults = syscall(SYS_userfaultfd, O_CLOEXEC);
	range.range.start = (unsigned long)page;
	range.range.len = 4096;
	if (read(0, &byte, 1) != 1)
		return 1;
	if (faults >= 0 && !ioctl(faults, UFFDIO_API, &api) && !ioctl(faults, UFFDIO_REGISTER, &range)) {
		pthread_create(&thread, NULL, giver, NULL);
		if (pipe(pipes))
			return 1;
		contend(pipes[1]);
		contend(memfd_create("file", 0));
	}
	printf("%ld\n", waited_ns);
	fflush(stdout);
	pause();
	return 0;
}
