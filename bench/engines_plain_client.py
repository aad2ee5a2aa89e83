"""Measures memory, the disk and a peer without an engine: the same blocks by the plain client, and by memcpy."""

import ctypes
import mmap
import random
import time

import kvtier

LAYERS, PIECE_BYTES = 30, 49152  # A block of SmolLM2-135M in float32 and 32 tokens, as vLLM holds it.
BLOCK_BYTES = LAYERS * PIECE_BYTES
_SPACE = kvtier.SpaceSpec(model="bench_engines", weights_digest="0", dtype="float32", layout="any", layers=LAYERS,
                          kv_heads=3, head_dim=64, tokens_per_block=32, block_bytes=BLOCK_BYTES)
_TIMEOUT_S = 30


class Memory:
    """Returns mapped memory, of huge pages where there are some, full of bytes that do not compress."""

    def __init__(self, size: int) -> None:
        self.map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.map.madvise(mmap.MADV_HUGEPAGE)
        chunk = random.Random(1).randbytes(1 << 20)
        for at in range(0, size, len(chunk)):
            part = chunk[:size - at]
            self.map[at:at + len(part)] = part
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))


class PlainCopies:
    """memcpy of the pieces of `blocks` blocks, from memory in one piece to an engine's layers, on this thread."""

    def __init__(self, blocks: int) -> None:
        self._blocks, self._slots = blocks, 4 * blocks
        self._layers = Memory(self._slots * BLOCK_BYTES)
        self._plain = Memory(2 * blocks * BLOCK_BYTES)
        self._turn = 0

    def load_seconds(self) -> float:
        """Returns the seconds of one copy. The memory of the copy before is no longer in the processor's caches."""
        return self._seconds(out=False)

    def save_seconds(self) -> float:
        """Returns the seconds of a copy the other way."""
        return self._seconds(out=True)

    def _seconds(self, out: bool) -> float:
        self._turn += 1
        plain = self._plain.address + self._turn % 2 * self._blocks * BLOCK_BYTES
        first = self._turn % 4 * self._blocks
        moves = []
        for block in range(first, first + self._blocks):
            for layer in range(LAYERS):
                place = self._layers.address + (layer * self._slots + block) * PIECE_BYTES
                moves.append((plain, place) if out else (place, plain))
                plain += PIECE_BYTES
        move = ctypes.memmove
        began = time.perf_counter()
        for target, source in moves:
            move(target, source, PIECE_BYTES)
        return time.perf_counter() - began


class PlainClient:
    """A worker without an engine, on one node, with blocks of an engine's size."""

    def __init__(self, socket_dir: str) -> None:
        self._client = kvtier.Client(socket_dir, timeout_s=_TIMEOUT_S)
        self._space = self._client.register_space(_SPACE)

    def put(self, keys: list[bytes], memory: Memory) -> None:
        """Stores blocks of `memory`. RuntimeError: not all were stored."""
        view = memoryview(memory.map)
        counts = self._client.put_all(self._space, keys, [view[i * BLOCK_BYTES:(i + 1) * BLOCK_BYTES]
                                                          for i in range(len(keys))])
        if counts.stored != len(keys):
            raise RuntimeError(f"the plain client stored {counts} of {len(keys)} blocks")

    def await_located(self, keys: list[bytes]) -> None:
        """Waits until another node's blocks can be fetched. RuntimeError: they never could."""
        deadline = time.monotonic() + _TIMEOUT_S
        while self._client.match(self._space, keys).blocks < len(keys):
            if time.monotonic() > deadline:
                raise RuntimeError("the coordinator does not know of the other node's blocks")
            time.sleep(0.05)

    def onboard_seconds(self, keys: list[bytes]) -> float:
        """Returns the seconds until all blocks are in host memory, proven and leased. RuntimeError: some were not."""
        began = time.perf_counter()
        with self._client.onboard(self._space, keys, timeout_s=_TIMEOUT_S) as hit:
            took = time.perf_counter() - began
            if len(hit) != len(keys):
                raise RuntimeError(f"{len(hit)} of {len(keys)} blocks came")
        return took

    def close(self) -> None:
        """Hangs up."""
        self._client.close()
