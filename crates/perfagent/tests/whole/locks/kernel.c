/* Waits for locks of the kernel that a sleeping thread has: it writes memory that is not there yet into a pipe, under the mutex of the pipe, or into
 * a file, under the read-write semaphore of the file. It begins when it reads a byte, and prints the time of the waits in ns, 0 where it may not. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_barrier_t round_begins, round_ends;
static int faults, out, waiter_tid, holder_asleep;
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

/* Whether the waiter sleeps in the kernel where no signal wakes it, as threads that wait for a lock do. */
static int waiter_sleeps(void)
{
	char path[64], text[512], *state;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", waiter_tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length <= 0)
		return 0;
	text[length] = 0;
	state = strrchr(text, ')');
	return state && state[2] == 'D';
}

/* Gives the page 10 ms after the waiter has begun to wait for the holder, which has asked for it. */
static void *giver(void *unused)
{
	struct uffd_msg message;

	while (read(faults, &message, sizeof(message)) == sizeof(message)) {
		struct uffdio_zeropage zero = {.range = {(unsigned long)page, 4096}};

		__atomic_store_n(&holder_asleep, 1, __ATOMIC_RELEASE);
		while (!waiter_sleeps())
			sleep_us(100);
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

	waiter_tid = syscall(SYS_gettid);
	for (i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&round_begins);
		while (!__atomic_exchange_n(&holder_asleep, 0, __ATOMIC_ACQUIRE))
			sleep_us(100);
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
