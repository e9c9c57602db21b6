"""Calls of a function by itself: usage: counting.py FUNCTIONS. The innermost calls small functions and prints twenty lines "count N WALL CPU" per
second: calls so far, the monotonic clock and the CPU time of the process, both in ns."""

import sys
import time


def add(number):
    return number + 1


def spin():
    calls = 0
    last = 0
    while True:
        for _ in range(1000):
            calls = add(calls)
        now = time.monotonic_ns()
        if now - last >= 50000000:
            print("count", calls, now, time.process_time_ns(), flush=True)
            last = now


def down(functions):
    if functions > 1:
        down(functions - 1)
    else:
        spin()


print("ready", flush=True)
# Beside these, the module itself and spin.
down(int(sys.argv[1]) - 2)
