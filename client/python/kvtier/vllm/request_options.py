"""The options of one request to the cache, in its kv_transfer_params."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import kvtier

_log = logging.getLogger("vllm.kvtier")  # A child of the engine's own logger.

NO_STORE = "kvtier.no_store"
MAX_TOKENS = "kvtier.max_tokens"
CONVERSATION = "kvtier.conversation"
TURN = "kvtier.turn"
PRIORITY = "kvtier.priority"
WILL_NOT_RETURN = "kvtier.will_not_return"

_MAX_CONVERSATION_BYTES = 256
_MAX_SHOWN = 100  # Most characters of a wrong value in the log.
# Reasons of an end, by the name of the engine's RequestStatus.
_FINISHES = {"FINISHED_STOPPED": "stop", "FINISHED_LENGTH_CAPPED": "length", "FINISHED_ABORTED": "cancelled"}
_warned: set[str] = set()  # Names of hints of which a wrong value was logged.


@dataclass(frozen=True)
class RequestOptions:
    """The options of one request."""

    no_store: bool = False  # True: no block of the request is saved.
    max_tokens: int | None = None  # Most tokens that are loaded for it; None: the limit of the options.
    hint: kvtier.ReuseHint = kvtier.ReuseHint()


_DEFAULTS = RequestOptions()


def read_request_options(parameters: Mapping[str, object] | None) -> RequestOptions:
    """Returns the options in a request's kv_transfer_params.

    A value that is not valid is ignored, with one line in the log for each name; of NO_STORE alone it counts as true,
    because who sends that name has something that is not to be stored. Never raises, because a wrong request must not
    stop an engine.
    """
    if parameters is None or not isinstance(parameters, Mapping):
        return _DEFAULTS
    read = {name: _read(parameters, name) for name in _RULES}
    hint = kvtier.ReuseHint(**{name.removeprefix("kvtier."): read[name] for name in _HINTS if read[name] is not None})
    no_store = parameters.get(NO_STORE) is not None and read[NO_STORE] is not False
    return RequestOptions(no_store, read[MAX_TOKENS], hint)


def finish_reason(request: object) -> str | None:
    """Returns why the engine's request ended, by the name of its status; None: the status tells nothing."""
    return _FINISHES.get(getattr(getattr(request, "status", None), "name", ""))


def _read(parameters: Mapping[str, object], name: str) -> Any:
    """Returns the value of `name` in a request's kv_transfer_params; None: it has none, or one that is not valid."""
    rule, otherwise, may_be = _RULES[name]
    value = parameters.get(name)
    if value is None or may_be(value):
        return value
    if name not in _warned:
        _warned.add(name)
        _log.warning("kvtier: %s is %s; must be %s, so %s, and so are later ones without a warning", name,
                     _shown(name, value), rule, otherwise)
    return None


def _shown(name: str, value: object) -> str:
    """Returns a value for the log, without the text of a conversation's id."""
    if name == CONVERSATION and isinstance(value, str):
        return f"a str of {len(value.encode(errors='replace'))} bytes"
    try:
        return repr(value)[:_MAX_SHOWN]
    except ValueError:
        return f"a very large {type(value).__name__}"  # Python shows no int of more than 4,300 digits.


def _is_id(value: object) -> bool:
    try:
        return isinstance(value, str) and 1 <= len(value.encode()) <= _MAX_CONVERSATION_BYTES
    except UnicodeEncodeError:
        return False


def _is_int_to(most: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and 0 <= value <= most


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


_HINTS = (CONVERSATION, TURN, PRIORITY, WILL_NOT_RETURN)  # Each is the field of kvtier.ReuseHint of that name.
_IGNORED = "it is ignored"
# By name: what a value must be, what is done about another one, and a function that checks it.
_RULES: dict[str, tuple[str, str, Callable[[object], bool]]] = {
    NO_STORE: ("true or false", "the request is not stored", _is_bool),
    MAX_TOKENS: ("an int of 0 or more", _IGNORED, lambda value: type(value) is int and value >= 0),
    CONVERSATION: (f"a str of 1 to {_MAX_CONVERSATION_BYTES} bytes", _IGNORED, _is_id),
    TURN: (f"an int of 0 to {2**32 - 1}", _IGNORED, _is_int_to(2**32 - 1)),
    PRIORITY: ("an int of 0 to 100", _IGNORED, _is_int_to(100)),
    WILL_NOT_RETURN: ("true or false", _IGNORED, _is_bool),
}
