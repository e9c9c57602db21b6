/* Threads that block, each in its own way and in its own function: nanosleep, condition variable, contended mutex, pipe,
 * poll, epoll, fsync, page faults on a file that is not in memory.
 * usage: blocking MILLISECONDS FOLDER [wait]
 * Runs for that time (with "wait": counted from the runner's line), writes its files to FOLDER, then prints one line
 * "site NAME WALL CPU VOLUNTARY INVOLUNTARY" per function and ends: wall-clock time and CPU time inside that function, in
 * ns, and the kernel's count of the thread's switches there. Last it prints one line "process blocking WALL CPU VOLUNTARY
 * INVOLUNTARY": the same for all threads of the process together, since its start (or the runner's line).
 * Truth: thread start, worker, one of the functions site_*, the call in libc (site_fault calls nothing). The main thread
 * waits in main, site_join. For each function, off-CPU time is WALL - CPU, blocks are VOLUNTARY, preemptions INVOLUNTARY. */
#include "metered.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>

enum { PAGE = 4096, FILE_PAGES = 4096, FAULTS = 32, FLUSHES = 8, PERIOD_US = 5000 };

static unsigned long end_ns;
static int others;
static int pipe_ends[3][2], epoll, log_file, data_file;
static const volatile char *data;
static pthread_mutex_t contended = PTHREAD_MUTEX_INITIALIZER, guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static unsigned long turns;

static void take(int which)
{
	char bytes[64];
	if (read(pipe_ends[which][0], bytes, sizeof(bytes)) <= 0)
		_exit(1);
}

EXACT void site_nanosleep(void)
{
	sleep_us(7000);
	NO_TAIL_CALL;
}

EXACT void site_condvar(void)
{
	pthread_mutex_lock(&guard);
	for (unsigned long seen = turns; seen == turns;)
		pthread_cond_wait(&turned, &guard);
	pthread_mutex_unlock(&guard);
	NO_TAIL_CALL;
}

EXACT void site_mutex(void)
{
	pthread_mutex_lock(&contended);
	pthread_mutex_unlock(&contended);
	NO_TAIL_CALL;
}

EXACT void site_pipe(void)
{
	take(0);
	NO_TAIL_CALL;
}

EXACT void site_poll(void)
{
	struct pollfd wanted = { pipe_ends[1][0], POLLIN, 0 };
	poll(&wanted, 1, 10000);
	NO_TAIL_CALL;
}

EXACT void site_epoll(void)
{
	struct epoll_event event;
	epoll_wait(epoll, &event, 1, 10000);
	NO_TAIL_CALL;
}

EXACT void site_fsync(unsigned long round)
{
	char line[512] = "line";
	for (unsigned long i = 0; i < FLUSHES; i++) {
		off_t place = (off_t)((round * FLUSHES + i) % 1024 * sizeof(line));
		if (pwrite(log_file, line, sizeof(line), place) < 0 || fsync(log_file) < 0)
			_exit(1);
	}
	NO_TAIL_CALL;
}

/* It calls nothing: the thread blocks at a load instruction. */
EXACT long site_fault(unsigned long seed)
{
	long sum = 0;
	for (int i = 0; i < FAULTS; i++) {
		seed = seed * 6364136223846793005UL + 1442695040888963407UL;
		sum += data[(seed >> 33) % FILE_PAGES * PAGE];
	}
	return sum;
}

EXACT void site_hold(void)
{
	sleep_us(PERIOD_US);
	NO_TAIL_CALL;
}

EXACT void site_rest(void)
{
	sleep_us(2000);
	NO_TAIL_CALL;
}

EXACT void site_drive(void)
{
	sleep_us(PERIOD_US);
	NO_TAIL_CALL;
}

EXACT void site_join(pthread_t thread)
{
	pthread_join(thread, NULL);
	NO_TAIL_CALL;
}

enum site { NANOSLEEP, CONDVAR, MUTEX, PIPE, POLL, EPOLL, FSYNC, FAULT, HOLD, REST, DRIVE, JOIN, SITES };

static const char *const names[SITES] = { "site_nanosleep", "site_condvar", "site_mutex", "site_pipe",
	"site_poll", "site_epoll", "site_fsync", "site_fault", "site_hold", "site_rest", "site_drive", "site_join" };

static struct meter meters[SITES];

#define METERED(site, call) \
	do { \
		struct meter begun_ = meter_now(); \
		call; \
		meter_add(&meters[site], begun_); \
	} while (0)

static void forget_data(void)
{
	madvise((void *)(unsigned long)data, FILE_PAGES * PAGE, MADV_DONTNEED);
	posix_fadvise(data_file, 0, 0, POSIX_FADV_DONTNEED);
}

/* Calls the function of a site once, and prepares the next call so that it blocks too. */
static void once(enum site site, unsigned long round)
{
	switch (site) {
	case NANOSLEEP: METERED(site, site_nanosleep()); break;
	case CONDVAR: METERED(site, site_condvar()); break;
	case MUTEX:
		METERED(site, site_mutex());
		METERED(REST, site_rest());
		break;
	case PIPE: METERED(site, site_pipe()); break;
	case POLL:
		METERED(site, site_poll());
		take(1);
		break;
	case EPOLL:
		METERED(site, site_epoll());
		take(2);
		break;
	case FSYNC:
		METERED(site, site_fsync(round));
		METERED(REST, site_rest());
		break;
	case FAULT:
		forget_data();
		METERED(site, site_fault(round));
		METERED(REST, site_rest());
		break;
	case HOLD:
		pthread_mutex_lock(&contended);
		METERED(site, site_hold());
		pthread_mutex_unlock(&contended);
		METERED(REST, site_rest());
		break;
	default: break;
	}
}

static void drive(void)
{
	while (__atomic_load_n(&others, __ATOMIC_ACQUIRE) > 0) {
		METERED(DRIVE, site_drive());
		for (int i = 0; i < 3; i++)
			if (write(pipe_ends[i][1], "", 1) < 0)
				_exit(1);
		pthread_mutex_lock(&guard);
		turns++;
		pthread_mutex_unlock(&guard);
		pthread_cond_broadcast(&turned);
	}
}

EXACT void *worker(void *which)
{
	enum site site = (enum site)(unsigned long)which;
	prctl(PR_SET_NAME, names[site]);
	meter_now(); /* its first call causes a page fault, which may block */
	if (site == DRIVE) {
		drive();
		return NULL;
	}
	for (unsigned long round = 1; clock_ns(CLOCK_MONOTONIC) < end_ns; round++)
		once(site, round);
	__atomic_fetch_sub(&others, 1, __ATOMIC_RELEASE);
	return NULL;
}

static int file_in(const char *folder, const char *name)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/blocking-%d-%s", folder, getpid(), name);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || unlink(path) < 0) {
		perror(path);
		exit(1);
	}
	return fd;
}

static void open_all(const char *folder)
{
	static char page[PAGE];
	struct epoll_event event = { .events = EPOLLIN };

	for (int i = 0; i < 3; i++)
		if (pipe(pipe_ends[i]) < 0)
			exit(1);
	epoll = epoll_create1(0);
	epoll_ctl(epoll, EPOLL_CTL_ADD, pipe_ends[2][0], &event);
	log_file = file_in(folder, "log");
	data_file = file_in(folder, "data");
	for (int i = 0; i < FILE_PAGES; i++)
		if (write(data_file, page, PAGE) != PAGE)
			exit(1);
	fsync(data_file);
	data = mmap(NULL, FILE_PAGES * PAGE, PROT_READ, MAP_SHARED, data_file, 0);
	if (data == MAP_FAILED)
		exit(1);
	/* Each fault reads one page. Read-ahead would make the next fault cheap. */
	madvise((void *)(unsigned long)data, FILE_PAGES * PAGE, MADV_RANDOM);
}

int main(int argc, char **argv)
{
	static const enum site started[] = { NANOSLEEP, CONDVAR, MUTEX, PIPE, POLL, EPOLL, FSYNC, FAULT, HOLD, DRIVE };
	enum { COUNT = sizeof(started) / sizeof(started[0]) };
	pthread_t threads[COUNT];

	open_all(argc > 2 ? argv[2] : ".");
	ready();
	if (argc > 3)
		wait_for_go();
	struct meter begun = process_now();
	end_ns = begun.wall_ns + (unsigned long)argument(argc, argv, 1, 5000) * 1000000;
	others = COUNT - 1;
	for (int i = 0; i < COUNT; i++)
		threads[i] = thread_start(worker, (void *)(unsigned long)started[i]);
	for (int i = 0; i < COUNT; i++)
		METERED(JOIN, site_join(threads[i]));
	for (int i = 0; i < SITES; i++)
		meter_print("site", names[i], &meters[i]);
	process_print("blocking", begun);
	return 0;
}
