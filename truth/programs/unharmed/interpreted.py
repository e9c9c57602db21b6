"""Exceptions, signals, threads, children and weak references of Python; it ends by an exception of its own."""

import os
import signal
import sys
import threading

counts = {"signals": 0, "caught": 0, "threads": 0}


def told(*_):
    counts["signals"] += 1


def nested(depth):
    if not depth:
        raise ValueError(depth)
    return nested(depth - 1) + 1


signal.signal(signal.SIGUSR1, told)
for number in range(3000):
    try:
        nested(number % 30)
    except ValueError:
        counts["caught"] += 1
    if number % 30 == 0:
        os.kill(os.getpid(), signal.SIGUSR1)
        while counts["signals"] <= number // 30:
            pass


def body():
    with lock:
        counts["threads"] += 1


lock = threading.Lock()
threads = [threading.Thread(target=body) for _ in range(100)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
child = os.fork()
if not child:
    os._exit(5)
status = os.waitpid(child, 0)[1]
print(sorted(counts.items()), status, sys.getrecursionlimit(), flush=True)
sys.exit(19)
