"""Hands the log lines of this process's clients to the application's own log."""

import atexit
import logging
from typing import Callable

from . import _kvtier

_LEVELS = (logging.INFO, logging.WARNING, logging.ERROR)


def set_logger(logger: logging.Logger | Callable[[int, str], None] | None) -> None:
    """Gives each line to `logger` from now on, in order, on a thread of the client library.

    `logger` is a logging.Logger, or a callable of a level of `logging` and the line; it may wait and
    call the client, but not this function. Up to 1,024 lines wait for it; more are dropped, and a
    line says how many. None: lines go to stderr, as at start. Returns when the previous logger is
    not called any more. Raises TypeError for any other `logger`.
    """
    if logger is None:
        _kvtier.set_logger(None)
        return
    write = logger.log if isinstance(logger, logging.Logger) else logger
    if not callable(write):
        raise TypeError(f"logger is a {type(logger).__name__}; must be a logging.Logger, a callable "
                        "or None")
    _kvtier.set_logger(lambda level, line: write(_LEVELS[level], line))


atexit.register(set_logger, None)  # No thread may call Python code once the interpreter ends.
