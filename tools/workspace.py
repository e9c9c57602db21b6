#!/usr/bin/env python3
"""Checks of the workspace beyond the compiler: licences, dependencies, the direction of use, circles of files, unsafe.

deny.toml has the rules for licences, forbidden crates and sources, as for cargo-deny; the list of rooms in
ARCHITECTURE.md has the direction of use. Prints one line for each check, passed or failed, and the reasons of a failure.
"""

import json
import re
import subprocess
import sys
import tomllib
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
import rust_files  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
UNSAFE_ROOMS = {"sys", "kernel", "replay"}
# Crates whose files are not checked for circles and foreign implementations yet.
BEING_REBUILT = set()


def metadata(*arguments):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", *arguments]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def satisfied(expression, allowed):
    """Whether the allowed licences satisfy a licence expression."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def alternatives():
        result = conjunction()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            result = conjunction() or result
        return result

    def conjunction():
        result = licence()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            result = licence() and result
        return result

    def licence():
        word = tokens.pop(0)
        if word == "(":
            result = alternatives()
            tokens.pop(0)
            return result
        if len(tokens) > 1 and tokens[0] == "WITH":
            word = f"{word} WITH {tokens.pop(1)}"
            tokens.pop(0)
        return word in allowed

    return alternatives() and not tokens


def licences(packages, rules):
    exceptions = {entry["crate"]: set(entry["allow"]) for entry in rules["licenses"].get("exceptions", [])}
    for package in packages:
        allowed = set(rules["licenses"]["allow"]) | exceptions.get(package["name"], set())
        if not package["license"]:
            yield f"{package['name']} {package['version']} has no licence"
        elif not satisfied(package["license"], allowed):
            yield f"{package['name']} {package['version']}: {package['license']} is not allowed by deny.toml"


def forbidden(packages, rules):
    reasons = {entry["crate"]: entry["reason"] for entry in rules["bans"]["deny"]}
    for package in packages:
        if package["name"] in reasons:
            yield f"{package['name']} is forbidden by deny.toml: {reasons[package['name']]}"


def sources(packages, rules):
    known = {f"registry+{url}" for url in rules["sources"]["allow-registry"]}
    for package in packages:
        if package["source"] is not None and package["source"] not in known:
            yield f"{package['name']} comes from {package['source']}, which deny.toml does not know"


def room_of(member):
    """The room of a crate: its folder. Crates that are published have longer names."""
    return Path(member["manifest_path"]).parent.name


def direction(members):
    """Each room uses exactly the rooms that ARCHITECTURE.md lists for it, and only rooms further down in the list."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    block = re.search(r"```rooms\n(.*?)```", text, re.DOTALL)
    if not block:
        yield "ARCHITECTURE.md has no list of rooms"
        return
    listed = {}
    for line in block[1].splitlines():
        room, _, used = line.partition("->")
        listed[room.strip()] = used.split()
    order = list(listed)
    rooms = {member["name"]: room_of(member) for member in members}
    for name in sorted(set(rooms.values()) ^ set(listed)):
        yield f"{name} is " + ("in ARCHITECTURE.md only" if name in listed else "not in ARCHITECTURE.md")
    for member in members:
        name = room_of(member)
        used = {rooms[d["name"]] for d in member["dependencies"] if d["name"] in rooms}
        if name in listed and used != set(listed[name]):
            yield f"{name} uses {' '.join(sorted(used)) or 'nothing'}; ARCHITECTURE.md says {' '.join(listed[name]) or 'nothing'}"
        for other in sorted(used & set(listed)):
            if name in listed and order.index(other) <= order.index(name):
                yield f"{name} uses {other}, which stands above it in ARCHITECTURE.md"


def trees(members):
    """The module tree of each library and program, with the name of its crate."""
    for member in members:
        if room_of(member) in BEING_REBUILT:
            continue
        for target in member["targets"]:
            if {"lib", "bin"} & set(target["kind"]):
                yield room_of(member), rust_files.crate(target["src_path"])


def file_circles(members):
    """No file uses itself through other files."""
    for name, tree in trees(members):
        graph = rust_files.uses(tree)
        folder = tree.file.parent
        for circle in rust_files.circles(graph):
            steps = [
                f"{file.relative_to(folder)} -> {other.relative_to(folder)} ({', '.join(sorted(names))})"
                for file in sorted(circle)
                for other, names in sorted(graph[file].items())
                if other in circle
            ]
            yield f"{name}: {len(circle)} files in a circle: " + "; ".join(steps)


def foreign_impls(members):
    """Inherent implementations are in the file of their type; implementations of traits may be in any file."""
    for name, tree in trees(members):
        folder = tree.file.parent
        for file, kind, home in rust_files.foreign_impls(tree):
            yield f"{name}: {file.relative_to(folder)} implements {kind} of {home.relative_to(folder)}"


def tests_of_tools():
    """The tests of the two checks above, and those of leftovers.py."""
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromNames(["rust_files_test", "leftovers_test"]).run(result)
    for test, failure in result.errors + result.failures:
        yield f"{test}: {failure.splitlines()[-1]}"
    if not result.testsRun:
        yield "no test was run"


def unsafe(members):
    for member in members:
        if room_of(member) in UNSAFE_ROOMS:
            continue
        folder = Path(member["manifest_path"]).parent
        roots = [t["src_path"] for t in member["targets"] if {"lib", "bin"} & set(t["kind"])]
        if not any("#![forbid(unsafe_code)]" in Path(root).read_text() for root in roots):
            yield f"{member['name']} does not forbid unsafe code"
        for source in folder.rglob("*.rs"):
            for number, line in enumerate(source.read_text().splitlines(), 1):
                code = line.split("//")[0]
                if re.search(r"\bunsafe\s*(\{|fn\b|impl\b|extern\b|trait\b)", code) and '"' not in code:
                    yield f"{source.relative_to(ROOT)}:{number} has unsafe code"


def main():
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    whole = {}
    for target in rules["graph"]["targets"]:
        for package in metadata("--all-features", "--filter-platform", target)["packages"]:
            whole[package["id"]] = package
    packages = list(whole.values())
    members = metadata("--no-deps")["packages"]
    checks = {
        f"licences of {len(packages)} packages": licences(packages, rules),
        "forbidden crates": forbidden(packages, rules),
        "sources of packages": sources(packages, rules),
        "direction of use": direction(members),
        "circles of files": file_circles(members),
        "implementations beside their types": foreign_impls(members),
        "tests of the tools": tests_of_tools(),
        "unsafe code": unsafe(members),
    }
    failed = False
    for name, complaints in checks.items():
        complaints = sorted(set(complaints))
        failed |= bool(complaints)
        print(f"{'failed' if complaints else 'passed'}: {name}", *complaints, sep="\n    ")
    sys.exit(failed)


main()
