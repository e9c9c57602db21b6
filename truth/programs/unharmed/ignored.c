/* Signals that its parent ignores and blocks stay so, as do its session, its terminal settings and its descriptors. */
#define _GNU_SOURCE
#include "unharmed.h"
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

int main(void)
{
	sigset_t blocked;
	int files = 0;
	CHECK(!sigprocmask(SIG_BLOCK, NULL, &blocked));
	printf("mask");
	for (int number = 1; number < NSIG; number++) {
		struct sigaction action;
		if (sigaction(number, NULL, &action))
			continue;
		if (sigismember(&blocked, number) == 1)
			printf(" b%d", number);
		if (action.sa_handler != SIG_DFL)
			printf(" i%d", number);
	}
	DIR *folder = opendir("/proc/self/fd");
	for (struct dirent *one; (one = readdir(folder));)
		files += one->d_name[0] != '.';
	struct rlimit limit;
	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	printf("\n%d files of %ld, priority %d\n", files, (long)limit.rlim_cur, getpriority(PRIO_PROCESS, 0));
	extern char **environ;
	for (char **one = environ; *one; one++)
		puts(*one);
	return 0;
}
