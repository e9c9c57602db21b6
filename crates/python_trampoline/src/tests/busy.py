# A program that gets signals all the time, and counts and checks everything itself. Words: alarm, spawn, a number of threads.
import json, os, signal, subprocess, sys, threading

reader, writer = os.pipe()
os.set_blocking(writer, False)
counts = [0] * 65
state = {"wrong": 0, "rounds": 0, "spawned": 0}
handled = {}


def on_signal(number, frame):
    handled[number] = handled.get(number, 0) + 1


for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGRTMIN):
    signal.signal(number, on_signal)
# The handler in C writes a byte for each signal that is delivered; functions in Python see several as one.
signal.set_wakeup_fd(writer)


def read():
    while True:
        data = os.read(reader, 65536)
        for number in data:
            counts[number] += 1
        if signal.SIGUSR2 in data:
            active = sys.is_stack_trampoline_active()
            told = dict(state, usr1=counts[10], alrm=counts[14], queued=counts[34], active=active)
            os.write(1, (json.dumps(told) + "\n").encode())


def compute():
    total, share = 0, 0.0
    for n in range(2000):
        total += n * n % 7
        share += 1.0 / (n + 1)
    return total, share, sorted(str(n) for n in range(200))[-1]


def check(expected=compute()):
    if compute() != expected:
        state["wrong"] += 1


def keep_checking():
    while True:
        check()


def spawn():
    said = subprocess.run(["/bin/echo", str(state["spawned"])], stdout=subprocess.PIPE, check=True).stdout
    if said != b"%d\n" % state["spawned"]:
        state["wrong"] += 1
    state["spawned"] += 1


words = sys.argv[1:]
threading.Thread(target=read, daemon=True).start()
for _ in range(int(words[-1])):
    threading.Thread(target=keep_checking, daemon=True).start()
if "alarm" in words:
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
os.write(1, b"ready\n")
while True:
    check()
    if "spawn" in words:
        spawn()
    state["rounds"] += 1
