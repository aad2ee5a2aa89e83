"""The source tree as the rules see it: a dict of path -> text, and what is in a text."""

import os
import pathlib
import re

REPO = pathlib.Path(__file__).resolve().parents[2]
SUFFIXES = (".h", ".cc", ".cu", ".cuh", ".c", ".py", ".proto", ".sh", ".cmake", ".md", ".yaml", ".toml")
CXX = (".h", ".cc", ".cu", ".cuh", ".c")
LEFT_OUT = ("build", "__pycache__")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.M)
NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^\s()\\]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"', re.S)


def read(root=REPO):
    """Returns every source file, script, CMake file, manifest and page below `root`, by its path from there."""
    files = {}
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [s for s in subfolders if s not in LEFT_OUT and (s == ".ci" or not s.startswith("."))]
        for name in names:
            path = pathlib.Path(folder, name)
            if name == "CMakeLists.txt" or path.suffix in SUFFIXES or _is_script(path):
                files[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
    return files


def _is_script(path):
    with path.open("rb") as file:
        return not path.suffix and file.read(2) == b"#!"


def is_cxx(path):
    return path.endswith(CXX)


def folder_of(path):
    """Returns the first folder of a path; "" for a file at the root."""
    return path.split("/")[0] if "/" in path else ""


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def includes(text):
    """Yields (line, name, quoted) of every #include that is not in a comment."""
    for match in INCLUDE.finditer(without_block_comments(text)):
        yield line_of(text, match.start(match.lastindex)), match[1] or match[2], match[1] is not None


def without_block_comments(text):
    """Returns the text with /* */ blanked; lines keep their numbers."""
    return re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)


def code(text):
    """Returns the text with comments and strings blanked; lines keep their numbers."""
    return NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
