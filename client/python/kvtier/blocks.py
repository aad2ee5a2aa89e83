"""Blocks that a worker holds: hits to read and slots to write, without a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _kvtier
from .arguments import check_index

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True)
class HostMemory:
    """Host memory that the agent handed to one session."""

    read: memoryview  # Read-only; the tenant's arena.
    write: memoryview | None  # Memory of the slots of puts. None: the agent hands out none.
    # True: `write` is a region of the session's own, from which the agent copies at commit (the
    # agent's --worker_memory=staged). False: `write` is the arena, too.
    is_staged: bool


class _Views:
    """The memoryviews given out for one hit or put, so that its end can end them."""

    def __init__(self) -> None:
        self._views: dict[int, memoryview] = {}

    def get(self, index: int, block: Callable[[int], Any]) -> memoryview:
        """Returns the view of block `index`, made from `block(index)` the first time."""
        if index not in self._views:
            self._views[index] = memoryview(block(index))
        return self._views[index]

    def release_one(self, index: int) -> None:
        view = self._views.pop(index, None)
        try:
            if view is not None:
                view.release()
        except BufferError:
            pass  # Another object, such as a numpy array, still uses the view: it stays mapped.

    def release(self) -> None:
        for index in list(self._views):
            self.release_one(index)


class Hit:
    """Blocks that the agent leased to this worker, readable in place.

    For a run they are its leading blocks; for a set any of its blocks. index(i) says which key block i has.

    Copy what you need, wait until the copy is complete, then ask valid(): only True means that all
    bytes that were read were those of the blocks. A Hit is a context manager; leaving it releases
    the leases and never blocks. Its views are unusable afterwards; a numpy array made from a view
    stays readable, but shows whatever the memory then holds. One thread at a time may use a Hit.
    """

    def __init__(self, native: _kvtier.Hit) -> None:
        self._native = native
        self._views = _Views()

    def __len__(self) -> int:
        return len(self._native)

    def __getitem__(self, index: int) -> memoryview:
        """Returns the bytes of block `index`: a read-only view of shared memory, not a copy."""
        check_index(index, len(self), "hit")
        return self._views.get(index, self._native.block)

    def dlpack(self, index: int) -> _kvtier.Block:
        """Returns the bytes of block `index` for torch.from_dlpack() and its like: a view, not a copy.

        The view is read-only, so the consumer must accept DLPack version 1. Like a numpy array it
        stays readable when the hit has ended, but shows whatever the memory then holds.
        """
        check_index(index, len(self), "hit")
        return self._native.block(index)

    def __iter__(self) -> Iterator[memoryview]:
        return (self[i] for i in range(len(self)))

    @property
    def sources(self) -> list[str]:
        """Place of each block when it was asked for: "gpu", "host", "disk" or "peer"."""
        return self._native.sources()

    @property
    def missed(self) -> str | None:
        """Reason why the first block that is missing did not come; None: none is missing.

        "absent": no tier that was asked has it; "evicted": absent, because it left this node's
        memory to make room; "deadline": it did not come in time; "no_room": there was no room for
        it, or no lease left; "damaged": its bytes did not match its sum; "unreachable": no agent
        answered, or the client's breaker is open; "space_refused": the agent refuses the space;
        "busy": it was not waited for, because too many blocks waited already.
        """
        return self._native.missed()

    def index(self, index: int) -> int:
        """Returns the place of block `index`'s key among the sequence's keys.

        For a run this is `index`, except in a part of one (Client.submit_onboard_parts()).
        """
        check_index(index, len(self), "hit")
        return self._native.index(index)

    def copy_out(self, index: int, to: Buffer | Iterable[Buffer]) -> bool:
        """Copies block `index` into `to` and returns whether `to` then holds the block.

        `to` is one writable buffer or a list of them, filled one after the other: contiguous objects
        with the buffer protocol, whose sizes in bytes add up to the block's. One pass copies and
        takes the sum of the copied bytes, which must be the lease's. False: do not use what is in
        `to`. If valid() is still True then, this block is damaged and a miss, and the agent is told;
        otherwise the whole hit is a miss. The GIL is released during the copy. Raises IndexError, and
        ValueError for a buffer or a size.
        """
        check_index(index, len(self), "hit")
        return self._native.copy_out(index, to)

    def prove(self, index: int) -> bool:
        """Returns whether the bytes read of hit[index] so far were the block's.

        Call it after the last read, if you read or copy the bytes by other means than copy_out().
        It takes the sum of the block where it lies, which must be the lease's. False means the same
        as for copy_out(). The GIL is released meanwhile. Raises IndexError, and ValueError if only a
        device reaches the block.
        """
        check_index(index, len(self), "hit")
        return self._native.prove(index)

    def valid(self) -> bool:
        """Returns whether all that was read so far may be used. False for an empty or released hit."""
        return self._native.valid()

    def release(self) -> None:
        """Ends the leases before their deadline. Idempotent."""
        self._views.release()
        self._native.release()

    def __enter__(self) -> Hit:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()


class Put:
    """Room for new blocks, one entry for each key. Take slots and write them, then commit() once.

    put[i] takes the slot of block i. commit() publishes the slots that were taken, whatever is in
    them, and gives the others back: fill each slot that you take, or give it back by give_back(i).
    copy_in(i, source) takes a slot and fills it. A Put is a context manager; leaving it gives back
    the slots that were not committed and never blocks. Its views are unusable after commit() or
    release(). A numpy array made from a view must not be written then: the memory is no longer
    yours. One thread at a time may use a Put.
    """

    def __init__(self, native: _kvtier.Put) -> None:
        self._native = native
        self._states: list[str] = native.states()
        self._answered: bool = native.answered()
        self._views = _Views()
        self._ended = False

    def __len__(self) -> int:
        return len(self._states)

    def __getitem__(self, index: int) -> memoryview | None:
        """Takes the slot of block `index` and returns it to be written; None: the block has no slot."""
        check_index(index, len(self), "put")
        if self._states[index] != "reserved" or self._ended:
            return None
        return self._views.get(index, self._native.block)

    def dlpack(self, index: int) -> _kvtier.Block | None:
        """Takes the slot of block `index` for torch.from_dlpack() and its like; None: it has no slot.

        A tensor made from the slot must not be written after commit() or release(): the memory is no
        longer yours.
        """
        check_index(index, len(self), "put")
        if self._states[index] != "reserved" or self._ended:
            return None
        return self._native.block(index)

    def copy_in(self, index: int, source: Buffer | Iterable[Buffer]) -> None:
        """Takes the slot of block `index` and fills it with `source`.

        `source` is one buffer or a list of them, copied one after the other: contiguous objects with
        the buffer protocol, read-only or not, whose sizes in bytes add up to the block's. One pass
        copies and takes the block's sum, which commit() sends, so that the agent need not read the
        bytes. The view of put[index] ends; a later put[index] forgets the sum. The GIL is released
        during the copy, in which no thread may write `source`. Raises IndexError, and ValueError for
        a buffer, a size, or a block that has no slot; then no slot was taken.
        """
        check_index(index, len(self), "put")
        if self._states[index] != "reserved" or self._ended:
            state = "given up" if self._ended else self._states[index]
            raise ValueError(f"block {index} is {state}; must be reserved to be written")
        self._views.release_one(index)
        self._native.copy_in(index, source)

    @property
    def states(self) -> list[str]:
        """State of each key: "reserved", "present" (the node has it), "pending", "no_room" or "no_store".

        "pending": a worker is putting it; if that worker gives up, nobody stores it, so reserve it
        again a little later to be sure. "no_room": nothing could be evicted for it, or no agent
        `answered`. "no_store": its sequence is not to be stored.
        """
        return list(self._states)

    @property
    def answered(self) -> bool:
        """Whether the states are the agent's answer. False: no agent answered in time."""
        return self._answered

    def give_back(self, index: int) -> None:
        """Gives back the slot of block `index` alone, unpublished; its state becomes "no_room"."""
        check_index(index, len(self), "put")
        if self._states[index] != "reserved" or self._ended:
            return
        self._views.release_one(index)
        self._native.give_back(index)
        self._states[index] = "no_room"

    def commit(self, step: int = 0, durable: bool = False, timeout_s: float | None = None) -> int:
        """Publishes the slots that were taken and gives all up. Returns how many were published.

        With a `step` of Client.begin_step(), the slots are published when that step has ended. With
        `durable`, the call waits, `timeout_s` at most, until each block is on disk or will not be,
        and returns how many are on disk; the others stay published. With a `timeout_s` of 0 it does
        not wait for the disk. Raises ValueError for a timeout that is negative, infinite or no
        number; then nothing was published.
        """
        if self._ended:
            return 0
        self._views.release()
        committed = self._native.commit(step, durable, timeout_s)
        self._ended = True
        return committed

    def _submit_commit(self, client: _kvtier.Client, step: int, durable: bool,
                       timeout_s: float | None, done: Callable[[int], object]) -> None:
        self._views.release()
        client.submit_commit(self._native, step, durable, timeout_s, done)
        self._ended = True

    def release(self) -> None:
        """Gives back the slots that were not committed. Idempotent."""
        self._ended = True
        self._views.release()
        self._native.release()

    def __enter__(self) -> Put:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()
