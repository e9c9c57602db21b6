"""Writes the line tables of files of the standard library, and what the interpreter itself says about each instruction.

Standard output: for each code object the first line, the lengths of its table and of its code in units, the table, and the line of each
unit, -1 for none. Numbers have four bytes. Arguments: which file of how many to take.
"""

import dis
import os
import struct
import sys
import sysconfig


def tables(code):
    """All code objects in one."""
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from tables(constant)


def lines_of(code):
    units = len(code.co_code) // 2
    lines = [-1] * units
    if hasattr(code, "co_lines"):
        for start, end, line in code.co_lines():
            for unit in range(start // 2, end // 2):
                lines[unit] = -1 if line is None else line
    else:
        starts = list(dis.findlinestarts(code)) + [(units * 2, 0)]
        for (start, line), (end, _) in zip(starts, starts[1:]):
            for unit in range(start // 2, end // 2):
                lines[unit] = line
    if hasattr(code, "co_positions"):
        assert lines == [-1 if line is None else line for line, _, _, _ in code.co_positions()]
    return lines


def main():
    every = int(sys.argv[1])
    folder = sysconfig.get_paths()["stdlib"]
    files = sorted(
        os.path.join(where, name)
        for where, _, names in os.walk(folder)
        for name in names
        if name.endswith(".py") and "site-packages" not in where and "lib2to3" not in where
    )
    out = sys.stdout.buffer
    for path in files[::every]:
        try:
            with open(path, "rb") as file:
                module = compile(file.read(), path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        for code in tables(module):
            table = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
            lines = lines_of(code)
            out.write(struct.pack("<III", code.co_firstlineno, len(table), len(lines)))
            out.write(table)
            out.write(struct.pack("<%di" % len(lines), *lines))


main()
