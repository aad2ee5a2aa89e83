"""Waits for a condition, with a deadline."""

import time
from collections.abc import Callable

_POLL_S = 0.05


def until(condition: Callable[[], bool], what: str, timeout_s: float = 120) -> None:
    """Returns when `condition` holds. Raises TimeoutError, which names `what`, if it does not hold in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} within {timeout_s:.0f} s")
        time.sleep(_POLL_S)
