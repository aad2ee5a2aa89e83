"""The border to a running engine, which no exception crosses."""

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

_log = logging.getLogger("vllm.kvtier")  # A child of the engine's own logger.
_LOGGED_AT_MOST = 10  # For each method: an error that comes with every step does not fill the log.

Method = TypeVar("Method", bound=Callable[..., Any])


def never_raises(otherwise: Callable[[], object]) -> Callable[[Method], Method]:
    """Returns a decorator: what the method raises is logged, and the caller gets otherwise()."""

    def decorate(method: Method) -> Method:
        errors = 0

        @functools.wraps(method)
        def guarded(*arguments: Any, **named: Any) -> Any:
            nonlocal errors
            try:
                return method(*arguments, **named)
            except Exception:
                errors += 1
                if errors <= _LOGGED_AT_MOST:
                    _log.exception("kvtier: %s failed; the engine goes on without it", method.__name__)
                return otherwise()

        return cast(Method, guarded)

    return decorate
