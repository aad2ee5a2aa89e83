"""How a block of the paged KV lies in kvtier: its float32 as they are, or bf16 through a codec.

A form copies between a block of a table and the memory of one stored block. The float32 form is
exact; an encoded one rounds to bf16 and then does what its codec does, so a reused block is no
longer the computed one to the bit.
"""

import numpy as np

from . import bf16


class Float32Form:
    def __init__(self, kv):
        self._kv = kv
        self.block_bytes = kv.block_bytes

    def write(self, table, block, slot):
        """Fills `slot` with block number `block`. Returns True: this form can store every block."""
        self._kv.export_block(table, block, slot)
        return True

    def read(self, stored, table, block):
        """Fills block number `block`. Returns True: any bytes are a block of this form."""
        self._kv.import_block(table, block, stored)
        return True


class EncodedForm:
    """Not thread-safe: one block is on its way at a time."""

    def __init__(self, kv, codec):
        """`codec` is a kvtier.BlockCodec for the shape of `kv`."""
        self._kv, self._codec = kv, codec
        self.block_bytes = codec.block_bytes
        self._values = np.empty(kv.block_bytes // 4, np.float32)
        self._bits = np.empty(len(self._values), np.uint16)

    def write(self, table, block, slot):
        """Works as in Float32Form. Returns False for a block that the codec cannot encode, as one with a NaN."""
        self._kv.export_block(table, block, self._values)
        return self._codec.encode(bf16.from_float32(self._values), slot) is not None

    def read(self, stored, table, block):
        """Works as in Float32Form. Returns False when `stored` is no encoding; then the block has not changed."""
        if not self._codec.decode(stored, self._bits):
            return False
        self._kv.import_block(table, block, bf16.to_float32(self._bits))
        return True
