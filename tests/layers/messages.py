"""Every error and log line of the programs, as a reader finds it: collected from the sources, a <name> for each value.

    python3 tests/layers/messages.py [FOLDER...] > messages.txt

C++ and Python are read: the agent, the coordinator, the client with its C and Python interfaces, the tiers, the CLI.
"""

import ast
import re
import sys

import tree

# Calls that make a Status, an exception or a line of the log, by their own name or by that of a helper of the tree.
_CALL = re.compile(
    r"\b(?:absl::|py::|pybind11::|std::)?(?P<kind>[A-Z]\w+Error|Log|Wrong\w*|Fail|Failed|Failure|Refused|refused|"
    r"Complain|Lost|Damaged|Contradiction|CannotListen|value_error|type_error|index_error|buffer_error|runtime_error|"
    r"PyErr_SetString|PyErr_Format|Status)\(")
_CONCATENATED = re.compile(r"absl::(?:StrCat|StrFormat)\((.*)\)\s*$", re.S)
_NO_TEXT = re.compile(r"\s*(?:LogLevel::|KVTIER_[A-Z]+$|absl::StatusCode::|PyExc_|[\w.*>()-]+\.code\(\)$)")
_PROGRAM_FOLDERS = ("agent", "cli", "client", "coordinator", "core", "kernels", "proto", "tier_disk", "tier_gpu",
                    "tier_host")
_WRAPPED = re.compile(r"(?:absl::Hex|absl::CHexEscape|absl::FormatDuration|absl::ToInt64Milliseconds|std::to_string|"
                      r"std::string|static_cast<[\w:]+>)\((.*)\)$", re.S)
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


def _parts(arguments, separator=","):
    """Returns the arguments of a call such as StrCat(), split at their commas, or the terms of a sum."""
    depth, part, parts, quoted, escaped = 0, "", [], False, False
    for char in arguments:
        if quoted:
            quoted, escaped = escaped or char != '"', not escaped and char == "\\"
        elif char == '"':
            quoted = True
        else:
            depth += (char in "([{") - (char in ")]}")
            if char == separator and depth == 0:
                parts.append(part)
                part = ""
                continue
        part += char
    return [*parts, part]


def _value(part):
    """Returns the text of an argument in the message: its own, its last name, or the texts that it chooses from."""
    if part.startswith('"') or '"' not in part or "?" in part:
        texts = _TEXT.findall(part)
        if part.startswith('"'):
            return "".join(texts)
        if texts:
            return "<" + "|".join(texts) + ">"
    if wrapped := _WRAPPED.match(part):
        return _value(wrapped[1].strip())
    return "<" + re.sub(r"\s+", " ", re.sub(r"\(.*", "", part, flags=re.S)).split(".")[-1].strip("*& ") + ">"


def _sentence(arguments):
    """Returns the message with <name> for each value; "" where the call says no text of its own."""
    words = []
    for argument in _parts(arguments):
        concatenated = _CONCATENATED.match(argument.strip())
        for part in _parts(concatenated[1]) if concatenated else [argument]:
            terms = [term.strip() for term in _parts(part, "+")]
            joins = any(term.startswith('"') for term in terms)
            for term in terms if joins else [part.strip()]:
                if term and not _NO_TEXT.match(term):
                    words.append(_value(term))
    said = "".join(words)
    return said if re.search(r"[a-z]{2}", re.sub(r"<[^>|]*>", "", said)) else ""


def _of_cxx(text):
    blanked = tree.code(text)
    for match in _CALL.finditer(blanked):
        if sentence := _sentence(_arguments(text, match.end())):
            yield tree.line_of(text, match.start()), match["kind"], sentence


def _words_of(node):
    """Returns the text of a Python expression with <name> for each value; None if the expression is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else f"<{ast.unparse(part.value)}>"
                       for part in node.values)
    if isinstance(node, ast.BinOp):
        sides = [_words_of(side) for side in (node.left, node.right)]
        return "".join(said or "<value>" for said in sides) if any(sides) else None
    return None


def _of_python(text):
    for node in ast.walk(ast.parse(text)):
        call = node.exc if isinstance(node, ast.Raise) else node
        if not isinstance(call, ast.Call) or not call.args:
            continue
        name = ast.unparse(call.func)
        is_log = re.fullmatch(r"_?log(?:ger)?\.(?:debug|info|warning|error|exception)|warnings\.warn|sys\.exit", name)
        if not is_log and not isinstance(node, ast.Raise):
            continue
        if said := _words_of(call.args[0]):
            values = iter(ast.unparse(value) for value in call.args[1:])
            if is_log:
                said = re.sub(r"%(?:\.\d+)?[a-z]", lambda _: f"<{next(values, 'value')}>", said)
            yield call.lineno, "Log" if is_log else name, said


def collect(files):
    """Returns (path, line, kind, message) of each error and log line, by path."""
    for path, text in sorted(files.items()):
        if tree.folder_of(path) not in _PROGRAM_FOLDERS:
            continue
        found = ()
        if path.endswith((".cc", ".h", ".cu")):
            found = _of_cxx(text)
        elif path.endswith(".py"):
            found = sorted(_of_python(text))
        for line, kind, message in found:
            yield path, line, kind, message


def main():
    """Prints the messages of the folders that are named, or of all folders."""
    for path, line, kind, message in collect(tree.read()):
        if len(sys.argv) == 1 or path.startswith(tuple(sys.argv[1:])):
            sys.stdout.write(f"{path}:{line}: {kind}: {message}\n")


if __name__ == "__main__":
    main()
