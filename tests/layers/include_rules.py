"""Rules on #include lines and on what only programs may do. Each yields "path:line: complaint"."""

import re

import picture
import tree


def layers(files):
    """A folder includes only what the arrows of the picture reach."""
    for path, text in files.items():
        here = tree.folder_of(path)
        if not tree.is_cxx(path) or here not in picture.LAYERS:
            continue
        for line, name, _ in tree.includes(text):
            there = "proto" if name.startswith(picture.GENERATED) else tree.folder_of(name)
            if there not in picture.FOLDERS or there in (here, *picture.LAYERS[here]):
                continue
            yield f"{path}:{line}: {here} may not include {there} ({name})"


def parts(files):
    """Inside a tier, a part includes only the parts below it."""
    for path, text in files.items():
        here = path.rpartition("/")[0]
        if not tree.is_cxx(path) or here not in picture.PARTS:
            continue
        tier = tree.folder_of(path)
        for line, name, _ in tree.includes(text):
            there = name.rpartition("/")[0]
            if tree.folder_of(name) != tier or name in picture.SHARED_WORDS:
                continue
            if there not in (here, *picture.PARTS[here]):
                yield f"{path}:{line}: {here} may not include {there} ({name})"


def fences(files):
    """Third-party headers stay where the architecture put them."""
    for path, text in files.items():
        here = tree.folder_of(path)
        if not tree.is_cxx(path) or here in picture.ON_TOP and here != "bench":
            continue
        for line, name, _ in tree.includes(text):
            for what, pattern, places in picture.FENCES:
                if here == "bench" and what not in picture.BENCH_FENCES:
                    continue
                if re.search(pattern, name) and not re.search(places, path):
                    yield f"{path}:{line}: {what} is not for this file ({name})"


def known(files):
    """A quoted include is ours from the root, or a third party's that the tables know."""
    for path, text in files.items():
        if not tree.is_cxx(path):
            continue
        for line, name, quoted in tree.includes(text):
            if name in picture.PUBLIC_HEADERS.values():
                continue
            third_party = name.startswith(picture.OPEN_ROOTS) or any(
                re.search(pattern, name) for _, pattern, _ in picture.FENCES)
            ours = tree.folder_of(name) in picture.FOLDERS
            if ours and name not in files:
                yield f"{path}:{line}: no such file ({name})"
            elif not ours and not third_party and quoted:
                yield f"{path}:{line}: neither a path from the root nor a known library ({name})"
            elif not ours and not third_party and "/" in name and \
                    not name.startswith(picture.SYSTEM_FOLDERS):
                yield f"{path}:{line}: a library that no table of tests/layers knows ({name})"


def environment(files):
    """Only programs and their configuration read the environment."""
    for path, text in files.items():
        if not tree.is_cxx(path) or re.search(picture.ENVIRONMENT_PLACES, path):
            continue
        for match in re.finditer(picture.ENVIRONMENT, tree.code(text)):
            yield f"{path}:{tree.line_of(text, match.start())}: reads the environment"


RULES = (layers, parts, fences, known, environment)
