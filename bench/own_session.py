"""Processes in a session of their own, which the kernel schedules as one unit (autogroup), as it does a pod."""

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


class OwnSession:
    """`count` processes that run `body(number)` in one session of their own, until end()."""

    def __init__(self, count: int, body: Callable[[int], None]) -> None:
        self._leader = multiprocessing.Process(target=_lead, args=(count, body))
        self._leader.start()

    def end(self) -> None:
        """Ends all of them."""
        if self._leader.is_alive():
            os.killpg(self._leader.pid, signal.SIGKILL)
        self._leader.join()


def _end_with_parent() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _lead(count: int, body: Callable[[int], None]) -> None:
    _end_with_parent()
    os.setsid()
    members = [multiprocessing.Process(target=_follow, args=(body, number)) for number in range(count)]
    for member in members:
        member.start()
    for member in members:
        member.join()


def _follow(body: Callable[[int], None], number: int) -> None:
    _end_with_parent()
    body(number)
