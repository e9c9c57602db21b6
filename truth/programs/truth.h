/* For all programs with known answers: functions whose place in the call chain is certain, and the protocol with the
 * runner. A program prints "ready" when it does its work, may wait for a line on stdin before it goes on with the next
 * part, and is killed by the runner; without a runner it ends by itself after five minutes. */
#ifndef TRUTH_H
#define TRUTH_H

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The compiler does not inline, clone or specialise the function, nor use what it knows of its body: one call in the source
 * is one frame. */
#if defined(__clang__)
#define EXACT __attribute__((noinline))
#else
#define EXACT __attribute__((noipa))
#endif

/* An instruction after a call keeps the compiler from making the call a jump. */
#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")

static inline void say(const char *text, unsigned long length)
{
	if (write(1, text, length) < 0)
		_exit(1);
}

static inline void ready(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(300);
	say("ready\n", 6);
}

/* Sleeps until the runner, which has attached its profilers, sends a line. */
static inline void wait_for_go(void)
{
	char byte = 0;
	while (byte != '\n' && read(0, &byte, 1) == 1)
		;
}

static inline long argument(int argc, char **argv, int index, long otherwise)
{
	return argc > index ? atol(argv[index]) : otherwise;
}

#endif
