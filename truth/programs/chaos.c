/* A process that changes all the time, and whose work has one right answer.
 * usage: chaos SEED STEPS FOLDER [GROUP…]
 *        Works in rounds of STEPS steps. SEED chooses what each step does: compute, fork, let a child die by a signal, execute itself,
 *        run from a file that it then deletes, make code and drop it, rename itself, run a thread, sleep, move to the control group whose
 *        cgroup.procs is one of GROUP… (where that is allowed). FOLDER takes the copies that it deletes.
 * Truth: each round prints the same line "sum NUMBER", which no profiler changes. The sum has the results of all steps, and at the end of a round
 * what somebody else could have changed in this process: its open files, its signals, its tracer.
 * It ends after the round in which its stdin is closed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <time.h>

#include "spin.h"

enum { WORDS = 16, PAGES = 40 };

/* Arguments. */
enum { SEED = 1, STEPS, FOLDER, GROUPS };

static uint64_t mixed(uint64_t value)
{
	value += 0x9e3779b97f4a7c15;
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
	value = (value ^ value >> 27) * 0x94d049bb133111eb;
	return value ^ value >> 31;
}

static void failed(const char *what)
{
	perror(what);
	_exit(1);
}

EXACT uint64_t compute(uint64_t number)
{
	long rounds = 20000 + (long)(number % 60000);
	return mixed(number ^ (uint64_t)spin(rounds));
}

/* A child that computes, is killed, or executes another program; a child of a child for some numbers. */
EXACT uint64_t child(uint64_t number)
{
	pid_t pid = fork();
	if (pid < 0)
		failed("fork");
	if (pid == 0) {
		uint64_t result = compute(number);
		switch (number >> 8 & 3) {
		case 0:
			kill(getpid(), SIGKILL);
			break;
		case 1:
			raise(SIGSEGV);
			break;
		case 2:
			execl("/bin/true", "true", (char *)NULL);
			failed("/bin/true");
			break;
		default:
			if (fork() == 0)
				_exit((int)(compute(number + 1) & 63));
			wait(NULL);
		}
		_exit((int)(result & 63));
	}
	int status = 0;
	if (waitpid(pid, &status, 0) != pid)
		failed("waitpid");
	return mixed(number ^ (uint64_t)status);
}

/* Code that is made, called and dropped; then pages that are only mapped and unmapped. */
EXACT uint64_t made_code(uint64_t number)
{
#if defined(__x86_64__)
	unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3};
	uint32_t result = (uint32_t)number;
	memcpy(code + 1, &result, 4);
#else
	uint32_t code[] = {0x52800000 | (uint32_t)(number & 0xffff) << 5, 0xd65f03c0};
#endif
	uint64_t sum = 0;
	for (int i = 0; i < PAGES; i++) {
		char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED)
			failed("mmap");
		memcpy(page, code, sizeof(code));
		__builtin___clear_cache(page, page + sizeof(code));
		if (mprotect(page, 4096, PROT_READ | PROT_EXEC) != 0)
			failed("mprotect");
		sum += (uint64_t)((int (*)(void))page)();
		munmap(page, 4096);
	}
	return mixed(sum);
}

EXACT uint64_t renamed(uint64_t number)
{
	char name[16] = "", read_back[16] = "";
	snprintf(name, sizeof(name), "chaos \x01%llx", (unsigned long long)(number & 0xfffff));
	prctl(PR_SET_NAME, name);
	prctl(PR_GET_NAME, read_back);
	return strcmp(name, read_back) == 0 ? mixed(number) : 0;
}

static void *thread(void *number)
{
	*(uint64_t *)number = compute(*(uint64_t *)number);
	return NULL;
}

EXACT uint64_t threads(uint64_t number)
{
	pthread_t one, other;
	uint64_t results[2] = {number, number + 1};
	if (pthread_create(&one, NULL, thread, &results[0]) != 0 || pthread_create(&other, NULL, thread, &results[1]) != 0)
		failed("pthread_create");
	pthread_join(one, NULL);
	pthread_join(other, NULL);
	return mixed(results[0] ^ results[1]);
}

EXACT uint64_t nap(uint64_t number)
{
	struct timespec time = {0, (long)(number % 3000000)};
	while (nanosleep(&time, &time) != 0)
		;
	return mixed(number);
}

/* Moves to a control group; whether it may does not matter. */
static uint64_t moved(uint64_t number, const char *words[], int groups)
{
	int fd = groups > 0 ? open(words[GROUPS + number % (uint64_t)groups], O_WRONLY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		long written = write(fd, "0", 1);
		(void)written;
		close(fd);
	}
	return mixed(number);
}

/* Goes on in a new program: the file of this one, or a copy that deletes itself. */
static void execute(const char *file, const char *words[], int groups, uint64_t step, uint64_t sum)
{
	char step_is[48], sum_is[48];
	snprintf(step_is, sizeof(step_is), "STEP=%llu", (unsigned long long)step);
	snprintf(sum_is, sizeof(sum_is), "SUM=%llu", (unsigned long long)sum);
	char *environment[] = {step_is, sum_is, NULL};
	char *next[WORDS] = {(char *)file};
	for (int i = 1; i < GROUPS + groups; i++)
		next[i] = (char *)words[i];
	execve(file, next, environment);
	failed(file);
}

static void execute_a_copy(const char *words[], int groups, uint64_t step, uint64_t sum)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/copy-%d", words[FOLDER], getpid());
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	if (from < 0 || to < 0)
		failed(path);
	while (sendfile(to, from, NULL, 1 << 20) > 0)
		;
	close(to);
	close(from);
	execute(path, words, groups, step, sum);
}

static uint64_t entries(const char *folder)
{
	uint64_t count = 0;
	DIR *open_folder = opendir(folder);
	if (open_folder == NULL)
		failed(folder);
	while (readdir(open_folder) != NULL)
		count++;
	closedir(open_folder);
	return count;
}

/* What somebody else could have changed here. */
static uint64_t state_of_process(void)
{
	uint64_t sum = entries("/proc/self/fd");
	char line[256];
	FILE *status = fopen("/proc/self/status", "re");
	if (status == NULL)
		failed("/proc/self/status");
	const char *const keys[] = {"TracerPid", "SigBlk", "SigIgn", "SigCgt", "Seccomp", "NoNewPrivs", "CoreDumping"};
	while (fgets(line, sizeof(line), status) != NULL)
		for (unsigned long i = 0; i < sizeof(keys) / sizeof(*keys); i++)
			if (strncmp(line, keys[i], strlen(keys[i])) == 0)
				for (const char *at = line; *at != 0; at++)
					sum = mixed(sum ^ (uint64_t)*at);
	fclose(status);
	return sum;
}

int main(int argc, char **argv)
{
	const char **words = (const char **)argv;
	int groups = argc > GROUPS ? argc - GROUPS : 0;
	if (argc <= FOLDER || argc >= WORDS)
		return 2;
	uint64_t seed = strtoull(words[SEED], NULL, 10), steps = strtoull(words[STEPS], NULL, 10);
	uint64_t step = 0, sum = 0;
	if (getenv("STEP") != NULL) {
		step = strtoull(getenv("STEP"), NULL, 10);
		sum = strtoull(getenv("SUM"), NULL, 10);
	} else {
		struct rlimit none = {0, 0};
		setrlimit(RLIMIT_CORE, &none);
		ready();
		alarm(0);
	}
	char copy[4096];
	snprintf(copy, sizeof(copy), "%s/copy-%d", words[FOLDER], getpid());
	unlink(copy);
	for (;;) {
		for (; step < steps; step++) {
			uint64_t number = mixed(seed ^ mixed(step));
			switch (number % 11) {
			case 0:
			case 1:
			case 2:
				sum = mixed(sum ^ compute(number >> 16));
				break;
			case 3:
			case 4:
				sum = mixed(sum ^ child(number >> 16));
				break;
			case 5:
				execute("/proc/self/exe", words, groups, step + 1, mixed(sum ^ number));
				break;
			case 6:
				execute_a_copy(words, groups, step + 1, mixed(sum ^ number));
				break;
			case 7:
				sum = mixed(sum ^ made_code(number >> 16));
				break;
			case 8:
				sum = mixed(sum ^ renamed(number >> 16));
				break;
			case 9:
				sum = mixed(sum ^ threads(number >> 16));
				break;
			default:
				sum = mixed(sum ^ nap(number >> 16) ^ moved(number >> 16, words, groups));
			}
		}
		char line[64];
		int length = snprintf(line, sizeof(line), "sum %016llx\n", (unsigned long long)mixed(sum ^ state_of_process()));
		say(line, (unsigned long)length);
		struct pollfd input = {.fd = 0, .events = POLLIN};
		if (poll(&input, 1, 0) > 0)
			return 0;
		step = sum = 0;
	}
}
