/* Limits of resources: of memory, files, sizes of files and CPU time, each reached. */
#define _GNU_SOURCE
#include "unharmed.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void limit(int resource, rlim_t most)
{
	struct rlimit both = {most, most + (resource == RLIMIT_CPU)};
	CHECK(!setrlimit(resource, &both));
}

static int in_child(void (*act)(void))
{
	int status;
	pid_t pid = fork();
	if (!pid) {
		act();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void memory(void)
{
	int got = 0;
	limit(RLIMIT_AS, 256 << 20);
	for (int i = 0; i < 64; i++) {
		errno = 0;
		if (malloc(16 << 20))
			got++;
		else
			CHECK(errno == ENOMEM);
	}
	CHECK(got > 4 && got < 17);
}

static void files(void)
{
	int last = -1, next;
	limit(RLIMIT_NOFILE, 20);
	while ((next = open("/dev/null", O_RDONLY)) >= 0)
		last = next;
	CHECK(errno == EMFILE);
	_exit(last);
}

static void size_of_file(void)
{
	int file = memfd_create("file", 0);
	signal(SIGXFSZ, SIG_DFL);
	limit(RLIMIT_FSIZE, 4096);
	CHECK(write(file, (char[4096]){0}, 4096) == 4096);
	CHECK(write(file, "x", 1) == 1);
}

static void time_of_cpu(void)
{
	limit(RLIMIT_CPU, 1);
	for (;;)
		free(malloc(100));
}

static void processes(void)
{
	/* Root has no such limit. */
	CHECK(!setgid(65534) && !setuid(65534));
	limit(RLIMIT_NPROC, 0);
	CHECK(fork() == -1 && errno == EAGAIN);
}

int main(void)
{
	printf("%d %d %d %d", in_child(memory), in_child(files), in_child(size_of_file), in_child(time_of_cpu));
	printf(" %d\n", geteuid() ? 0 : in_child(processes));
	return 0;
}
