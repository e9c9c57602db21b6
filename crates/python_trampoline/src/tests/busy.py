# A program that gets signals all the time, and counts and checks everything itself. Words: alarm; spawn (programs, from the first thread); kill
# (signals to itself, each awaited); forks (vfork, fork and posix_spawn, from a thread); churn (threads that begin and end); naps (threads
# sleep between their rounds); at the end a number of threads.
import contextlib, json, os, queue, signal, subprocess, sys, threading, time

reader, writer = os.pipe()
os.set_blocking(writer, False)
counts = [0] * 65
state = {"wrong": 0, "rounds": 0, "spawned": 0, "killed": 0, "forked": 0, "churned": 0, "thread_rounds": 0}
handled = {}


def on_signal(number, frame):
    handled[number] = handled.get(number, 0) + 1


# The signal that the program sends to itself.
OWN = signal.SIGRTMIN + 1
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGRTMIN, OWN):
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


expected = compute()


def check():
    if compute() != expected:
        state["wrong"] += 1


# With the lock taken by others, each start of a thread takes a while.
all_begun = threading.Event()


def keep_checking():
    all_begun.wait()
    while True:
        check()
        state["thread_rounds"] += 1
        if "naps" in words:
            time.sleep(0.01)


def kill():
    while True:
        before = handled.get(OWN, 0), counts[OWN]
        os.kill(os.getpid(), OWN)
        begun = time.monotonic()
        # One call of the handler and one byte for each signal.
        while (handled.get(OWN, 0), counts[OWN]) != (before[0] + 1, before[1] + 1):
            if time.monotonic() > begun + 60:
                state["wrong"] += 1
                break
            time.sleep(0.0005)
        state["killed"] += 1


def fork_always():
    while True:
        spawn()
        pid = os.posix_spawn("/bin/true", ["true"], {})
        if os.waitpid(pid, 0)[1] != 0:
            state["wrong"] += 1
        pid = os.fork()
        if pid == 0:
            is_right = compute() == expected
            # With the trampoline on it has a perf map of its own.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"/tmp/perf-{os.getpid()}.map")
            os._exit(7 if is_right else 8)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 7:
            state["wrong"] += 1
        state["forked"] += 1


def churn():
    while True:
        results = queue.Queue()
        threads = [threading.Thread(target=lambda: results.put(compute())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if [results.get(timeout=60) for _ in threads] != [expected] * 4:
            state["wrong"] += 1
        state["churned"] += 1


def spawn():
    said = subprocess.run(["/bin/echo", str(state["spawned"])], stdout=subprocess.PIPE, check=True).stdout
    if said != b"%d\n" % state["spawned"]:
        state["wrong"] += 1
    state["spawned"] += 1


words = sys.argv[1:]
threading.Thread(target=read, daemon=True).start()
for _ in range(int(words[-1])):
    threading.Thread(target=keep_checking, daemon=True).start()
all_begun.set()
for word, act in {"kill": kill, "forks": fork_always, "churn": churn}.items():
    if word in words:
        threading.Thread(target=act, daemon=True).start()
if "alarm" in words:
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
os.write(1, b"ready\n")
while True:
    check()
    if "spawn" in words:
        spawn()
    state["rounds"] += 1
