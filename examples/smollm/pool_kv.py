"""PoolKv: the worker's KV memory in slots of the node's GPU pool, through kvtier's block tables.

PoolKv has the same calls and the same bytes as PagedKv. A sequence takes slots as its tokens come; forks
share blocks until one of them writes; when the pool is full, whole sequences are swapped out and
come back when they are next used. kvtier's tables say which: sequences stand in one line, the one
in use is first, and the last goes. A slot is one block, [layer][K|V][token][kv_head][head_dim]
float32, so a block is the same bytes here as in kvtier.

Not thread-safe, but for tile().
"""

from dataclasses import dataclass, field

import numpy as np

from .paged_kv import TOKENS_PER_BLOCK, PoolFull, block_shape


# Priorities; the sequence with the lowest leaves the pool first. A kept one is needed only if it is asked for
# again, and a waiting one makes room for the one that is computed now.
KEPT, WAITING, IN_USE = 0, 1, 2


@dataclass
class PoolTable:
    """One sequence. Token t is at [slots[t // 16], t % 16]; slots grow with the tokens."""

    sequence: int  # Id of the sequence in kvtier.PagedKv.
    blocks: int  # Blocks to which it may grow.
    slots: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    tokens: int = 0  # How many tokens, from 0, have their KV in place.
    priority: int = WAITING  # Priority while another sequence is in use.


class PoolLost(OSError):
    """The agent is gone or ended the session: what was computed on its slots may be wrong."""


class PoolKv:
    """Tables are taken with allocate() or fork() and given back with free() once."""

    def __init__(self, shape, native):
        """`native` is a kvtier.PagedKv whose slots hold blocks of this shape."""
        self.tokens_per_block = TOKENS_PER_BLOCK
        self._block_shape = block_shape(shape)
        self.block_bytes = 4 * int(np.prod(self._block_shape))
        self._native = native
        inside = [4 * int(np.prod(self._block_shape[axis + 1:]))
                  for axis in range(len(self._block_shape))]
        self._pool = np.ndarray((len(native.memory) // native.slot_bytes, *self._block_shape),
                                np.float32, native.memory, strides=(native.slot_bytes, *inside))
        self._in_use = None  # Table of the sequence in use; None: there is none.

    @property
    def free_slots(self):
        return self._native.free_slots

    def check(self):
        """Checks that the pool is still this process's. Call it after computing, before the outcome is
        believed. Raises PoolLost."""
        if not self._native.valid():
            raise PoolLost("the session that granted the slots has ended")

    def allocate(self, blocks):
        """Returns a sequence of up to `blocks` blocks, which has none yet. Raises PoolFull."""
        if blocks > self._native.granted_slots:
            raise PoolFull(f"{blocks} slots asked for, {self._native.granted_slots} in all")
        return PoolTable(self._native.open(WAITING), blocks)

    def fork(self, table):
        """Returns a second sequence with the same tokens; both share every block until one of them writes."""
        self._bring_in(table)
        fork = PoolTable(self._native.fork(table.sequence), table.blocks, table.slots.copy(),
                         table.tokens)
        self._native.set_priority(fork.sequence, fork.priority)
        return fork

    def keep(self, table):
        """Makes `table` the first to leave the pool, whenever another one is in use."""
        table.priority = KEPT
        if table is not self._in_use:
            self._native.set_priority(table.sequence, KEPT)

    def free(self, table):
        """Gives the slots of `table` back; the table must not be used afterwards."""
        self._native.free(table.sequence)
        if table is self._in_use:
            self._in_use = None
        table.slots, table.tokens = table.slots[:0], 0

    def store(self, layer, table, start, kv):
        """Writes keys and values of tokens [start, start + n). `kv`: [2, n, kv_heads, head_dim].

        The layers of the same tokens are stored one after the other, from layer 0 on.
        """
        if layer == 0:
            self._reach(table, start, start + kv.shape[1])
        positions = np.arange(start, start + kv.shape[1])
        slots = table.slots[positions // TOKENS_PER_BLOCK]
        self._pool[slots, layer, :, positions % TOKENS_PER_BLOCK] = kv.swapaxes(0, 1)

    def tile(self, layer, which, table, first_block, blocks):
        """Returns a copy of KEYS or VALUES of a run of blocks as [blocks * 16, kv_heads, head_dim].

        Blocks that the sequence has not reached are zeros.
        """
        out = np.zeros((blocks, *self._block_shape[2:]), np.float32)
        slots = table.slots[first_block:first_block + blocks]
        out[:len(slots)] = self._pool[slots, layer, which]
        return out.reshape(-1, *self._block_shape[3:])

    def import_block(self, table, block, run):
        """Copies `run` (block_bytes, contiguous, any buffer) into block number `block`.

        REQUIRES: the blocks before it are there already. Forgets those that were after it.
        """
        self._reach(table, block * TOKENS_PER_BLOCK, (block + 1) * TOKENS_PER_BLOCK)
        self._pool[table.slots[block]] = np.frombuffer(run, np.float32).reshape(self._block_shape)

    def export_block(self, table, block, run):
        """Copies block number `block` into `run`, a writable buffer of block_bytes."""
        self._bring_in(table)
        values = np.frombuffer(run, np.float32).reshape(self._block_shape)
        np.copyto(values, self._pool[table.slots[block]])

    def cut(self, table, tokens):
        """Forgets all tokens but the first `tokens`."""
        self._native.truncate(table.sequence, tokens)
        table.slots = np.array(self._native.slots(table.sequence), np.int64)
        table.tokens = min(table.tokens, tokens)

    def swap_out(self, table):
        """Moves the sequence out of the pool. It comes back by itself when it is next used."""
        self._native.swap_out([table.sequence])

    def _use(self, table):
        """Puts `table` first in line, and the one that was there back to where it waits."""
        if table is self._in_use:
            return
        if self._in_use is not None:
            self._native.set_priority(self._in_use.sequence, self._in_use.priority)
        self._native.set_priority(table.sequence, IN_USE)
        self._in_use = table

    def _reach(self, table, start, end):
        """Makes tokens [start, end) the table's last, in slots that it alone may write."""
        self._bring_in(table)
        known = self._native.facts(table.sequence).tokens
        if start < known:
            self._native.truncate(table.sequence, start)
            known = start
        blocks = -(-end // TOKENS_PER_BLOCK) - -(-known // TOKENS_PER_BLOCK)
        self._with_room(table, blocks, lambda: self._native.append(table.sequence, end - known))
        table.slots = np.array(self._native.slots(table.sequence), np.int64)

    def _bring_in(self, table):
        self._use(table)
        facts = self._native.facts(table.sequence)
        if facts.swapped_out:
            self._with_room(table, facts.blocks_out,
                            lambda: self._native.swap_in(table.sequence))
            table.slots = np.array(self._native.slots(table.sequence), np.int64)

    def _with_room(self, table, slots, take):
        """Calls take(), after it swapped out the last in line if the pool has too few slots.

        `slots` is what take() needs, but for the copy of a shared block, so a second round may follow.
        Raises PoolFull.
        """
        while True:
            try:
                return take()
            except BlockingIOError:
                missing = max(slots - self.free_slots, 1)
            try:
                self._native.swap_out(self._native.victims(table.sequence, missing))
            except BlockingIOError as error:
                raise PoolFull(
                    f"{slots} slots asked for, {self.free_slots} free: {error}") from error
