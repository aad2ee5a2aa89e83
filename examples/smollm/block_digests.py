"""BlockDigests: the SHA-256 of each block's KV as some run computed it, by EngineKey.

A run that recomputes writes them down; a run that onboards compares. Because prefill is
reproducible to the bit, any difference is a wrong block.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Verdict:
    """Outcome of comparing some blocks; counts."""

    verified: int = 0  # Compared and equal.
    wrong: int = 0  # Compared and different.
    unknown: int = 0  # No digest to compare with.


class BlockDigests:
    """EngineKey -> digest, in memory. Reads and writes JSON {hex key: hex digest}."""

    def __init__(self):
        self._digests = {}

    def __len__(self):
        return len(self._digests)

    def load(self, path):
        """Adds the digests in `path`. Raises OSError, or ValueError when it is not JSON."""
        self._digests.update(json.loads(Path(path).read_text(encoding="utf-8")))

    def save(self, path):
        """Adds these digests to those in `path`, replacing the file in one step."""
        path = Path(path)
        merged = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        merged.update(self._digests)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.write_text(json.dumps(merged), encoding="utf-8")
        partial.replace(path)

    def record(self, kv, table, keys, first_block):
        """Writes down blocks first_block.. of `table`, which this run computed itself."""
        for block in range(first_block, len(keys)):
            self._digests[keys[block].hex()] = _digest(kv, table, block)

    def compare(self, kv, table, keys, blocks):
        """Compares blocks 0..blocks-1 of `table`, which came from elsewhere. Returns a Verdict."""
        verified = wrong = unknown = 0
        for block in range(blocks):
            expected = self._digests.get(keys[block].hex())
            if expected is None:
                unknown += 1
            elif expected == _digest(kv, table, block):
                verified += 1
            else:
                wrong += 1
        return Verdict(verified, wrong, unknown)


def _digest(kv, table, block):
    run = bytearray(kv.block_bytes)
    kv.export_block(table, block, run)
    return hashlib.sha256(run).hexdigest()
