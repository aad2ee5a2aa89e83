"""Every error and log line of the programs, as a reader finds them: collected from the sources, with the values left out.

    python3 tests/layers/messages.py > messages.txt
"""

import re
import sys

import tree

_CALL = re.compile(r"\b(?:absl::)?(?P<kind>[A-Z]\w+Error|Log|Wrong|Fail)\(")
_PROGRAM_FOLDERS = ("agent", "cli", "client", "coordinator", "core", "kernels", "proto", "tier_disk", "tier_gpu",
                    "tier_host")
_TEXT = re.compile(r'"((?:\\.|[^"\\])*)"')


def _arguments(text, start):
    """Returns the text between the parenthesis that opens before `start` and the one that closes it."""
    depth, at, quoted = 1, start, False
    while depth:
        char = text[at]
        if quoted:
            at += char == "\\"
            quoted = char != '"'
        elif char == '"':
            quoted = True
        depth += (char == "(") - (char == ")") if not quoted else 0
        at += 1
    return text[start:at - 1]


def _parts(arguments):
    """Returns the arguments of StrCat() and its like, split at their commas."""
    depth, part, parts, quoted, escaped = 0, "", [], False, False
    for char in arguments:
        if quoted:
            quoted, escaped = escaped or char != '"', not escaped and char == "\\"
        elif char == '"':
            quoted = True
        else:
            depth += (char in "([{") - (char in ")]}")
            if char == "," and depth == 0:
                parts.append(part)
                part = ""
                continue
        part += char
    return [*parts, part]


def _sentence(arguments):
    """Returns the message with <name> for each value, or "" where the call has no text of its own."""
    concatenated = re.search(r"absl::(?:StrCat|StrFormat)\((.*)\)\s*$", arguments, re.S)
    words = []
    for part in _parts(concatenated[1] if concatenated else arguments):
        part = part.strip()
        if part.startswith('"'):
            words.append("".join(_TEXT.findall(part)))
        elif part and not part.startswith("LogLevel::"):
            words.append("<" + re.sub(r"\s+", " ", re.sub(r"\(.*", "", part, flags=re.S)).split(".")[-1].strip("*& ") + ">")
    said = "".join(words)
    return said if re.search(r"[a-z]{2}", re.sub(r"<[^>]*>", "", said)) else ""


def collect(files):
    """Yields (path, line, kind, message) of each error and log line, by path."""
    for path, text in sorted(files.items()):
        if tree.folder_of(path) not in _PROGRAM_FOLDERS or not path.endswith((".cc", ".h")):
            continue
        blanked = tree.code(text)
        for match in _CALL.finditer(blanked):
            sentence = _sentence(_arguments(text, match.end()))
            if sentence:
                yield path, tree.line_of(text, match.start()), match["kind"], sentence


def main():
    """Prints all messages."""
    for path, line, kind, message in collect(tree.read()):
        sys.stdout.write(f"{path}:{line}: {kind}: {message}\n")


if __name__ == "__main__":
    main()
