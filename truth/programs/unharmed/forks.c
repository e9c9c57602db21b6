/* Many children, some of which have children: each status arrives once. */
#include "unharmed.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void child(int i)
{
	for (int j = 0; j < 50; j++)
		free(malloc(100));
	if (i % 4 == 1)
		raise(SIGTERM);
	if (i % 4 == 2) {
		int status;
		pid_t inner = fork();
		if (!inner)
			_exit(i % 100);
		CHECK(waitpid(inner, &status, 0) == inner && WIFEXITED(status));
		_exit(WEXITSTATUS(status));
	}
	_exit(i % 100);
}

int main(void)
{
	long codes = 0, signals = 0;
	for (int round = 0; round < 20; round++) {
		int status;
		for (int i = 0; i < 20; i++) {
			pid_t pid = fork();
			CHECK(pid >= 0);
			if (!pid)
				child(round * 20 + i);
		}
		while (wait(&status) > 0) {
			codes += WIFEXITED(status) ? WEXITSTATUS(status) : 0;
			signals += WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
		}
		CHECK(errno == ECHILD);
	}
	printf("%ld %ld\n", codes, signals);
	return 0;
}
