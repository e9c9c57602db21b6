#!/usr/bin/env python3
"""What perf-agent costs where threads hand a lock over: two threads on one CPU pass a futex to each other.

usage: locks.py PERF_AGENT [ROUNDS [SECONDS]]

Each round measures the program alone and beside each kind of capture, in turns, so that what disturbs the machine disturbs
all of them. Prints the median time of a hand-over, and its ratio to that of the program alone in the same round.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = r"""
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned turn;
static volatile unsigned long handed;

static void *player(void *me)
{
	unsigned mine = (unsigned)(long)me;

	for (;;) {
		while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != mine)
			syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, !mine, NULL, NULL, 0);
		handed++;
		__atomic_store_n(&turn, !mine, __ATOMIC_RELEASE);
		syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, player, (void *)i);
	for (;;) {
		char byte;
		/* Answers with the number of hand-overs so far. */
		if (read(0, &byte, 1) != 1)
			return 0;
		printf("%lu\n", handed);
		fflush(stdout);
	}
}
"""

CAPTURES = {
    "alone": None,
    "--offcpu": ["--offcpu", "--offcpu-output", "OUT.pb.gz"],
    "--offcpu --wakers": ["--offcpu", "--wakers", "--offcpu-output", "OUT.pb.gz"],
    "--locks": ["--locks", "--locks-output", "OUT.pb.gz"],
    "--offcpu --wakers --locks": ["--offcpu", "--wakers", "--locks", "--offcpu-output", "OUT.pb.gz",
                                  "--locks-output", "OUT2.pb.gz"],
}


def handed(program):
    program.stdin.write(b"?")
    program.stdin.flush()
    return int(program.stdout.readline())


def rate(program, agent, options, folder, seconds):
    """Nanoseconds of CPU time of the program and of the kernel on its behalf for each hand-over."""
    capture = None
    if options is not None:
        words = [word.replace("OUT", os.path.join(folder, "out")) for word in options]
        capture = subprocess.Popen([agent, "-q", *words, "--pid", str(program.pid), "--duration", "1h"],
                                   stdout=subprocess.DEVNULL)
        time.sleep(1.5)
    before, cpu = handed(program), cpu_ns(program.pid)
    time.sleep(seconds)
    after, used = handed(program), cpu_ns(program.pid) - cpu
    if capture:
        capture.send_signal(signal.SIGTERM)
        if capture.wait() != 0:
            sys.exit(f"perf-agent {options} failed")
    return used / max(1, after - before)


def cpu_ns(pid):
    """CPU time of all threads, as the scheduler accounts it."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    agent = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 2
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, "handover.c"), os.path.join(folder, "handover")
        with open(source, "w", encoding="ascii") as file:
            file.write(SOURCE)
        subprocess.run(["gcc", "-O2", "-o", binary, source, "-lpthread"], check=True)
        with subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            measured = {name: [] for name in CAPTURES}
            for _ in range(rounds):
                for name, options in CAPTURES.items():
                    measured[name].append(rate(program, agent, options, folder, seconds))
            program.kill()
    print("| CPU time of a hand-over | ns | ratio to alone |\n|---|--:|--:|")
    for name, values in measured.items():
        ratio = statistics.median(one / alone for one, alone in zip(values, measured["alone"]))
        print(f"| {name} | {statistics.median(values):,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
