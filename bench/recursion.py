"""Calls of a function by itself: usage: recursion.py FRAMES. The innermost function runs for as long as the program is let."""

import sys


def spin():
    rounds = 0
    while True:
        rounds += 1


def down(frames):
    if frames > 1:
        down(frames - 1)
    else:
        spin()


sys.setrecursionlimit(10000)
print("ready", flush=True)
# Beside these, the module itself and spin.
down(int(sys.argv[1]) - 2)
