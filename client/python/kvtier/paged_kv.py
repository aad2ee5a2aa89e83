"""KV memory of a worker's sequences, in slots of the node's GPU pool."""

from collections.abc import Sequence
from dataclasses import dataclass

from . import _kvtier
from .arguments import listed


@dataclass(frozen=True)
class SequenceFacts:
    """State of one sequence."""

    tokens: int
    blocks_out: int  # Number of blocks that are swapped out; swap_in() needs as many slots.
    swapped_out: bool  # Whether it is swapped out: it has no slots() until swap_in().


class PagedKv:
    """Sequences as lists of slots, made by Client.paged_kv(). Not thread-safe.

    It is for pools that the CPU can touch. Slot n is the slot_bytes of `memory` from n * slot_bytes
    on. Only slots that slots() names may be touched, and slots of `shared` blocks may only be read:
    append() copies a shared block before it is written. Every read of a slot must have ended before
    the call that gives the slot up.
    """

    def __init__(self, native: _kvtier.PagedKv) -> None:
        self._native = native
        self.slot_bytes: int = native.slot_bytes()
        self.granted_slots: int = native.granted_slots()
        self.memory = memoryview(native.memory()).cast("B")  # The whole pool.

    def open(self, priority: int = 0) -> int:
        """Opens an empty sequence and returns its id.

        Sequences stand in one line, by higher priority, then by age (opened or forked earlier). The
        last in line is swapped out first, and the first comes back first.
        """
        return self._native.open(priority)

    def set_priority(self, sequence: int, priority: int) -> None:
        """Changes a sequence's priority, also while it is swapped out. A fork has its parent's."""
        self._native.set_priority(sequence, priority)

    def append(self, sequence: int, tokens: int) -> None:
        """Makes room for `tokens` more, in zeroed slots.

        Raises BlockingIOError if there are too few slots: swap out victims(), then try again. Raises
        RuntimeError if there is no such sequence, or it is swapped out.
        """
        self._native.append(sequence, tokens)

    def fork(self, sequence: int) -> int:
        """Opens a second sequence with the same tokens, which shares every block, and returns its id."""
        return self._native.fork(sequence)

    def truncate(self, sequence: int, tokens: int) -> None:
        """Forgets all but the first `tokens`. Raises ValueError if the sequence has fewer."""
        self._native.truncate(sequence, tokens)

    def free(self, sequence: int) -> None:
        """Gives the sequence's blocks back, also those that are swapped out."""
        self._native.free(sequence)

    def swap_out(self, sequences: Sequence[int]) -> None:
        """Moves whole sequences to the agent's host memory, together.

        A block that another sequence shares stays. Raises BlockingIOError if the tenant's host memory
        has no room, and RuntimeError without an agent. An error changes nothing.
        """
        self._native.swap_out(listed("sequences", sequences))

    def swap_in(self, sequence: int) -> None:
        """Brings one sequence back, whole.

        Raises RuntimeError if it is not swapped out, or another that is swapped out is ahead of it in
        line; BlockingIOError if there are too few slots; and OSError if blocks of it are lost for
        ever, or damaged: then free it and compute it again.
        """
        self._native.swap_in(sequence)

    def next_return(self) -> int | None:
        """Returns the sequence that may come back first; None if none is swapped out."""
        return self._native.next_return()

    def victims(self, beneficiary: int, slots: int) -> list[int]:
        """Returns the sequences to swap out so that `beneficiary` gets `slots` more slots.

        Raises BlockingIOError if the sequences after `beneficiary` in line have too few slots.
        """
        return self._native.victims(beneficiary, slots)

    def slots(self, sequence: int) -> list[int]:
        """Returns the slot number of each block. Raises RuntimeError while the sequence is swapped out."""
        return self._native.slots(sequence)

    def facts(self, sequence: int) -> SequenceFacts:
        return SequenceFacts(*self._native.facts(sequence))

    def fragmentation(self) -> tuple[int, int]:
        """Returns the tokens that the used slots have room for, and how many of these are unused."""
        return self._native.fragmentation()

    def valid(self) -> bool:
        """Whether the agent still grants the slots. Ask after computing, before using the result."""
        return self._native.valid()

    @property
    def free_slots(self) -> int:
        return self._native.free_slots()

    @property
    def swapped_bytes(self) -> int:
        return self._native.swapped_bytes()

    @property
    def copied_blocks(self) -> int:
        """Number of shared blocks that were copied before a write, so far."""
        return self._native.copied_blocks()
