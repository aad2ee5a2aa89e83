"""Blocks in a worker's hands: hits to read and slots to write, without a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _kvtier

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True)
class HostMemory:
    """Host memory as one session was handed it."""

    read: memoryview  # Read-only; the tenant's arena.
    write: memoryview | None  # None: the agent hands out none.
    # `write` is a region of the session's own, from which the agent copies at commit (the agent's
    # --worker_memory=staged); otherwise it is the arena, too.
    is_staged: bool


class _Views:
    """The memoryviews given out for one hit or put, so that its end can end them."""

    def __init__(self) -> None:
        self._views: dict[int, memoryview] = {}

    def get(self, index: int, block: Callable[[int], Any]) -> memoryview:
        """The view of block `index`, made from `block(index)` the first time."""
        if index not in self._views:
            self._views[index] = memoryview(block(index))
        return self._views[index]

    def release_one(self, index: int) -> None:
        view = self._views.pop(index, None)
        try:
            if view is not None:
                view.release()
        except BufferError:
            pass  # Something else, a numpy array, still looks through it: it stays mapped.

    def release(self) -> None:
        for index in list(self._views):
            self.release_one(index)


class Hit:
    """Blocks that the agent leased to this worker, readable in place.

    Of a run they are the leading ones. Of a set they are any; index(i) says of which key.

    Copy what you need, wait until the copy is done, then ask valid(): only when it says True was
    everything that was read what it was said to be. A context manager; leaving it releases the
    leases and never blocks. Views given out are unusable afterwards; a numpy array made from one
    stays readable, but shows whatever the memory holds by then. One thread at a time.
    """

    def __init__(self, native: _kvtier.Hit) -> None:
        self._native = native
        self._views = _Views()

    def __len__(self) -> int:
        return len(self._native)

    def __getitem__(self, index: int) -> memoryview:
        """The bytes of block `index`: a read-only view of shared memory, not a copy."""
        if not 0 <= index < len(self):
            raise IndexError(f"block {index} of a hit of {len(self)}")
        return self._views.get(index, self._native.block)

    def dlpack(self, index: int) -> _kvtier.Block:
        """The bytes of block `index` for torch.from_dlpack() and its like: a view, not a copy.

        It is read-only, so that the consumer must take DLPack of version 1. Like a numpy array it
        stays readable when the hit has ended, but shows whatever the memory holds by then.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"block {index} of a hit of {len(self)}")
        return self._native.block(index)

    def __iter__(self) -> Iterator[memoryview]:
        return (self[i] for i in range(len(self)))

    @property
    def sources(self) -> list[str]:
        """Where each block was when it was asked for: "gpu", "host", "disk" or "peer"."""
        return self._native.sources()

    @property
    def missed(self) -> str | None:
        """Why the first block that is missing did not come; None: none is missing.

        "absent": no tier that was asked has it; "evicted": so it is, and it left this node's memory
        to make room; "deadline": it did not come in time; "no_room": there was no room for it, or
        no lease left; "damaged": its bytes were not what they must be; "unreachable": the agent is
        away, or the client's breaker is open; "space_refused": the agent does not take the space.
        """
        return self._native.missed()

    def index(self, index: int) -> int:
        """The place of block `index`'s key among the sequence's keys.

        Of a run it is `index`, but in a part of one (Client.submit_onboard_parts()).
        """
        if not 0 <= index < len(self):
            raise IndexError(f"block {index} of a hit of {len(self)}")
        return self._native.index(index)

    def copy_out(self, index: int, to: Buffer | Iterable[Buffer]) -> bool:
        """Copies block `index` into `to` and returns whether `to` then holds the block.

        `to` is one writable buffer or a list of them, filled one after the other; any contiguous
        object with the buffer protocol will do, and the sizes in bytes add up to the block's. One
        pass copies and takes the sum of what was stored, which must be the lease's. False: do not
        use what is in `to`. If valid() still says True, this block is damaged and a miss, and the
        agent is told; otherwise the whole hit is a miss. Other threads run meanwhile. Errors:
        IndexError; ValueError, for a buffer or a size.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"block {index} of a hit of {len(self)}")
        return self._native.copy_out(index, to)

    def prove(self, index: int) -> bool:
        """Whether what was read of hit[index] so far was the block. Call it behind the last read.

        Takes the sum of the block where it lies, which must be the lease's, for who reads or copies
        the bytes by other means than copy_out(), and answers as copy_out() does. Other threads run
        meanwhile. Errors: IndexError; ValueError, only a device reaches the block.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"block {index} of a hit of {len(self)}")
        return self._native.prove(index)

    def valid(self) -> bool:
        """Whether all that was read so far may be used. False for an empty or released hit."""
        return self._native.valid()

    def release(self) -> None:
        """Ends the leases early. Idempotent."""
        self._views.release()
        self._native.release()

    def __enter__(self) -> Hit:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()


class Put:
    """Room for new blocks, one entry for each key. Take slots and write them, then commit() once.

    put[i] takes the slot of block i. commit() publishes the slots that were taken, whatever is in
    them, and gives the others back: fill what you take, or give it back by give_back(i).
    copy_in(i, source) takes a slot and fills it. A context manager; leaving it gives back what was
    not committed and never blocks. Views are unusable
    after commit() or release(). A numpy array made from one must not be written then: the memory
    is no longer yours. One thread at a time.
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
        """Takes the slot of block `index`: writable, or None where there is nothing to write."""
        if not 0 <= index < len(self):
            raise IndexError(f"block {index} of a put of {len(self)}")
        if self._states[index] != "reserved" or self._ended:
            return None
        return self._views.get(index, self._native.block)

    def dlpack(self, index: int) -> _kvtier.Block | None:
        """Takes the slot of block `index` for torch.from_dlpack() and its like; None as put[index].

        A tensor made from it must not be written after commit() or release(): the memory is no
        longer yours.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"block {index} of a put of {len(self)}")
        if self._states[index] != "reserved" or self._ended:
            return None
        return self._native.block(index)

    def copy_in(self, index: int, source: Buffer | Iterable[Buffer]) -> None:
        """Takes the slot of block `index` and fills it with `source`.

        `source` is one buffer or a list of them, copied one after the other; any contiguous object
        with the buffer protocol will do, read-only or not, and the sizes in bytes add up to the
        block's. One pass copies and takes the block's sum, which commit() sends: the agent need not
        read the bytes. Ends the view of put[index]; a later put[index] forgets the sum. Other
        threads run meanwhile, and must not write `source`. Errors: IndexError; ValueError, for a
        buffer, a size, or a block that has no slot; nothing is taken then.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"block {index} of a put of {len(self)}")
        if self._states[index] != "reserved" or self._ended:
            raise ValueError(f"block {index} has no slot to write: it is "
                             f"{'given up' if self._ended else self._states[index]}")
        self._views.release_one(index)
        self._native.copy_in(index, source)

    @property
    def states(self) -> list[str]:
        """For each key "reserved", "present" (cached), "pending", "no_room" or "no_store".

        "pending": a worker is putting it, and if that one gives up, nobody stores it: who wants to
        be sure reserves it again a little later. "no_room": nothing could be evicted for it, or
        nobody `answered`. "no_store": its sequence says so.
        """
        return list(self._states)

    @property
    def answered(self) -> bool:
        """Whether the agent said what is so of each key. False: none is there, or not in time."""
        return self._answered

    def give_back(self, index: int) -> None:
        """Gives back the slot of block `index` alone, unpublished; its state is "no_room" then."""
        if not 0 <= index < len(self):
            raise IndexError(f"block {index} of a put of {len(self)}")
        if self._states[index] != "reserved" or self._ended:
            return
        self._views.release_one(index)
        self._native.give_back(index)
        self._states[index] = "no_room"

    def commit(self, step: int = 0, durable: bool = False, timeout_s: float | None = None) -> int:
        """Publishes the slots that were taken and gives all up. Returns how many were published.

        With a `step` of Client.begin_step(), when that step has ended. With `durable` it waits,
        `timeout_s` at most, until it is known of each block whether it is on disk, and returns
        how many are; the others stay published. 0: it does not wait for the disk. ValueError, for
        a timeout that is negative, infinite or no number: nothing has happened then.
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
        """Gives back what was not committed. Idempotent."""
        self._ended = True
        self._views.release()
        self._native.release()

    def __enter__(self) -> Put:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()
