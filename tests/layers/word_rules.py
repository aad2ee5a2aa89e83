"""Rules on words: comments and pages in plain English. Each yields "path:line: complaint"."""

import io
import re
import tokenize

import picture
import tree

# A comment that begins so is a relative clause without its noun, or a genitive without its verb.
OPENERS = ("Of", "What", "Whose", "Behind", "Who")
_OPENER = re.compile(rf"(?:{'|'.join(OPENERS)})\b")
# The longest line of a page; tables and code stand as they are.
MAX_PAGE_COLUMNS = 122
GLOSSARY = "docs/GLOSSARY.md"
_RULED_OUT = re.compile(r"^\| ([^|`]+?) \| [^|]+ \|$", re.M)
_CXX_LITERAL_OR_COMMENT = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|R"(?P<mark>[^\s()\\]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"', re.S)


def _cxx_comments(text):
    """Returns (line, text) of each comment of C++; comments on consecutive lines are one."""
    found = []
    for match in _CXX_LITERAL_OR_COMMENT.finditer(text):
        if match["comment"] is None:
            continue
        line = tree.line_of(text, match.start())
        alone = not text[text.rfind("\n", 0, match.start()) + 1:match.start()].strip()
        words = re.sub(r"^(?://+|/\*+|\s*\*+(?!/))\s?|\s*\*+/$", "", match["comment"], flags=re.M).strip()
        found.append((line, alone, words))
    return _joined(found)


def _docstring(string):
    """Returns the text of a string as it stands in the source: without its prefix and its quotes."""
    return string.lstrip("rbfuRBFU").strip("\"'").strip()


def _python_comments(text):
    """Returns (line, text) of each comment and docstring."""
    found = []
    before = tokenize.NEWLINE
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                found.append((token.start[0], not token.line[:token.start[1]].strip(), token.string.lstrip("# ")))
                continue
            if token.type == tokenize.STRING and before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
                found.append((token.start[0], False, _docstring(token.string)))
            if token.type not in (tokenize.NL,):
                before = token.type
    except (tokenize.TokenError, IndentationError):
        pass
    return _joined(found)


def _hash_comments(text):
    """Returns (line, text) of each comment of a shell script or of CMake."""
    return _joined([(number, True, line.strip()[1:].strip()) for number, line in enumerate(text.split("\n"), 1)
                    if line.strip().startswith("#") and not line.startswith("#!")])


def _joined(found):
    """Joins comments that stand alone on lines that follow each other."""
    joined = []
    for line, alone, words in found:
        if joined and alone and joined[-1][1] and joined[-1][2] == line - 1:
            joined[-1][3].append(words)
            joined[-1][2] = line
        else:
            joined.append([line, alone, line, [words]])
    return [(first, "\n".join(words)) for first, _, _, words in joined]


def comments(path, text):
    """Returns (line, text) of each comment of a source file."""
    if tree.is_cxx(path) or path.endswith(".proto"):
        return _cxx_comments(text)
    return _python_comments(text) if path.endswith(".py") else _hash_comments(text)


def _is_checked(path):
    return tree.folder_of(path) in picture.PLAIN_FOLDERS


def openers(files):
    """Each paragraph of a comment begins with its verb or its noun."""
    for path, text in files.items():
        if not _is_checked(path):
            continue
        for line, words in comments(path, text):
            for paragraph in re.split(r"\n\s*\n", words):
                if match := _OPENER.match(paragraph.lstrip()):
                    yield f"{path}:{line}: the comment begins with '{match[0]}': begin with the verb or the noun"


def ruled_out(glossary):
    """Returns the words that the glossary rules out, as its last table lists them."""
    table = glossary.split("## Words that are ruled out", 1)[1]
    return [word for word in _RULED_OUT.findall(table) if set(word) != {"-"} and word != "not"]


def _in_any_form(phrase):
    """Returns the pattern of a phrase whose words may have the endings of verbs and plurals."""
    return r"\s+".join(rf"{re.escape(word)}(?:e?s|n|e?d|ing)?" for word in phrase.split())


def synonyms(files):
    """One word is one idea: no comment and no page has a word that the glossary rules out."""
    banned = re.compile(rf"\b(?:{'|'.join(map(_in_any_form, ruled_out(files[GLOSSARY])))})\b", re.I)
    for path, text in files.items():
        # Dated pages stay as they were written.
        if path in (GLOSSARY, "CHANGELOG.md") or path.startswith("docs/results/"):
            continue
        if not (_is_checked(path) or path.endswith(".md")):
            continue
        said = [(1, text)] if path.endswith(".md") else comments(path, text)
        for line, words_said in said:
            for match in banned.finditer(words_said):
                at = tree.line_of(words_said, match.start()) - 1 if path.endswith(".md") else 0
                yield f"{path}:{line + at}: '{match[0]}' is ruled out by {GLOSSARY}"


def page_lines(files):
    """A page is read in a terminal, too."""
    for path, text in files.items():
        if not path.endswith(".md"):
            continue
        fenced = False
        for number, line in enumerate(text.split("\n"), 1):
            fenced ^= line.lstrip().startswith("```")
            if fenced or line.lstrip().startswith("|") or re.match(r"\s{4}", line):
                continue
            if len(line) > MAX_PAGE_COLUMNS:
                yield f"{path}:{number}: {len(line)} columns, more than {MAX_PAGE_COLUMNS}"


def merges(files):
    """A merge is finished: no file has both sides of a conflict."""
    marker = re.compile(r"^(?:<{7}|>{7}) ", re.M)
    for path, text in files.items():
        for match in marker.finditer(text):
            yield f"{path}:{tree.line_of(text, match.start())}: a conflict of a merge that nobody resolved"


RULES = (openers, synonyms, page_lines, merges)
