"""Lanes: copies between an engine's KV tensors and the agent's host memory, in the background."""

import atexit
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from typing import SupportsIndex, TypeAlias

from . import _kvtier
from .arguments import listed, shown, typed
from .client import Client
from .sequences import ReuseHint
from .space import Space

# Maximum number of jobs of one Lanes that nobody has polled.
MAX_UNPOLLED = 4096

# Form in which the extension takes a KvMemory.
_NativeMemory: TypeAlias = tuple[list[tuple[int, int]], int, str, str, int, int, int,
                                 list[tuple[int, int]]]

# CUDA stream and event, at most one of them, whose work a call waits for.
_Work: TypeAlias = tuple[int | None, int | None]

_U32 = 1 << 32
_U64 = 1 << 64

_open_lanes: "weakref.WeakSet[Lanes]" = weakref.WeakSet()


# Runs before the clients are closed, which waits for the lanes that use them.
@atexit.register
def _close_all() -> None:
    for lanes in list(_open_lanes):
        lanes.close()


def _count(name: str, value: object, limit: int) -> int:
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or not 0 <= index(value) < limit:
        raise ValueError(f"{name} is {shown(value)}; must be an int from 0 to {limit - 1}")
    return index(value)


def _pairs(name: str, values: Sequence[tuple[int, int]], first_limit: int) -> list[tuple[int, int]]:
    pairs = listed(name, values)
    for i, pair in enumerate(pairs):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(f"{name}[{i}] is {shown(pair)}; must be a pair of ints")
    return [(_count(f"{name}[{i}][0]", first, first_limit), _count(f"{name}[{i}][1]", second, _U64))
            for i, (first, second) in enumerate(pairs)]


def _work(stream: int | None, event: int | None) -> _Work:
    if stream is not None and event is not None:
        raise ValueError(f"after_stream is {shown(stream)} and after_event {shown(event)}; must be one of them at most")
    return (None if stream is None else _count("after_stream", stream, _U64),
            None if event is None else _count("after_event", event, _U64))


def _hint(hint: ReuseHint | None) -> "_kvtier._Hint | None":
    return None if hint is None else typed("hint", hint, ReuseHint)._native()


@dataclass(frozen=True)
class KvMemory:
    """Place of an engine's KV blocks: in tensors of this process's own memory, or of a GPU's.

    A block has a run for each layer and axis. A run is contiguous, and the same run of the next
    block begins `block_stride` bytes later. So block n's run begins at its base plus n strides, in
    tensors of one layer and in tensors across layers alike.
    """

    # (data_ptr, bytes) of 1 to 8192 tensors, which do not overlap; for views of one storage name the
    # storage. They must outlive the Lanes.
    tensors: Sequence[tuple[int, int]]
    layers: int
    # "apart": keys and values have runs of their own: two bases for each layer, keys first. "fused":
    # each row has both: one base for each layer. "latent": rows of latent attention: one base, too.
    axes: str
    order: str  # Order in a run: "token_head" (NHD) or "head_token" (HND). Latent rows have no heads.
    blocks: int  # Number of blocks that the tensors hold.
    run_bytes: int  # Bytes of one layer and axis of one block.
    block_stride: int  # Bytes from a block's run to the same run of the next block.
    bases: Sequence[tuple[int, int]]  # (tensor, offset in it) of block 0's runs, by layer, then axis.

    def _native(self) -> _NativeMemory:
        for name in ("axes", "order"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} is {shown(getattr(self, name))}; must be a str")
        if _count("blocks", self.blocks, _U32) == 0:
            raise ValueError("blocks is 0; must be positive")
        return (_pairs("tensors", self.tensors, _U64), _count("layers", self.layers, _U32), self.axes,
                self.order, int(self.blocks), _count("run_bytes", self.run_bytes, _U64),
                _count("block_stride", self.block_stride, _U64), _pairs("bases", self.bases, _U32))


class LaneJob:
    """One offload or onboard on its way, as Lanes.offload() and Lanes.onboard() return it.

    It ends by itself, also without an agent. Until it is `done`, the lanes may write the blocks of
    an onboard. Thread-safe. In a forked child every job has ended and failed.
    """

    def __init__(self, native: _kvtier.LaneJob) -> None:
        self._native = native

    @property
    def done(self) -> bool:
        """Whether the job has ended. Never waits."""
        return self._native.done()

    @property
    def copied(self) -> bool:
        """Whether the lanes will not touch the job's blocks any more.

        For an offload this is True before `done`: its blocks were copied or given up, and may be
        overwritten.
        """
        return self._native.copied()

    @property
    def recorded(self) -> bool:
        """Whether the event given to Lanes.onboard() is recorded after the copies.

        If True, a stream that waits for the event from now on waits for the copies. Stays False if no
        event was given, or no block came. Never waits.
        """
        return self._native.recorded()

    @property
    def error(self) -> str | None:
        """Error for which blocks did not come or were not stored; None: there was none, or not `done`.

        A miss and a lack of room are no errors. The results hold whether there was an error or not.
        """
        return self._native.error()

    @property
    def results(self) -> list[bool]:
        """Result for each key, in order. Raises RuntimeError while the job is not done.

        For an offload, True: the block is in host memory, stored by this job or earlier. False: there
        was no room, another worker is putting it, the space's codec does not make it smaller, it was
        asked back, or the job failed.

        For an onboard, True: the engine's block holds the block that its key names, proven by its sum
        (with a codec: decoded from the proven encoding). False: the block was missing or damaged, or
        its lease ended. The bytes of the engine's block are then void; lanes of host memory in a
        space with a codec leave them unchanged.
        """
        return self._native.results()

    def wait(self, timeout_s: float) -> bool:
        """Waits until the job is done, `timeout_s` seconds at most; returns `done`."""
        return self._native.wait(timeout_s)


class Lanes:
    """Copies of blocks between an engine's tensors and the agent's host memory, both ways.

    offload() and onboard() start jobs and never wait: not for the agent, not for a copy, not for a
    lock that is held during a copy. Copies run on `threads` threads of the lanes' own, without the
    GIL, onboards ahead of offloads. Without an agent, jobs end as failed, within the client's
    timeouts. Lanes are thread-safe, and a context manager.

        lanes = kvtier.Lanes(client, space, memory)
        job = lanes.onboard(keys, blocks, timeout_s=0.5)
        while not job.done:
            schedule_something_else()
        loaded = job.results

    With `device` "cuda:N" the tensors are on that GPU, which copies in streams of the lanes' own. A
    job begins after work that the engine has submitted there (`after_stream`, `after_event`).
    """

    def __init__(self, client: Client, space: Space, memory: KvMemory, device: str = "host",
                 threads: int = 1) -> None:
        """Opens lanes.

        Raises ValueError, naming the field and the value that does not fit, and RuntimeError in a
        forked child.

        A block of `memory` is as long as the space's block_bytes, and the space's layout is that of
        its axes and order: "layer,kv,token,head,dim", "layer,kv,head,token,dim",
        "layer,token,head,kv,dim", "layer,head,token,kv,dim" or "layer,token,row". In a space with a
        codec the lanes encode and decode: `memory` has the space's shape in bf16 and any axes and
        order, and the space's layout is one of the codec's (SpaceSpec.codec). The client may be
        closed before the lanes; its connection then ends with the lanes.

        `device` is "host", the memory of this process, or "cuda:N", where `memory` has the GPU's
        addresses and `threads` is 1. ValueError says why a GPU cannot be opened: with the driver's
        words, or because this package was built without CUDA.
        """
        if not isinstance(device, str):
            raise ValueError(f"device is {shown(device)}; must be \"host\" or \"cuda:N\"")
        # Changed only by atomic operations of a deque: a lock might be held while the process forks.
        self._unpolled: deque[LaneJob] = deque()
        self._native = typed("client", client, Client)._native.open_lanes(
            typed("space", space, Space)._handle, typed("memory", memory, KvMemory)._native(), device,
            _count("threads", threads, _U32))
        _open_lanes.add(self)

    def offload(self, keys: Sequence[bytes], blocks: Sequence[int], parent: bytes | None = None, *,
                after_stream: int | None = None, after_event: int | None = None,
                hint: ReuseHint | None = None) -> LaneJob:
        """Stores copies of the engine's blocks; keys[i] names blocks[i].

        `parent` is the key before keys[0]; None: keys[0] is a root. `hint` is what the engine knows
        about the next use of the blocks. Blocks that are stored already are not copied. Raises
        BlockingIOError while 256 offloads (32 on a GPU) or 256 calls of the client are in progress, or
        MAX_UNPOLLED jobs are not polled; ValueError, naming the argument that is not valid; and
        RuntimeError for a stream that captures a graph.

        `after_stream` and `after_event` are raw handles, such as torch.cuda.Stream.cuda_stream and
        torch.cuda.Event.cuda_event. On a GPU, blocks are read when all work that is in the stream at
        the moment of the call has ended, or the work that the event was last recorded after. The call
        does not wait for this work; the job fails if it takes longer than 10 s.
        """
        after = _work(after_stream, after_event)
        return self._started(lambda: self._native.offload(listed("keys", keys), listed("blocks", blocks), parent, after,
                                                          _hint(hint)))

    def onboard(self, keys: Sequence[bytes], blocks: Sequence[int], timeout_s: float | None = None, *,
                after_stream: int | None = None, after_event: int | None = None,
                record_event: int | None = None, hint: ReuseHint | None = None) -> LaneJob:
        """Copies the leading blocks that are in host memory in time into the engine's blocks.

        The block of keys[i] is copied to blocks[i]. `timeout_s` is that of Client.onboard() and does
        not count the copies. `hint` and the errors are those of offload().

        On a GPU, blocks are written after the work of `after_stream` or `after_event`, as described
        at offload(): for example a step that still reads them. `record_event` is recorded after the
        copies, when the lanes submit them. LaneJob.recorded says when that has happened: a stream
        that waits for the event earlier does not wait for the copies. The blocks are proven after
        the event, so a result computed from them before `done` is void if the job's results say so.
        They arrive together: if one is damaged, all results are False.
        """
        after = _work(after_stream, after_event)
        record = None if record_event is None else _count("record_event", record_event, _U64)
        return self._started(lambda: self._native.onboard(listed("keys", keys), listed("blocks", blocks), timeout_s, after,
                                                          record, _hint(hint)))

    def poll(self) -> list[LaneJob]:
        """Returns the jobs that have ended since the last poll, each once. Never waits."""
        ended: list[LaneJob] = []
        for _ in range(len(self._unpolled)):
            try:
                job = self._unpolled.popleft()
            except IndexError:  # Another thread polls, too.
                break
            if job.done:
                ended.append(job)
            else:
                self._unpolled.append(job)
        return ended

    def await_copied(self, blocks: Sequence[int], timeout_s: float) -> bool:
        """Waits until no offload reads any of these blocks, for callers that want to overwrite them.

        They are copied ahead of everything else. Returns False if some were not copied within
        `timeout_s` seconds and were given up: these are not stored, the other blocks of their jobs
        are. The blocks may be overwritten either way.
        """
        return self._native.await_copied(listed("blocks", blocks), timeout_s)

    def stats(self) -> dict[str, int | float]:
        """Returns counts of what was copied since the start, by direction.

        The keys are offload_blocks, offload_bytes (of the engine's memory), offload_failed_blocks
        (copied in vain), offload_copy_s (seconds in copies, all threads or jobs together), the same
        with onboard_, and offload_given_up_blocks (asked back by await_copied() before they were copied).
        """
        return self._native.stats()

    def close(self) -> None:
        """Waits for the blocks that are being copied, on a GPU for all jobs, and ends all jobs as failed.

        Afterwards the lanes do not touch the tensors any more. Jobs can still be polled. Idempotent.
        """
        self._native.close()

    def __enter__(self) -> "Lanes":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _started(self, start: Callable[[], _kvtier.LaneJob]) -> LaneJob:
        if len(self._unpolled) >= MAX_UNPOLLED:
            raise BlockingIOError(f"{MAX_UNPOLLED} jobs were started and not polled; call poll() first")
        job = LaneJob(start())
        self._unpolled.append(job)
        return job
