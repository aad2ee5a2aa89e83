"""Rules on the CMake files. Each yields "path:line: complaint"."""

import posixpath
import re

import picture
import tree

COMMAND = re.compile(r"\b(\w+)\s*\(([^()]*)\)", re.S)
MAKES_TARGET = ("kvtier_library", "kvtier_program", "kvtier_test", "add_library", "add_executable",
                "pybind11_add_module", "kvtier_bench", "kvtier_fuzz")
LINKS = ("target_link_libraries",)
SOURCES = (".cc", ".cu")
KEYWORDS = ("SOURCES", "LINK", "LABELS", "TIMEOUT", "PUBLIC", "PRIVATE", "INTERFACE")


def commands(files):
    """Yields (path, line, command, words) of every call in every CMake file."""
    for path, text in files.items():
        if not path.endswith(("CMakeLists.txt", ".cmake")):
            continue
        bare = re.sub(r"#[^\n]*", "", text)
        for match in COMMAND.finditer(bare):
            line = tree.line_of(bare, match.start())
            yield path, line, match[1].lower(), match[2].replace('"', " ").split()


def section(words, keyword):
    """Returns the words after `keyword`, up to the next keyword."""
    found, inside = [], False
    for word in words:
        if word in KEYWORDS:
            inside = word == keyword
        elif inside:
            found.append(word)
    return found


def linked(command, words):
    if command in LINKS:
        return [word for word in words[1:] if word not in KEYWORDS]
    if command in MAKES_TARGET:
        return section(words, "LINK")
    return []


def links(files):
    """Link lines show the same picture as the #include lines."""
    homes = {words[0]: tree.folder_of(path) for path, _, command, words in commands(files)
             if command in MAKES_TARGET and words}
    programs = {words[0] for _, _, command, words in commands(files)
                if command in ("kvtier_program", "add_executable") and words}
    for path, line, command, words in commands(files):
        here = tree.folder_of(path)
        for target in linked(command, words):
            there = homes.get(target)
            if there is None and target.startswith("kvtier_"):
                yield f"{path}:{line}: no such target ({target})"
            elif target in programs:
                yield f"{path}:{line}: a program is linked ({target})"
            elif there and here in picture.LAYERS and \
                    there not in (here, *picture.LAYERS[here]):
                yield f"{path}:{line}: {here} may not link {there} ({target})"
            for pattern, folders in picture.LINKS:
                if here in picture.LAYERS and re.search(pattern, target) and here not in folders:
                    yield f"{path}:{line}: {here} may not link {target}"


def labels(files):
    """Every test says to which suites it belongs; scripts/test runs only such tests."""
    for path, line, command, words in commands(files):
        if command != "kvtier_test":
            continue
        found = section(words, "LABELS")
        if not found:
            yield f"{path}:{line}: {words[0]} has no LABELS, so scripts/test does not run it"
        for label in found:
            if label not in picture.TEST_LABELS and "$" not in label:
                yield f"{path}:{line}: {words[0]} has an unknown label ({label})"


def sources(files):
    """Sources are named one by one, and none is forgotten."""
    named = []
    for path, line, command, words in commands(files):
        if command == "file" and words and words[0].startswith("GLOB"):
            yield f"{path}:{line}: sources are named, not globbed"
        named += [source_pattern(path.rpartition("/")[0], w) for w in words if w.endswith(SOURCES)]
    every = re.compile("|".join(named) or "(?!)")
    for path in files:
        if tree.folder_of(path) in picture.FOLDERS and path.endswith(SOURCES) and \
                not every.fullmatch(path):
            yield f"{path}:1: no CMakeLists.txt names it"


def source_pattern(folder, word):
    """Returns the path, from the root, of a source that folder/CMakeLists.txt names, as a pattern: a name that a
    foreach makes up ("${name}_test.cc") stands for every name of that form."""
    if word.startswith("${PROJECT_SOURCE_DIR}/"):
        folder = ""
    word = re.sub(r"^\$\{(CMAKE_CURRENT|PROJECT)_SOURCE_DIR\}/", "", word)
    path = posixpath.normpath(posixpath.join(folder, word))
    return re.sub(r"\\\$\\\{.*?\\\}", r"[\\w.]+", re.escape(path))


RULES = (links, labels, sources)
