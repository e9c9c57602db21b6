"""What the files of a Rust crate use of each other, read from their text.

A crate is a tree of modules. Each path in the code is followed through imports and re-exports to the file that defines
the item. Code under `#[cfg(test)]` is left out. Names that macros make are not seen.
"""

import re
from pathlib import Path

TOKEN = re.compile(
    r"""
    (?P<skip>\s+|//[^\n]*)
  | (?P<comment>/\*)
  | (?P<raw>(?:b|c)?r(?P<hashes>\#*)".*?"(?P=hashes))
  | (?P<string>(?:b|c)?"(?:\\.|[^"\\])*"|b?'(?:\\[^']+|\\'|[^\\'])')
  | (?P<lifetime>'\w+)
  | (?P<word>(?:r\#)?[A-Za-z_]\w*)
  | (?P<number>\d[\w]*(?:\.\d\w*)?)
  | (?P<sign>::|->|=>|\.\.=?|.)
    """,
    re.VERBOSE | re.DOTALL,
)
OPENING = {"(": ")", "[": "]", "{": "}"}
NAMED = {"fn", "struct", "enum", "union", "trait", "type", "const", "static"}
ITEMS = NAMED | {"mod", "impl", "use", "macro_rules"}
MODIFIERS = {"pub", "async", "unsafe", "extern", "default", "safe"}


def tokens_of(text):
    """The words and signs of Rust code, without comments; each literal is one token that no name equals."""
    result, position = [], 0
    while position < len(text):
        match = TOKEN.match(text, position)
        position = match.end()
        if match["comment"]:
            depth = 1
            while depth:
                mark = re.compile(r"/\*|\*/").search(text, position)
                depth += 1 if mark[0] == "/*" else -1
                position = mark.end()
        elif match["string"] or match["raw"]:
            result.append('""')
        elif not match["skip"]:
            result.append(match[0])
    return without_tests(result)


def without_tests(tokens):
    """The tokens without the items under `#[cfg(test)]`."""
    result, index = [], 0
    while index < len(tokens):
        condition = tokens[index + 4 : index + 7]
        if tokens[index : index + 4] == ["#", "[", "cfg", "("] and condition in (["test", ")", "]"], ["all", "(", "test"]):
            end = group_end(tokens, index + 1)
            while tokens[end : end + 1] == ["#"]:
                end = group_end(tokens, end + 1)
            word = end
            while tokens[word] in MODIFIERS:
                word = group_end(tokens, word + 1) if tokens[word + 1] == "(" else word + 1
            if tokens[word] in ITEMS:
                index = item_end(tokens, end)
                continue
        result.append(tokens[index])
        index += 1
    return result


def group_end(tokens, start):
    """The index behind the bracket that closes the one at `start`."""
    depth = 0
    for index in range(start, len(tokens)):
        if tokens[index] in OPENING:
            depth += 1
        elif tokens[index] in OPENING.values():
            depth -= 1
            if depth == 0:
                return index + 1
    return len(tokens)


def item_end(tokens, start):
    """The index behind the item that begins at `start`: behind its `;` or its block."""
    words = [t for t in tokens[start : start + 7] if t not in MODIFIERS | {"(", ")", "crate", "super", '""'}]
    value = bool(words) and words[0] in {"const", "static", "type", "use"} and words[1:2] != ["fn"]
    index = start
    while index < len(tokens):
        if tokens[index] == ";":
            return index + 1
        if tokens[index] in OPENING:
            block = tokens[index] == "{"
            index = group_end(tokens, index)
            if block and not value:
                return index
        else:
            index += 1
    return index


def imports_of(tokens):
    """The `(path, name)` pairs of an import tree; the name of a glob is `*`."""
    if tokens and tokens[0] == "::":
        return
    parts = [[]]
    depth = 0
    for token in tokens:
        if token == "," and depth == 0:
            parts.append([])
            continue
        depth += (token == "{") - (token == "}")
        parts[-1].append(token)
    for part in filter(None, parts):
        if "{" in part:
            brace = part.index("{")
            prefix = [t for t in part[:brace] if t != "::"]
            for path, name in imports_of(part[brace + 1 : -1]):
                whole = prefix + path
                if path == ["self"]:
                    whole = prefix
                    name = prefix[-1] if name == "self" else name
                yield whole, name
        else:
            words = [t for t in part if t != "::"]
            name = words[-1]
            if "as" in words:
                words = words[: words.index("as")]
            yield (words[:-1] if words[-1] == "*" else words), name


class Module:
    def __init__(self, name, file, parent, folder):
        self.name, self.file, self.parent, self.folder = name, file, parent, folder
        self.items, self.children = set(), {}
        self.imports, self.globs = {}, []  # name -> (path, re-exported), and (path, re-exported)
        self.code, self.impls = [], []

    def root(self):
        return self.parent.root() if self.parent else self

    def below(self, other):
        return self is other or bool(self.parent and self.parent.below(other))

    def walk(self):
        yield self
        for child in self.children.values():
            yield from child.walk()

    def lookup(self, name, module_wanted, seen=()):
        """What a name in this module stands for: a `Module`, an item as `(module that defines it, name)`, or None."""
        if (self, name, module_wanted) in seen:
            return None
        seen = (*seen, (self, name, module_wanted))
        if name in self.items and not module_wanted:
            return self, name
        if name in self.children and module_wanted:
            return self.children[name]
        if name in self.imports:
            found = self.resolve(self.imports[name][0], module_wanted, seen)
            if found:
                return found
        for path, _ in self.globs:
            target = self.resolve(path, True, seen)
            found = target.lookup(name, module_wanted, seen) if isinstance(target, Module) else None
            if found:
                return found
        if name in self.items:
            return self, name
        return self.children.get(name)

    def resolve(self, path, module_wanted=False, seen=()):
        place = self
        for index, word in enumerate(path):
            last = index == len(path) - 1
            if word == "crate":
                place = self.root()
            elif word == "super":
                place = place.parent or place
            elif word != "self":
                found = place.lookup(word, module_wanted or not last, seen)
                if found is None:
                    return None if index == 0 else (place, word)
                if isinstance(found, tuple):
                    return found
                place = found
        return place


def read_module(module, tokens):
    index = 0
    while index < len(tokens):
        if tokens[index] == "#":
            index = group_end(tokens, index + (2 if tokens[index + 1] == "!" else 1))
            continue
        end = item_end(tokens, index)
        read_item(module, tokens[index:end])
        index = max(end, index + 1)


def read_item(module, item):
    start, public = 0, item[0] == "pub"
    while start < len(item) and (item[start] in MODIFIERS or item[start] == '""'):
        start += 1
        if item[start - 1] == "pub" and item[start] == "(":
            start = group_end(item, start)
    words = item[start:]
    if not words:
        return
    if words[0] == "const" and words[1] in {"fn", "unsafe", "extern", "async"}:
        words = words[words.index("fn") :]
    if words[0] == "use":
        read_import(module, words[1:-1], public)
    elif words[0] == "mod":
        read_child(module, words)
    elif words[0] == "impl":
        read_impl(module, words)
    else:
        if words[0] in NAMED:
            module.items.add(words[2] if words[1] == "mut" else words[1])
        elif words[:2] == ["macro_rules", "!"]:
            module.items.add(words[2])
        read_code(module, item)


def read_import(module, words, public):
    for path, name in imports_of(words):
        if name == "*":
            module.globs.append((path, public))
        elif name != "_":
            module.imports[name] = (path, public)
        else:
            module.code.append(path)


def read_child(module, words):
    name = words[1]
    if words[2] == ";":
        choices = [module.folder / f"{name}.rs", module.folder / name / "mod.rs"]
        file = next((choice for choice in choices if choice.exists()), None)
        if file:
            child = module.children[name] = Module(name, file, module, module.folder / name)
            read_module(child, tokens_of(file.read_text()))
    else:
        child = module.children[name] = Module(name, module.file, module, module.folder / name)
        read_module(child, words[3:-1])


def read_impl(module, words):
    """Keeps the type of an inherent implementation; one of a trait may stand anywhere."""
    header = words[: words.index("{")] if "{" in words else words
    index, depth = 1, 0
    if header[1:2] == ["<"]:
        while True:
            depth += (header[index] == "<") - (header[index] == ">")
            index += 1
            if depth == 0:
                break
    kind, depth, of_trait = [], 0, False
    for position, token in enumerate(header[index:], index):
        depth += (token == "<") - (token == ">")
        if depth == 0 and token == "where":
            break
        if depth == 0 and token == "for" and header[position + 1 : position + 2] != ["<"]:
            of_trait = True
            break
        if depth == 0 and re.match(r"\w", token):
            kind.append(token)
    if not of_trait:
        module.impls.append(kind)
    read_code(module, words)


def read_code(module, tokens):
    """Keeps the paths in code, as lists of names."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token == "use" and index and tokens[index - 1] in {"{", "}", ";"}:
            end = tokens.index(";", index)
            read_import(module, tokens[index + 1 : end], False)
            index = end
        elif re.match(r"[A-Za-z_]", token) and tokens[index - 1 : index] not in (["::"], ["."]):
            path = [token]
            while tokens[index + 1 : index + 2] == ["::"] and re.match(r"[A-Za-z_]", tokens[index + 2]):
                path.append(tokens[index + 2])
                index += 2
            module.code.append(path)
            index += 1
        else:
            index += 1


def crate(root):
    """The tree of modules whose root is the file `root`."""
    module = Module("crate", Path(root), None, Path(root).parent)
    read_module(module, tokens_of(Path(root).read_text()))
    return module


def uses(tree):
    """For each file of the crate the files that it uses, and by which names: `{file: {other: names}}`.

    A module that is only imported is not used yet, and an item of a child that is only re-exported neither.
    """
    result = {}
    for module in tree.walk():
        used = result.setdefault(module.file, {})
        paths = [path for path in module.code if len(path) > 1]
        plain = {path[0] for path in module.code}
        for name, (path, public) in module.imports.items():
            found = module.resolve(path)
            child = isinstance(found, tuple) and found[0].below(module)
            if not (public and child) or name in plain:
                paths.append(path)
        if module.globs:
            paths += [[name] for name in plain if name not in module.items and name not in module.imports]
        for path in paths:
            found = module.resolve(path)
            if isinstance(found, tuple) and found[0].file != module.file:
                used.setdefault(found[0].file, set()).add(found[1])
    return result


def circles(graph):
    """The groups of files that use each other, directly or through others."""
    reached = {}
    for start in graph:
        seen, waiting = set(), [start]
        while waiting:
            for other in graph.get(waiting.pop(), {}):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        reached[start] = seen
    found = {frozenset(b for b in reached[a] if a in reached.get(b, ())) for a in graph if a in reached[a]}
    return sorted(found, key=sorted)


def foreign_impls(tree):
    """Inherent implementations that stand in another file than their type: `(file, type, file of the type)`."""
    for module in tree.walk():
        for kind in module.impls:
            found = module.resolve(kind) if kind else None
            if isinstance(found, tuple) and found[0].file != module.file:
                yield module.file, kind[-1], found[0].file
