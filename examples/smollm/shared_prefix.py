"""SharedPrefix: several questions about one document, whose KV is computed or fetched once.

The blocks of the last prompt stay in the pool. A prompt that begins like it forks them and
computes only what is different.
"""


class SharedPrefix:
    """At most one prompt is kept. Not thread-safe."""

    def __init__(self, kv):
        """`kv` is a PoolKv."""
        self._kv = kv
        self._tokens, self._table = [], None

    def open(self, tokens, open_sequence):
        """Returns a table for `tokens`: a fork of the kept table as far as its tokens are the same, or a new one.

        At least one token is left to compute. `open_sequence` makes a new table.
        """
        shared = self._shared_blocks(tokens) * self._kv.tokens_per_block
        if not shared:
            return open_sequence()
        table = self._kv.fork(self._table)
        table.tokens = shared
        return table

    def keep(self, tokens, table):
        """Keeps the full blocks of `tokens`, which `table` holds, in place of what was kept."""
        kept = self._kv.fork(table)
        self.drop()
        full = len(tokens) // self._kv.tokens_per_block * self._kv.tokens_per_block
        self._kv.cut(kept, full)
        self._kv.keep(kept)
        self._tokens, self._table = list(tokens[:full]), kept

    def drop(self):
        if self._table is not None:
            self._kv.free(self._table)
        self._tokens, self._table = [], None

    def _shared_blocks(self, tokens):
        size, blocks = self._kv.tokens_per_block, 0
        limit = min(len(self._tokens), len(tokens) - 1) // size
        while blocks < limit and (self._tokens[blocks * size:(blocks + 1) * size]
                                  == list(tokens[blocks * size:(blocks + 1) * size])):
            blocks += 1
        return blocks
