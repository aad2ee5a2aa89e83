"""Causal grouped-query attention of a few rows over a paged KV cache, tile by tile.

Keys are cut into tiles of TILE_BLOCKS blocks, counted from token 0. Every (query rows, tile) pair
makes a partial softmax of its own, in whichever lane is free; the partials of a row are then
merged in the order of the tiles (the online softmax of Milakov and Gimelshein 2018,
arXiv:1805.02867). The tiling depends on the key's position alone and a tile that a row may not
see merges as exact zeros, so a row's result does not depend on the rows computed beside it.

Everything is held transposed, a query row being a column: the maximum and the sum over keys are
then comparisons and additions of whole rows of memory, which numpy does several at a time.
"""

from dataclasses import dataclass

import numpy as np

from .paged_kv import KEYS, VALUES

TILE_BLOCKS = 16  # 256 keys: scores of 64 rows x 9 heads fill 590 KB, inside a core's L2 cache.
_MAX_QUERY_ROWS = 64
_HIDDEN = np.float32(-1e30)  # Score of a key later than the row; its power of two is exactly 0.


@dataclass(frozen=True)
class _Partial:
    """Softmax of some rows over one tile. C = group * rows columns, per kv head."""

    top: np.ndarray  # [kv_heads, 1, C], the largest score.
    total: np.ndarray  # [kv_heads, 1, C], sum of 2 ** (score - top).
    weighted: np.ndarray  # [kv_heads, head_dim, C], the values summed with those weights.


@dataclass(frozen=True)
class _QueryRows:
    """Up to _MAX_QUERY_ROWS rows, the first at token `position`."""

    columns: np.ndarray  # [kv_heads, head_dim, group * rows]
    position: int
    rows: int
    out: np.ndarray  # [rows, heads * head_dim]


class Attention:
    """Scratch memory and sizes for one model. One caller at a time; it runs in all lanes."""

    def __init__(self, shape, tokens_per_block, lanes):
        self._lanes = lanes
        self._kv_heads = shape.kv_heads
        self._group = shape.heads // shape.kv_heads  # Query heads that share one kv head.
        self._head_dim = shape.head_dim
        self._tile_tokens = TILE_BLOCKS * tokens_per_block
        scores = shape.heads * _MAX_QUERY_ROWS * self._tile_tokens
        self._scratch = np.empty((lanes.count, scores), np.float32)  # Each lane has its own.

    def run(self, kv, layer, table, query, position, out):
        """Attends rows at tokens position, position + 1, ... and writes `out`.

        `query`: [rows, heads, head_dim], rotated and scaled by log2(e) / sqrt(head_dim), so that
        the softmax is one of powers of two. `out`: [rows, heads * head_dim]. The KV of every
        row's token is already in `kv`.
        """
        pieces = [self._query_rows(query, position, first, out)
                  for first in range(0, query.shape[0], _MAX_QUERY_ROWS)]
        pairs = [(piece, tile) for piece in range(len(pieces))
                 for tile in range((pieces[piece].position + pieces[piece].rows - 1)
                                   // self._tile_tokens + 1)]
        partials = {}

        def compute(lane):
            for piece, tile in pairs[lane::self._lanes.count]:
                k = kv.tile(layer, KEYS, table, tile * TILE_BLOCKS, TILE_BLOCKS)
                v = kv.tile(layer, VALUES, table, tile * TILE_BLOCKS, TILE_BLOCKS)
                scores = self._scores(lane, pieces[piece], k, tile * self._tile_tokens)
                partials[piece, tile] = _partial(scores, v)

        def merge(lane):
            for piece in range(lane, len(pieces), self._lanes.count):
                tiles = sorted(pair for pair in pairs if pair[0] == piece)
                self._merge([partials[pair] for pair in tiles], pieces[piece])

        self._lanes.run(compute)
        self._lanes.run(merge)

    def _query_rows(self, query, position, first, out):
        """Returns the rows from `first` on; the heads that share a kv head are side by side in one matrix."""
        part = query[first:first + _MAX_QUERY_ROWS]
        grouped = part.reshape(len(part), self._kv_heads, self._group, self._head_dim)
        columns = np.ascontiguousarray(grouped.transpose(1, 3, 2, 0))
        return _QueryRows(columns.reshape(self._kv_heads, self._head_dim, -1),
                          position + first, len(part), out[first:first + _MAX_QUERY_ROWS])

    def _scores(self, lane, query, k, tile_start):
        """Returns k q of one tile, [kv_heads, tile tokens, group * rows]; _HIDDEN where the key is later.

        The result lies in the lane's scratch memory.
        """
        shape = (self._kv_heads, self._tile_tokens, self._group * query.rows)
        scores = self._scratch[lane, :shape[0] * shape[1] * shape[2]].reshape(shape)
        np.matmul(k.swapaxes(0, 1), query.columns, out=scores)
        if tile_start + self._tile_tokens - 1 > query.position:
            keys = np.arange(tile_start, tile_start + self._tile_tokens)
            later = keys[:, None, None] > np.arange(query.position, query.position + query.rows)
            np.copyto(scores.reshape(*shape[:2], self._group, -1), _HIDDEN, where=later)
        return scores

    def _merge(self, tiles, query):
        """Joins the partials of one piece, in order, and writes its rows of the output."""
        first = tiles[0]
        top, total, weighted = first.top, first.total, first.weighted
        for tile in tiles[1:]:
            new_top = np.maximum(top, tile.top)
            before, now = np.exp2(top - new_top), np.exp2(tile.top - new_top)
            total = total * before + tile.total * now
            weighted *= before
            weighted += np.multiply(tile.weighted, now, out=tile.weighted)
            top = new_top
        weighted /= total
        heads = weighted.reshape(self._kv_heads, self._head_dim, self._group, -1)
        out = query.out.reshape(query.rows, self._kv_heads, self._group, -1)
        out[...] = heads.transpose(3, 0, 2, 1)


def _partial(scores, v):
    """Returns the softmax over the keys of one tile; overwrites `scores`. v: [tokens, kv_heads, dim]."""
    top = scores.max(axis=1, keepdims=True)
    np.subtract(scores, top, out=scores)
    np.exp2(scores, out=scores)
    total = scores.sum(axis=1, keepdims=True)
    return _Partial(top, total, np.matmul(v.transpose(1, 2, 0), scores))
