"""What one request asks of the cache, in its kv_transfer_params."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

_log = logging.getLogger("vllm.kvtier")  # A child of the engine's own logger.

NO_STORE = "kvtier.no_store"
MAX_TOKENS = "kvtier.max_tokens"


@dataclass(frozen=True)
class Wishes:
    """The wishes of one request."""

    no_store: bool = False  # Nothing of it is saved.
    max_tokens: int | None = None  # That are loaded for it at most; None: as the options say.


_NO_WISHES = Wishes()


def read_wishes(parameters: Mapping[str, object] | None) -> Wishes:
    """Returns the wishes in a request's kv_transfer_params.

    A value that cannot be is taken in the careful way, with a line in the log: the request is not
    stored, or nothing is loaded for it. Never raises: a request is no reason to stop an engine.
    """
    if parameters is None or not isinstance(parameters, Mapping):
        return _NO_WISHES
    no_store = parameters.get(NO_STORE, False)
    if not isinstance(no_store, bool):
        _log.warning("%s is %r; must be true or false: the request is not stored", NO_STORE, no_store)
        no_store = True
    max_tokens = parameters.get(MAX_TOKENS)
    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 0):
        _log.warning("%s is %r; must be an int of 0 or more: nothing is loaded for the request", MAX_TOKENS, max_tokens)
        max_tokens = 0
    return Wishes(no_store, max_tokens)
