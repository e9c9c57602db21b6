"""A program whose functions and lines are known, and the judge of its profiles; both run in the guest, by the same interpreter.

    python.py compute | nap          says "ready" and runs until it is killed
    python.py judge compute | nap FILE    compares a pprof file with what the program runs
    python.py files                  the files that the interpreter needs for that
"""

import os
import sys
import time
import zlib

DEPTH = 30
# Of the stacks that show the program.
RIGHT, FEWEST = 0.99, 50


def spin():
    total = 0
    for number in range(20000):  # spin
        total += number * number  # spin
    return total


def key(item):
    spin()  # key
    return item


def descend(depth):
    if depth == 0:
        sorted([2, 1], key=key)  # bottom
    else:
        descend(depth - 1)  # descend


def compute():
    while True:
        descend(DEPTH)  # compute


def nap():
    while True:
        time.sleep(0.01)  # nap


CHAINS = {
    "compute": [("compute", "compute"), *[("descend", "descend")] * DEPTH, ("descend", "bottom"), ("key", "key"), ("spin", "spin")],
    "nap": [("nap", "nap")],
}


def number(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """Fields of a message of protocol buffers: numbers and bytes."""
    at = 0
    while at < len(data):
        tag, at = number(data, at)
        value, at = number(data, at)
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value
        yield tag >> 3, value


def packed(data):
    at = 0
    while at < len(data):
        value, at = number(data, at)
        yield value


def stacks(path):
    """Stacks of a profile, the outermost frame first, each frame as function, file and line; and how often each was seen."""
    with open(path, "rb") as file:
        data = zlib.decompress(file.read(), 31)
    strings, functions, locations, samples = [], {}, {}, []
    for field, value in fields(data):
        if field == 6:
            strings.append(value.decode())
        elif field == 5:
            of = dict(fields(value))
            functions[of[1]] = of.get(2, 0), of.get(4, 0)
        elif field == 4:
            lines = [dict(fields(line)) for part, line in fields(value) if part == 4]
            locations[dict(fields(value))[1]] = [(line[1], line.get(2, 0)) for line in lines]
        elif field == 2:
            samples.append([list(packed(part)) for kind, part in fields(value) if kind in (1, 2)])
    for ids, values in samples:
        frames = [frame for location in ids for frame in locations[location] or [(0, 0)]]
        names = [(*functions.get(function, (0, 0)), line) for function, line in frames]
        yield [(strings[name], strings[file], line) for name, file, line in reversed(names)], values[0]


def judge(what, path):
    with open(__file__) as file:
        marks = [line.rpartition("  # ")[2].strip() if "  # " in line else "" for line in file]
    chain, right, all_of_it, others, wrong = CHAINS[what], 0, 0, 0, None
    for stack, count in stacks(path):
        of_program = [at for at, frame in enumerate(stack) if frame[1] == __file__]
        shown = [(stack[at][0], marks[stack[at][2] - 1]) for at in of_program]
        names = [name for name, _ in shown]
        if what not in names:
            others += count
            continue
        all_of_it += count
        begun = names.index(what)
        # A call begins or ends: fewer functions, and the innermost may be at any of its lines.
        inner = shown[begun:]
        same = inner[:-1] == chain[: len(inner) - 1] and inner[-1][0] == chain[min(len(inner), len(chain)) - 1][0]
        # The interpreter's own code is outside, and `sorted` between `descend` and `key`.
        native = of_program[0] > 0 and ("key" not in names or of_program[-1] - of_program[0] >= len(of_program))
        if same and len(inner) <= len(chain) and native:
            right += count
        else:
            wrong = stack
    print(f"Python {sys.version.split()[0]}, {what}: {right} of {all_of_it} right, {others} without the program")
    if wrong:
        print("wrong:", *wrong, sep="\n    ")
    sys.exit(not (all_of_it >= FEWEST and right >= RIGHT * all_of_it and others <= all_of_it / 10))


def main():
    command, *rest = sys.argv[1:]
    if command == "judge":
        judge(*rest)
    elif command == "files":
        # Compiled by the frozen importer as they are: no caches.
        print(*{module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)}, sep="\n")
    else:
        os.write(1, b"ready\n")
        {"compute": compute, "nap": nap}[command]()


main()
