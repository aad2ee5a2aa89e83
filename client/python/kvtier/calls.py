"""Calls that were submitted and end later."""

import logging
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from . import _kvtier
from .arguments import shown
from .blocks import Hit
from .sequences import Arrived

Result = TypeVar("Result")

_log = logging.getLogger("kvtier")


class Call(Generic[Result]):
    """A call in progress, as Client.submit_onboard() and its like return it.

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
        """Whether the call has ended. Never waits."""
        return self._ended

    def result(self, timeout_s: float | None = None) -> Result:
        """Waits for the call's end and returns the result that the waiting call would have returned.

        Waits `timeout_s` seconds at most; 0: not at all; None: until the call ends. Raises
        TimeoutError if the call has not ended by then, ValueError for a timeout that is negative,
        infinite or no number, and RuntimeError in a child that was forked meanwhile, where the call
        never ends.
        """
        if not self._await(self.done, timeout_s):
            raise TimeoutError(f"the call has not ended within {timeout_s} s")
        return cast(Result, self._result)

    def add_done_callback(self, callback: Callable[["Call[Result]"], object]) -> None:
        """Calls `callback(call)` once: when the call ends, or now if it has ended.

        The client's own thread makes the callback at the call's end. It ends all submitted calls one
        after the other, so the callback must not wait. The callback may submit calls and close the
        client. An exception that it raises is logged.
        """
        with self._changed:
            if not self._ended:
                self._callbacks.append(callback)
                return
        self._tell(callback)

    def _await(self, condition: Callable[[], bool], timeout_s: float | None) -> bool:
        """Waits until the client's thread has made `condition()` true; returns whether it is true."""
        if timeout_s is not None and not (isinstance(timeout_s, (int, float)) and math.isfinite(timeout_s)
                                          and timeout_s >= 0):
            raise ValueError(
                f"timeout_s is {shown(timeout_s)}; must be a finite number of seconds, 0 or more")
        if not condition() and self._process != os.getpid():
            raise RuntimeError("the call was submitted by the parent process, before the fork, and never ends in this "
                               "one, where every call is a miss")
        if not condition():
            with self._changed:
                self._changed.wait_for(condition, timeout_s)
        return condition()

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
            _log.exception("a callback of a submitted call raised an exception, which ends here")


@dataclass(frozen=True)
class Part:
    """Blocks of one sequence that became ready since its part before, under leases of their own.

    For a run they follow those of the part before; for a set they come in any order. hit.index(i) says which
    key block i has. hit.missed is not known yet.
    """

    sequence: int  # Place of the sequence in the call.
    hit: Hit


class PartsCall(Call[list[Arrived]]):
    """A call of Client.submit_onboard_parts() in progress.

    Wait for its parts one by one:

        for part in call:
            copy(part.sequence, part.hit)
        arrived = call.result()

    result() returns an Arrived for each sequence. Parts that nobody takes keep their leases until
    their deadline, or until the call is destroyed.
    """

    def __init__(self, on_part: Callable[[Part], object] | None) -> None:
        super().__init__()
        self._on_part = on_part
        self._parts: deque[Part] = deque()

    def next_part(self, timeout_s: float | None = None) -> Part | None:
        """Waits for the next part and returns it; None: the call has ended, and has no more parts.

        Waits and raises as result() does, with TimeoutError if there is no part by then. A call with
        an `on_part` returns None at its end.
        """
        while self._await(self._has_next, timeout_s):
            with self._changed:
                if self._parts:
                    return self._parts.popleft()
                if self._ended:
                    return None
        raise TimeoutError(f"no part has come within {timeout_s} s")

    def __iter__(self) -> Iterator[Part]:
        """Iterates over the parts as they come, until the call ends."""
        while (part := self.next_part()) is not None:
            yield part

    def _has_next(self) -> bool:
        return bool(self._parts) or self._ended

    def _arrive(self, native: tuple[int, _kvtier.Hit]) -> None:
        sequence, hit = native
        part = Part(sequence, Hit(hit))
        on_part = self._on_part
        if on_part is not None:
            self._tell(lambda _: on_part(part))
            return
        with self._changed:
            self._parts.append(part)
            self._changed.notify_all()
