"""PagedKv: the worker's own KV memory, cut into slots of one block each.

The pool lies layer by layer, [layer][K|V][slot][token][kv_head][head_dim], as inference engines
keep it: attention at one layer then reads the blocks of a sequence next to each other. Outside
the pool a block is one contiguous run, [layer][K|V][token][kv_head][head_dim] float32; import_block
and export_block are the copies between the two.

Not thread-safe. Every slot holds finite numbers at all times, so masked positions cost nothing.
"""

from dataclasses import dataclass

import numpy as np

TOKENS_PER_BLOCK = 16
KEYS, VALUES = 0, 1


def block_shape(shape):
    """Returns the axes of one block of this model."""
    return (shape.layers, 2, TOKENS_PER_BLOCK, shape.kv_heads, shape.head_dim)


class PoolFull(RuntimeError):
    """The pool has fewer free slots than the caller asked for; free a table, or open a larger pool."""


@dataclass
class BlockTable:
    """The slots of one sequence, in order. Token t is at [slots[t // 16], t % 16]."""

    slots: np.ndarray  # int64
    consecutive: bool  # slots[i] == slots[0] + i, so a run of blocks is one stretch of memory.
    tokens: int = 0  # How many tokens, from 0, have their KV in place.


class PagedKv:
    """A fixed pool of slots. Tables are taken with allocate() and given back with free() once."""

    def __init__(self, shape, slots):
        """`shape` is the model's DecoderShape. Touches all of the memory now, not on first use."""
        self.tokens_per_block = TOKENS_PER_BLOCK
        self._pool = np.empty((shape.layers, 2, slots, TOKENS_PER_BLOCK, shape.kv_heads,
                               shape.head_dim), np.float32)
        self._pool.fill(0.0)
        self._block_shape = block_shape(shape)
        self.block_bytes = 4 * int(np.prod(self._block_shape))
        self._free = list(range(slots))

    @property
    def free_slots(self):
        return len(self._free)

    def allocate(self, blocks):
        """Takes the `blocks` lowest free slots for one sequence. Raises PoolFull."""
        if blocks > len(self._free):
            raise PoolFull(f"{blocks} slots asked for, {len(self._free)} free")
        slots, self._free = self._free[:blocks], self._free[blocks:]
        consecutive = blocks == 0 or slots[-1] - slots[0] == blocks - 1
        return BlockTable(np.array(slots, np.int64), consecutive)

    def free(self, table):
        """Gives the slots of `table` back; the table must not be used afterwards."""
        self._free = sorted(self._free + table.slots.tolist())
        table.slots, table.tokens = table.slots[:0], 0

    def store(self, layer, table, start, kv):
        """Writes keys and values of tokens [start, start + n). `kv`: [2, n, kv_heads, head_dim]."""
        positions = np.arange(start, start + kv.shape[1])
        slots = table.slots[positions // TOKENS_PER_BLOCK]
        self._pool[layer][:, slots, positions % TOKENS_PER_BLOCK] = kv

    def tile(self, layer, which, table, first_block, blocks):
        """Returns KEYS or VALUES of a run of blocks as [blocks * 16, kv_heads, head_dim].

        The result is a view where the slots are consecutive, otherwise a gathered copy; do not
        write to it.
        """
        plane = self._pool[layer, which]
        if table.consecutive:
            base = table.slots[first_block]
            run = plane[base:base + blocks]
        else:
            run = plane[table.slots[first_block:first_block + blocks]]
        return run.reshape(-1, *plane.shape[2:])

    def import_block(self, table, block, run):
        """Copies `run` (block_bytes, contiguous, any buffer) into block number `block`."""
        values = np.frombuffer(run, np.float32).reshape(self._block_shape)
        self._pool[:, :, table.slots[block]] = values

    def export_block(self, table, block, run):
        """Copies block number `block` into `run`, a writable buffer of block_bytes."""
        values = np.frombuffer(run, np.float32).reshape(self._block_shape)
        np.copyto(values, self._pool[:, :, table.slots[block]])
