# The test looks for the marks at the ends of lines.
import multiprocessing
import os
import sys
import threading


def spin(rounds=30000):
    total = 0
    for number in range(rounds):
        total += number * number  # spin
    return total


def descend(depth):
    if depth == 0:
        return spin()  # bottom
    return descend(depth - 1)  # descend


def numbers():
    while True:
        yield spin()  # numbers


def consume():
    for count, _ in enumerate(numbers()):  # consume
        if count == 20:
            return


def key(item):
    return spin() + item  # key


def order():
    return sorted(range(20), key=key)  # order


class Shape:
    @property
    def area(self):
        return spin()  # area


def measure():
    shape = Shape()
    for _ in range(20):
        shape.area  # measure


def each():
    while True:
        for _ in range(20):
            descend(25)  # each-descend
        consume()  # each-consume
        order()  # each-order
        measure()  # each-measure


def work(parent=None):
    while parent is None or os.getppid() == parent:
        descend(3)  # work


def main():
    what = sys.argv[1]
    print("ready", flush=True)
    if what == "threads":
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        work()  # main-work
    elif what == "fork":
        context = multiprocessing.get_context("fork")
        for _ in range(2):
            context.Process(target=work, args=(os.getpid(),)).start()
        work()  # main-work
    else:
        each()  # main-each


main()  # module
