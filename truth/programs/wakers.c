/* Threads that wait for three things, and their wakers: for a condition variable, which a thread of their process signals,
 * for a pipe, into which another process writes, and for a timer.
 * usage: wakers
 * A child does the waiting, and its number is printed as "child PID"; the parent writes into the pipe. The parent runs until
 * it is killed, the child until the parent ends.
 * Truth: the waker of await_condition is the thread "signaller" of the child in thread start, signaller, give_condition; that
 * of await_pipe is the thread "writer" of the parent in thread start, writer, give_pipe; that of await_timer is an
 * interrupt. */
#include "metered.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long given;
static int ends[2];

EXACT void await_condition(long *taken)
{
	pthread_mutex_lock(&mutex);
	while (given == *taken)
		pthread_cond_wait(&condition, &mutex);
	*taken = given;
	pthread_mutex_unlock(&mutex);
	NO_TAIL_CALL;
}

EXACT void await_pipe(void)
{
	char byte;

	if (read(ends[0], &byte, 1) != 1)
		_exit(0);
	NO_TAIL_CALL;
}

EXACT void await_timer(void)
{
	sleep_us(3000);
	NO_TAIL_CALL;
}

EXACT void give_condition(void)
{
	/* The waker releases the mutex first, so that the other thread waits for the condition alone. */
	pthread_mutex_lock(&mutex);
	given++;
	pthread_mutex_unlock(&mutex);
	pthread_cond_signal(&condition);
	NO_TAIL_CALL;
}

EXACT void give_pipe(void)
{
	if (write(ends[1], "x", 1) != 1)
		_exit(1);
	NO_TAIL_CALL;
}

static void *on_condition(void *unused)
{
	long taken = 0;

	prctl(PR_SET_NAME, "on_condition");
	for (;;) {
		await_condition(&taken);
		NO_TAIL_CALL;
	}
	return unused;
}

static void *on_pipe(void *unused)
{
	prctl(PR_SET_NAME, "on_pipe");
	for (;;) {
		await_pipe();
		NO_TAIL_CALL;
	}
	return unused;
}

static void *on_timer(void *unused)
{
	prctl(PR_SET_NAME, "on_timer");
	for (;;) {
		await_timer();
		NO_TAIL_CALL;
	}
	return unused;
}

EXACT void *signaller(void *unused)
{
	prctl(PR_SET_NAME, "signaller");
	for (;;) {
		sleep_us(4000);
		give_condition();
		NO_TAIL_CALL;
	}
	return unused;
}

EXACT void *writer(void *unused)
{
	prctl(PR_SET_NAME, "writer");
	for (;;) {
		sleep_us(4000);
		give_pipe();
		NO_TAIL_CALL;
	}
	return unused;
}

int main(void)
{
	pid_t child;

	if (pipe(ends) != 0)
		return 1;
	child = fork();
	if (child == 0) {
		close(ends[1]);
		thread_start(on_condition, NULL);
		thread_start(on_pipe, NULL);
		thread_start(on_timer, NULL);
		pthread_join(thread_start(signaller, NULL), NULL);
		return 0;
	}
	close(ends[0]);
	printf("child %d\n", (int)child);
	fflush(stdout);
	ready();
	pthread_join(thread_start(writer, NULL), NULL);
	return 0;
}
