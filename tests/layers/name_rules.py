"""Rules on names, sizes and header guards. Each yields "path:line: complaint"."""

import pathlib
import re

import picture
import tree


def banned_names(files):
    """No file, folder or class is called by a word that says nothing."""
    word = "|".join(picture.BANNED_WORDS)
    in_path = re.compile(rf"(?:^|_)(?:{word})(?:_|$)")
    in_class = re.compile(rf"^\s*(?:class|struct)\s+(\w+(?:{word.title()}))\b(?!\s*;)", re.M)
    for path, text in files.items():
        for part in pathlib.PurePath(path).with_suffix("").parts:
            if in_path.search(part):
                yield f"{path}:1: '{part}' names nothing that it knows"
        if tree.is_cxx(path):
            for match in in_class.finditer(tree.code(text)):
                yield f"{path}:{tree.line_of(text, match.start(1))}: '{match[1]}' names nothing"


def fakes(files):
    """A stand-in for the real thing lives in one place."""
    for path, text in files.items():
        if path.startswith(picture.FAKE_HOME) or not tree.is_cxx(path):
            continue
        if re.search(picture.FAKE_FILES, path) and not re.search(picture.FAKE_EXEMPT, path):
            yield f"{path}:1: fakes live in {picture.FAKE_HOME}"
        for match in re.finditer(picture.FAKE_CLASSES, tree.code(text), re.M):
            yield f"{path}:{tree.line_of(text, match.start(1))}: {match[1]}: " \
                  f"fakes live in {picture.FAKE_HOME}"


def lengths(files):
    """A file is one noun; what is longer is two."""
    for path, text in files.items():
        lines = text.count("\n")
        if not path.endswith(".md") and lines > picture.MAX_LINES:
            yield f"{path}:{lines}: {lines} lines, more than {picture.MAX_LINES}"


def guards(files):
    """A header is guarded by KVTIER_ and its path."""
    for path, text in files.items():
        if not path.endswith((".h", ".cuh")):
            continue
        public = picture.PUBLIC_HEADERS.get(path)
        words = public or f"kvtier/{path}"
        name = re.sub(r"[^A-Z0-9]", "_", words.upper()) + "_"
        directives = re.findall(r"^[ \t]*#.*$", text, re.M)
        if directives[:2] != [f"#ifndef {name}", f"#define {name}"] or \
                not re.fullmatch(rf"#endif {{1,2}}(// {name}|/\* {name} \*/)", directives[-1]):
            yield f"{path}:1: its guard is not {name} (#ifndef, #define, '#endif  // {name}')"


def one_definition(files):
    """A class has its name alone in its namespace: of two, a program links parts of each."""
    unnamed = re.compile(r"^namespace \{$.*?^\}  // namespace$", re.M | re.S)
    definition = re.compile(r"^(?:class|struct)\s+(\w+)(?:\s+final)?\s*(?::(?!:)[^;{]*)?\{", re.M)
    seen = {}
    for path, text in sorted(files.items()):
        if not path.endswith((".h", ".cc")):
            continue
        code = tree.code(unnamed.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text))
        namespace = re.search(r"^namespace ([\w:]+) \{", code, re.M)
        for match in definition.finditer(code):
            name = f"{namespace[1]}::{match[1]}" if namespace else match[1]
            if name in seen:
                line = tree.line_of(code, match.start(1))
                yield f"{path}:{line}: {name} is defined in {seen[name]}, too"
            seen[name] = path


RULES = (banned_names, fakes, lengths, guards, one_definition)
