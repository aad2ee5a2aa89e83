"""Rules on the texts of errors and log lines. Each yields complaints about one message of messages.collect()."""

import re

# Calls that make errors about the input of a caller or operator: these say what the value must be, or what to do
# instead.
REFUSALS = ("InvalidArgumentError", "Wrong", "WrongBatch", "WrongGeometry", "WrongPlan", "WrongShape", "ValueError",
            "TypeError", "IndexError", "value_error", "type_error", "index_error", "buffer_error")
# Calls that make errors about which the reader can do something: these say what to do.
REMEDIABLE = ("ResourceExhaustedError", "PermissionDeniedError", "AlreadyExistsError")
# Folders whose errors reach callers and operators as they are; those of the tiers come inside others.
OUTER = ("agent", "cli", "client", "coordinator", "core", "proto")
# Calls that put their message behind the name of its subject.
BEHIND_A_NAME = ("Complain", "Contradiction", "Damaged", "Failed", "Lost", "refused")
# Names that a message may begin with although they begin with a capital letter.
NAMES = ("GPU", "KV", "CUDA", "NUMA", "Hello", "DescriptorRequest")
# Beginnings that do not say what happened: a bare code, an exclamation, an apology.
EMPTY_BEGINNINGS = ("error", "failed", "oops", "sorry", "invalid argument", "unknown error", "bad ")
# Words whose meaning a reader has to guess, and the words to write instead.
UNCLEAR = {
    r"let in\b": "can open sessions",
    r"contradicts? (?:itself|themselves)": "is damaged: its parts do not fit together",
    r"\banew\b": "again",
    r"\bfor us\b": "for this session",
    r"\bwarm\b": "recovered",
    r"\bnot \d+\.\.": "must be 1 to N",
    r"\bno such\b": "there is no ...",
    r"\bwent away\b": "hung up, was removed",
    r"\ball places\b": "the most that may be",
}
_EXPECTED = re.compile(r"\b(?:must|needs?|takes?|all of)\b|NULL|;|--yes\b|not both$")
_REMEDY = re.compile(r";|\btry again\b")


def _text(message):
    """Returns the message without the names of its values; the texts between which it chooses stay."""
    return re.sub(r"<[^>|]*>", "<>", message)


def beginnings(_folder, _kind, message):
    """It begins with what happened: in lower case, with a value or a name, because it is joined to other texts."""
    first = re.match(r"[A-Za-z]+", message)
    if message.lower().strip().startswith(EMPTY_BEGINNINGS):
        yield "its beginning does not say what happened"
    elif first and first[0][0].isupper() and first[0] not in NAMES:
        yield f"it begins with '{first[0]}'"


def sentences(_folder, _kind, message):
    """It is one sentence on one line, without its period."""
    said = message.rstrip("\n ")
    if said.endswith((".", "!")):
        yield "it ends with a period, and is joined to other texts"
    if "\n" in said or re.search(r"[a-z>]\. [A-Z]", said):
        yield "it is more than one sentence"


def subjects(_folder, kind, message):
    """It says to what it happened, unless that is put before it."""
    if kind not in BEHIND_A_NAME and re.match(r"(?:it|they|them)\b", message):
        yield "it does not say to what it happened"


def refusals(_folder, kind, message):
    """A refusal says what the value must be or what to do, unless it ends with another error that does."""
    if kind in REFUSALS and not _EXPECTED.search(_text(message)) and not message.endswith(">"):
        yield "it does not say what the value must be"


def remedies(folder, kind, message):
    """An error that somebody can do something about says what, after a semicolon."""
    if kind in REMEDIABLE and folder in OUTER and not _REMEDY.search(_text(message)) and not message.endswith(">"):
        yield "it does not say what to do"


def words(_folder, _kind, message):
    """It has none of the words that a reader has to guess at."""
    for unclear, clear in UNCLEAR.items():
        if found := re.search(unclear, _text(message)):
            yield f"'{found[0]}': say '{clear}'"


RULES = (beginnings, sentences, subjects, refusals, remedies, words)
