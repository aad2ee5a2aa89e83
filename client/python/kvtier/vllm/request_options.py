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

    A value that is not valid is taken in the careful way, with a line in the log: the request is not
    saved, or no block is loaded for it. A hint that is not valid is ignored, with one line for each
    name. Never raises, because a wrong request must not stop an engine.
    """
    if parameters is None or not isinstance(parameters, Mapping):
        return _DEFAULTS
    no_store = parameters.get(NO_STORE, False)
    if not isinstance(no_store, bool):
        _log.warning("kvtier: %s is %r; must be true or false, so the request is not stored", NO_STORE, no_store)
        no_store = True
    max_tokens = parameters.get(MAX_TOKENS)
    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 0):
        _log.warning("kvtier: %s is %r; must be an int of 0 or more, so nothing is loaded for the request", MAX_TOKENS,
                     max_tokens)
        max_tokens = 0
    return RequestOptions(no_store, max_tokens, _read_hint(parameters))


def finish_reason(request: object) -> str | None:
    """Returns why the engine's request ended, by the name of its status; None: the status tells nothing."""
    return _FINISHES.get(getattr(getattr(request, "status", None), "name", ""))


def _read_hint(parameters: Mapping[str, object]) -> kvtier.ReuseHint:
    """Returns the hints in a request's kv_transfer_params."""
    fields: dict[str, Any] = {}
    for name, (field, rule, may_be) in _HINTS.items():
        value = parameters.get(name)
        if value is None:
            continue
        if may_be(value):
            fields[field] = value
        elif name not in _warned:
            _warned.add(name)
            _log.warning("kvtier: %s is %s; must be %s, so it is ignored, and so are later ones without a warning",
                         name, _shown(name, value), rule)
    return kvtier.ReuseHint(**fields)


def _shown(name: str, value: object) -> str:
    """Returns a value for the log, without the text of a conversation's id."""
    if name == CONVERSATION and isinstance(value, str):
        return f"a str of {len(value.encode(errors='replace'))} bytes"
    return repr(value)


def _is_id(value: object) -> bool:
    try:
        return isinstance(value, str) and 1 <= len(value.encode()) <= _MAX_CONVERSATION_BYTES
    except UnicodeEncodeError:
        return False


def _is_int_to(most: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and 0 <= value <= most


# Hints by name: the field of kvtier.ReuseHint, what a value must be, and a function that checks it.
_HINTS: dict[str, tuple[str, str, Callable[[object], bool]]] = {
    CONVERSATION: ("conversation", f"a str of 1 to {_MAX_CONVERSATION_BYTES} bytes", _is_id),
    TURN: ("turn", f"an int of 0 to {2**32 - 1}", _is_int_to(2**32 - 1)),
    PRIORITY: ("priority", "an int of 0 to 100", _is_int_to(100)),
    WILL_NOT_RETURN: ("will_not_return", "true or false", lambda value: isinstance(value, bool)),
}
