"""KV memory of the worker's own, in slots of the node's GPU pool."""

from collections.abc import Sequence
from dataclasses import dataclass

from . import _kvtier


@dataclass(frozen=True)
class SequenceFacts:
    """Where one sequence stands."""

    tokens: int
    blocks_out: int  # Swapped out, so that swap_in() needs as many slots.
    swapped_out: bool  # Out of the pool: no slots() until swap_in().


class PagedKv:
    """Sequences as lists of slots, made by Client.paged_kv(). Not thread-safe.

    For pools that the CPU can touch. A slot is slot_bytes of `memory`, slot n at n * slot_bytes;
    only slots that slots() names may be touched, and those with `shared` blocks only read: append()
    copies what is shared before it is written. What read a slot must be done with it before the
    call that gives it up.
    """

    def __init__(self, native: _kvtier.PagedKv) -> None:
        self._native = native
        self.slot_bytes: int = native.slot_bytes()
        self.granted_slots: int = native.granted_slots()
        self.memory = memoryview(native.memory()).cast("B")  # The whole pool.

    def open(self, priority: int = 0) -> int:
        """A new, empty sequence.

        All stand in one line, the higher priority ahead, and of the same priority who was opened
        or forked earlier: the last is swapped out first, the first comes back first.
        """
        return self._native.open(priority)

    def set_priority(self, sequence: int, priority: int) -> None:
        """Moves it in line, also while it is swapped out. A fork has its parent's priority."""
        self._native.set_priority(sequence, priority)

    def append(self, sequence: int, tokens: int) -> None:
        """Room for `tokens` more; new slots are zeros.

        Raises BlockingIOError when there are too few slots: swap out victims(), then try again.
        RuntimeError: no such sequence, or it is out of the pool.
        """
        self._native.append(sequence, tokens)

    def fork(self, sequence: int) -> int:
        """A second sequence with the same tokens, sharing every block."""
        return self._native.fork(sequence)

    def truncate(self, sequence: int, tokens: int) -> None:
        """Forgets all but the first `tokens`. Raises ValueError when it has fewer."""
        self._native.truncate(sequence, tokens)

    def free(self, sequence: int) -> None:
        """Gives the sequence's blocks back, also those that are swapped out."""
        self._native.free(sequence)

    def swap_out(self, sequences: Sequence[int]) -> None:
        """Moves whole sequences to the agent's host memory, together.

        A block that somebody else shares stays. Raises BlockingIOError when the tenant's host
        memory has no room for them; RuntimeError without an agent. An error changes nothing.
        """
        self._native.swap_out(list(sequences))

    def swap_in(self, sequence: int) -> None:
        """Brings one sequence back, whole.

        Raises RuntimeError when it is not out, or another that is out is ahead of it in line;
        BlockingIOError when there are too few slots. OSError when blocks of it are lost for ever,
        or damaged: free it and compute it again.
        """
        self._native.swap_in(sequence)

    def next_return(self) -> int | None:
        """The one that may come back; None when none is out."""
        return self._native.next_return()

    def victims(self, beneficiary: int, slots: int) -> list[int]:
        """Whom to swap out for `slots` more slots for `beneficiary`.

        Raises BlockingIOError when those behind it in line hold too little.
        """
        return self._native.victims(beneficiary, slots)

    def slots(self, sequence: int) -> list[int]:
        """The pool's slot numbers, by block. Raises RuntimeError while it is out of the pool."""
        return self._native.slots(sequence)

    def facts(self, sequence: int) -> SequenceFacts:
        return SequenceFacts(*self._native.facts(sequence))

    def fragmentation(self) -> tuple[int, int]:
        """Room of the used slots in tokens, and how much of it no token fills."""
        return self._native.fragmentation()

    def valid(self) -> bool:
        """The agent still grants the slots. Ask after computing, before believing the outcome."""
        return self._native.valid()

    @property
    def free_slots(self) -> int:
        return self._native.free_slots()

    @property
    def swapped_bytes(self) -> int:
        return self._native.swapped_bytes()

    @property
    def copied_blocks(self) -> int:
        """Blocks that were copied because they were shared when somebody wrote to them."""
        return self._native.copied_blocks()
