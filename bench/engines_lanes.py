"""Loads and saves by lanes from Python, beside memcpy of the same pieces.

    PYTHON engines_lanes.py FOLDER [ROUNDS]

Any interpreter that has kvtier on its path can run it. A save is an offload of 31 new blocks, from the call to the end
of its job: calls to the agent, copies with their sums, the commit. A load brings them to other blocks of the engine.
"""

import sys
import time
from pathlib import Path
from statistics import median

import kvtier
from engines_medians import median_of, print_figure
from engines_node import Node
from engines_plain_client import BLOCK_BYTES, LAYERS, PIECE_BYTES, Memory, PlainCopies

_BLOCKS = 31
_SLOTS = 6 * _BLOCKS  # Slots of the engine: so many that a job's blocks left the caches long ago.
_WARMUPS = 16  # The first rounds touch the arena's pages.
_TIMEOUT_S = 30
_SPACE = kvtier.SpaceSpec(model="bench_engines_lanes", weights_digest="0", dtype="float32", layout="layer,head,token,kv,dim",
                          layers=LAYERS, kv_heads=3, head_dim=64, tokens_per_block=32, block_bytes=BLOCK_BYTES)


class LanesRounds:
    """An engine's memory, and lanes on it."""

    def __init__(self, socket_dir: str) -> None:
        self._memory = Memory(_SLOTS * BLOCK_BYTES)
        self._client = kvtier.Client(socket_dir, timeout_s=_TIMEOUT_S)
        layer_bytes = _SLOTS * PIECE_BYTES
        self._lanes = kvtier.Lanes(self._client, self._client.register_space(_SPACE), kvtier.KvMemory(
            tensors=[(self._memory.address, LAYERS * layer_bytes)], layers=LAYERS, axes="fused", order="head_token",
            blocks=_SLOTS, run_bytes=PIECE_BYTES, block_stride=PIECE_BYTES,
            bases=[(0, layer * layer_bytes) for layer in range(LAYERS)]))

    def save_seconds(self, number: int) -> float:
        """Returns the seconds of an offload of new blocks."""
        return self._seconds(lambda: self._lanes.offload(self._keys(number), self._slots(2 * number)))

    def load_seconds(self, number: int) -> float:
        """Returns the seconds of an onboard of what save_seconds(number) stored. RuntimeError: other bytes came."""
        took = self._seconds(lambda: self._lanes.onboard(self._keys(number), self._slots(2 * number + 1), _TIMEOUT_S))
        for saved, loaded in zip(self._slots(2 * number), self._slots(2 * number + 1)):
            if self._pieces(saved) != self._pieces(loaded):
                raise RuntimeError(f"block {loaded} is not as block {saved}")
        return took

    def close(self) -> None:
        """Ends the lanes, and closes the client."""
        self._lanes.close()
        self._client.close()

    def _seconds(self, start) -> float:
        began = time.perf_counter()
        job = start()
        if not job.wait(_TIMEOUT_S):
            raise RuntimeError("a job of the lanes does not end")
        took = time.perf_counter() - began
        if job.results != [True] * _BLOCKS:
            raise RuntimeError(f"not every block was moved: {job.error}")
        self._lanes.poll()
        return took

    def _pieces(self, slot: int) -> list[bytes]:
        places = [(layer * _SLOTS + slot) * PIECE_BYTES for layer in range(LAYERS)]
        return [self._memory.map[place:place + PIECE_BYTES] for place in places]

    @staticmethod
    def _keys(number: int) -> list[bytes]:
        return [b"lanes%08d%08d" % (number, i) for i in range(_BLOCKS)]

    @staticmethod
    def _slots(run: int) -> list[int]:
        first = run * _BLOCKS % _SLOTS
        return list(range(first, first + _BLOCKS))


def main() -> None:
    """Runs the bench with an agent of its own."""
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 51
    copies = PlainCopies(_BLOCKS)
    rates: dict[str, list[float]] = {"save": [], "load": []}
    ratios: dict[str, list[float]] = {"save": [], "load": []}
    with Node("lanes", Path(sys.argv[1]) / "lanes", "512MiB", more=("--host_scrub_bytes_per_second=0",)) as node:
        lanes = LanesRounds(str(node.socket_dir))
        for number in range(_WARMUPS + rounds):
            plain = {"save": copies.save_seconds()}
            taken = {"save": lanes.save_seconds(number), "load": lanes.load_seconds(number)}
            plain["load"] = copies.load_seconds()
            for way in rates if number >= _WARMUPS else ():
                rates[way].append(_BLOCKS * BLOCK_BYTES / taken[way] / 1e9)
                ratios[way].append(plain[way] / taken[way])
        lanes.close()
    for way, values in rates.items():
        print(f"lanes {way}: {median_of(values)} GB/s, {median_of(ratios[way])} of memcpy")
        print_figure(f"engines.lanes.{way}", median(values), "GB/s", median(ratios[way]), "memcpy")


if __name__ == "__main__":
    main()
