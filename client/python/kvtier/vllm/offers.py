"""Decides how many blocks of a request are offered to the engine to be loaded."""

import time
from collections.abc import Callable, Sequence

import kvtier

from .stats import Counts
from .tracked_request import Look, TrackedRequest

_ON_NODE = ("gpu", "host", "disk")
_TICKET_S = 60.0  # Longest lifetime of a ticket, in seconds.
_TICKET_SPARE_S = 15.0  # Time that a load needs, in seconds: a ticket with less left is taken again.
_SHORTEST_WAIT_S = 0.02


class Offers:
    """Looks for blocks without waiting: by tables, and by calls that were submitted.

    `spaces` has one for each rank and KV group. A block counts only if all of them have it, so that all ranks load
    the same blocks. With `held`, only blocks are offered that a ticket holds in host memory, verified. Otherwise all
    are offered that the table says this node has, or that a prefetch is bringing from other nodes; a load then copies
    each block as it comes. `seconds_a_block()` returns the time to compute a block, as far as that is known.
    """

    def __init__(self, client: kvtier.Client, spaces: Sequence[kvtier.Space], seconds_a_block: Callable[[], float],
                 max_wait_s: float, peers: bool, held: bool, counts: Counts,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._spaces = tuple(spaces)
        self._seconds_a_block = seconds_a_block
        self._max_wait_s = max_wait_s
        self._peers = peers
        self._held = held
        self._counts = counts
        self._clock = clock

    def loadable_blocks(self, tracked: TrackedRequest, keys: Sequence[bytes]) -> int | None:
        """Returns how many leading blocks of `keys` can be loaded; None: ask again in the next step.

        From the request's deadline on it is never None. Sends at most one call for each request, and does not wait
        for it.
        """
        if tracked.look is not None and tracked.look.first_block != tracked.local_blocks:
            self.forget(tracked)  # The engine has gained or lost blocks, so other blocks are to be looked for.
        run = min(self._client.resident_run(space, keys) for space in self._spaces)
        if run == 0 and not self._peers:
            return 0
        wanted = keys if self._peers else keys[:run]
        return self._by_ticket(tracked, wanted) if self._held else self._by_table(tracked, wanted, run)

    def wait_s(self, blocks: int) -> float:
        """Returns the seconds to wait for so many blocks: at most the time to compute them, but at least 20 ms."""
        return max(_SHORTEST_WAIT_S, min(self._max_wait_s, blocks * self._seconds_a_block()))

    def load_timeout_s(self, blocks: int) -> float:
        """Returns the seconds that a load of so many blocks may take: wait_s(), or with `held` the longest wait,
        because a failed load then fails the request."""
        return max(self._max_wait_s, _SHORTEST_WAIT_S) if self._held else self.wait_s(blocks)

    def forget(self, tracked: TrackedRequest) -> None:
        """Ends the look for the request's blocks, and releases its ticket."""
        look, tracked.look = tracked.look, None
        if look is None:
            return
        if look.ticket is not None:
            self._client.release_ticket(look.ticket)
        elif self._held and look.call is not None:
            look.call.add_done_callback(self._release_late)

    def _by_table(self, tracked: TrackedRequest, keys: Sequence[bytes], run: int) -> int | None:
        here = self._leading_here(keys[:run]) if run else 0
        if here == len(keys):
            return here  # A load copies blocks on a disk as they come, so to wait for them before it gains nothing.
        look = self._look(tracked, keys, len(keys) - here)
        if look.call is None:
            return here  # The maximum number of calls is in progress.
        if look.call.done() and (coming := self._coming(look.call.result(0), len(keys), here)) is not None:
            return coming
        if self._clock() < look.deadline:
            self._counts.add("deferred_looks")
            return None
        if not look.call.done():
            self._counts.add("late_looks")
        return here

    def _coming(self, answer: int, wanted: int, here: int) -> int | None:
        """Returns how many leading blocks all spaces have or are being brought; None: that is not known yet.

        `answer` is the prefetch's: blocks that are here or coming, summed over the spaces. It tells how many each space
        will have if there is one space, or if all blocks are coming. Otherwise the tables tell it when the blocks are
        here.
        """
        if len(self._spaces) == 1 or answer == wanted * len(self._spaces):
            return max(here, answer // len(self._spaces))
        return here if here >= answer // len(self._spaces) else None

    def _by_ticket(self, tracked: TrackedRequest, keys: Sequence[bytes]) -> int | None:
        look = self._look(tracked, keys, len(keys))
        if look.ticket is not None and self._clock() > look.ticket_ends - _TICKET_SPARE_S:
            self.forget(tracked)
            look = self._look(tracked, keys, len(keys))
        if look.call is None:
            return 0
        if not look.call.done():
            if self._clock() < look.deadline:
                self._counts.add("deferred_looks")
                return None
            self._counts.add("late_looks")
            return 0
        ticket = look.call.result(0)
        if ticket.id is None:
            return 0
        look.ticket = ticket.id
        return min(min(_leading_places(places) for places in ticket.held), len(keys))

    def _look(self, tracked: TrackedRequest, keys: Sequence[bytes], missing: int) -> Look:
        """Returns the request's look, begun now if it has none. Its wait is worth the computing of `missing` blocks."""
        if tracked.look is None:
            now, wait_s = self._clock(), self.wait_s(missing)
            if tracked.postponed_until is not None:  # The time of the postponement is a part of the wait.
                wait_s = max(0.0, min(wait_s, tracked.postponed_until - now))
                tracked.postponed_until = None
            tracked.look = Look(now + wait_s, tracked.local_blocks)
            hint = tracked.options.hint
            self._submit(tracked.look, [hinted(space, keys, hint) for space in self._spaces], wait_s)
        return tracked.look

    def _submit(self, look: Look, sequences: list[kvtier.Sequence], wait_s: float) -> None:
        try:
            if self._held:
                look.ticket_ends = self._clock() + _TICKET_S
                look.call = self._client.submit_take_ticket(sequences, timeout_s=wait_s, lifetime_s=_TICKET_S)
            else:
                look.call = self._client.submit_prefetch(sequences, timeout_s=wait_s)
        except BlockingIOError:
            pass  # 256 calls are in progress, and this one is optional.

    def _leading_here(self, keys: Sequence[bytes]) -> int:
        """Returns how many leading keys all spaces have on this node."""
        leading = len(keys)
        for space in self._spaces:
            residences = self._client.residences(space, keys[:leading]) if leading else []
            leading = next((i for i, tier in enumerate(residences) if tier not in _ON_NODE), leading)
        return leading

    def _release_late(self, call: kvtier.Call[kvtier.Ticket]) -> None:
        ticket = call.result(0)
        if ticket is not None and ticket.id is not None:
            self._client.release_ticket(ticket.id)


def hinted(space: kvtier.Space, keys: Sequence[bytes], hint: kvtier.ReuseHint) -> kvtier.Sequence:
    """Returns the run `keys` with what is known about the next use of its blocks."""
    return kvtier.Sequence(space, keys, conversation=hint.conversation, turn=hint.turn, priority=hint.priority,
                           will_not_return=hint.will_not_return, finish=hint.finish)


def _leading_places(places: Sequence[int]) -> int:
    """Returns how many of 0, 1, ... `places` begins with."""
    return next((i for i, place in enumerate(places) if place != i), len(places))
