/* Executes itself again and again, with vfork, with posix_spawn, from a file in memory, and from a thread. */
#define _GNU_SOURCE
#include "unharmed.h"
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char path[4096];

static int status_of(pid_t pid)
{
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void *executes(void *words)
{
	execv(path, words);
	_exit(99);
}

int main(int count, char **words)
{
	long sum = 0;
	CHECK(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	if (count == 2)
		return atoi(words[1]);
	if (count == 3) {
		int left = atoi(words[2]);
		char next[16];
		char *const more[] = {words[0], words[1], next, NULL}, *const last[] = {words[0], words[1], NULL};
		pthread_t thread;
		snprintf(next, sizeof(next), "%d", left - 1);
		for (int i = 0; i < 20; i++)
			free(malloc(100));
		pthread_create(&thread, NULL, executes, (void *)(left ? more : last));
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < 30; i++) {
		char code[16];
		snprintf(code, sizeof(code), "%d", i);
		char *const again[] = {words[0], code, NULL};
		pid_t pid = vfork();
		if (!pid) {
			execv(path, again);
			_exit(99);
		}
		sum += status_of(pid);
		CHECK(!posix_spawn(&pid, path, NULL, NULL, again, environ));
		sum += status_of(pid);
	}
	int memory = memfd_create("copy", 0), own = open(path, O_RDONLY);
	char buffer[4096];
	for (ssize_t size; (size = read(own, buffer, sizeof(buffer))) > 0;)
		CHECK(write(memory, buffer, (size_t)size) == size);
	pid_t pid = fork();
	if (!pid)
		fexecve(memory, (char *[]){"copy", "33", NULL}, environ);
	/* The link of a file in memory leads nowhere. */
	sum += status_of(pid);
	pid = fork();
	if (!pid)
		execv(path, (char *[]){words[0], "21", "10", NULL});
	sum += status_of(pid);
	printf("%ld\n", sum);
	return 0;
}
