/* Signals that queue: each arrives once, in order, with its value, by handler, by sigwaitinfo and by signalfd. */
#include "unharmed.h"
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static volatile int handled, expected;

static void handler(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	if (info->si_value.sival_int == expected && info->si_code == SI_QUEUE && info->si_pid == getpid())
		handled++;
	expected++;
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	sigset_t all;
	siginfo_t info;
	int waited = 0, read_there = 0;

	sigemptyset(&all);
	sigaddset(&all, SIGRTMIN + 1);
	CHECK(!sigaction(SIGRTMIN + 1, &action, NULL));
	for (int round = 0; round < 20; round++) {
		CHECK(!sigprocmask(SIG_BLOCK, &all, NULL));
		for (int i = 0; i < 100; i++)
			CHECK(!sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = expected + i}));
		CHECK(!sigprocmask(SIG_UNBLOCK, &all, NULL));
	}
	CHECK(!sigprocmask(SIG_BLOCK, &all, NULL));
	for (int i = 0; i < 500; i++) {
		CHECK(!sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = i}));
		CHECK(sigwaitinfo(&all, &info) == SIGRTMIN + 1);
		waited += info.si_value.sival_int == i;
	}
	int file = signalfd(-1, &all, 0);
	for (int i = 0; i < 500; i++) {
		struct signalfd_siginfo told;
		CHECK(!sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = i}));
		CHECK(read(file, &told, sizeof(told)) == sizeof(told));
		read_there += told.ssi_int == i;
	}
	printf("%d %d %d\n", handled, waited, read_there);
	fflush(stdout);
	raise(SIGTERM);
	return 0;
}
