/* A timer every millisecond of CPU time, waits that it interrupts, and waits that go on after it. */
#include "unharmed.h"
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t ticks;

static void tick(int number)
{
	(void)number;
	ticks++;
}

int main(void)
{
	struct itimerval each = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
	struct sigaction action = {.sa_handler = tick};
	int pipes[2], interrupted = 0;
	char byte;

	/* Without SA_RESTART a wait ends early. */
	CHECK(!sigaction(SIGALRM, &action, NULL));
	CHECK(!pipe(pipes));
	CHECK(!setitimer(ITIMER_REAL, &each, NULL));
	for (int i = 0; i < 100; i++) {
		errno = 0;
		CHECK(read(pipes[0], &byte, 1) == -1 && errno == EINTR);
		interrupted++;
	}
	CHECK(ticks >= 100);
	/* With it, it goes on. */
	action.sa_flags = SA_RESTART;
	CHECK(!sigaction(SIGALRM, &action, NULL));
	if (!fork()) {
		setitimer(ITIMER_REAL, &none, NULL);
		usleep(50000);
		CHECK(write(pipes[1], "x", 1) == 1);
		_exit(0);
	}
	CHECK(read(pipes[0], &byte, 1) == 1 && byte == 'x');
	/* The remaining time of a sleep is told. */
	struct timespec wanted = {100, 0}, rest = {0, 0};
	CHECK(nanosleep(&wanted, &rest) == -1 && errno == EINTR && rest.tv_sec == 99);
	CHECK(!setitimer(ITIMER_REAL, &none, NULL));
	printf("%d\n", interrupted);
	return 0;
}
