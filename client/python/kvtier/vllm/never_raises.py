"""Keeps exceptions of the connector from a running engine."""

import functools
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar, cast

_log = logging.getLogger("vllm.kvtier")  # A child of the engine's own logger.
_LOGGED_AT_MOST = 10  # Most log lines of a kind, so that an error of every step does not fill the log.
_failures: Counter[str] = Counter()

Method = TypeVar("Method", bound=Callable[..., Any])


def log_failure(what: str) -> None:
    """Logs the exception that is being handled, as a failure of `what`, the first ten times."""
    _failures[what] += 1
    if _failures[what] <= _LOGGED_AT_MOST:
        _log.exception("kvtier: %s raised an exception; the engine goes on without it", what)


def never_raises(otherwise: Callable[[], object]) -> Callable[[Method], Method]:
    """Returns a decorator that logs what the method raises and returns otherwise() in its place."""

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def guarded(*arguments: Any, **named: Any) -> Any:
            try:
                return method(*arguments, **named)
            except Exception:
                log_failure(method.__name__)
                return otherwise()

        return cast(Method, guarded)

    return decorate
