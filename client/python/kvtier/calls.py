"""Calls that were submitted and end later."""

import logging
import math
import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")

_log = logging.getLogger("kvtier")


class Call(Generic[Result]):
    """A call under way, as Client.submit_onboard() and its like return it.

    It ends by the timeout it was submitted with, as a miss if need be, and when its client is
    closed. Thread-safe. With asyncio:

        ended = loop.create_future()
        call.add_done_callback(lambda call: loop.call_soon_threadsafe(
            ended.set_result, call.result()))
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._callbacks: list[Callable[["Call[Result]"], object]] = []
        self._ended = False
        self._result: Result | None = None
        self._process = os.getpid()

    def done(self) -> bool:
        """Whether it has ended. Never waits."""
        return self._ended

    def result(self, timeout_s: float | None = None) -> Result:
        """What the waiting call would have returned, as soon as it is there.

        Waits `timeout_s` seconds at most; 0: not at all; None: until the call ends. Raises
        TimeoutError when it has not ended by then, ValueError for a timeout that is negative,
        infinite or no number, and RuntimeError in a child that was forked meanwhile, where it
        never ends.
        """
        if timeout_s is not None and not (math.isfinite(timeout_s) and timeout_s >= 0):
            raise ValueError(
                f"timeout_s is {timeout_s}; must be a finite number of seconds, 0 or more")
        if not self._ended and self._process != os.getpid():
            raise RuntimeError("the call was submitted before the fork and is the parent's")
        if not self._ended:
            with self._changed:
                self._changed.wait_for(self.done, timeout_s)
        if not self._ended:
            raise TimeoutError(f"the call has not ended within {timeout_s} s")
        return self._result

    def add_done_callback(self, callback: Callable[["Call[Result]"], object]) -> None:
        """Calls `callback(call)` once: when the call ends, or now if it has ended.

        That is in the client's own thread, which ends all submitted calls one after the other: the
        callback must not wait. It may submit calls and close the client. What it raises is logged.
        """
        with self._changed:
            if not self._ended:
                self._callbacks.append(callback)
                return
        self._tell(callback)

    def _end(self, result: Result) -> None:
        with self._changed:
            self._result = result
            self._ended = True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            self._tell(callback)

    def _tell(self, callback: Callable[["Call[Result]"], object]) -> None:
        try:
            callback(self)
        except Exception:
            _log.exception("a callback of a submitted call failed")
