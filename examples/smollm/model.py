"""Decoder: the forward pass of a llama-architecture network, and greedy generation.

RMSNorm, rotary positions, grouped-query attention over a paged KV cache, SwiGLU; float32.
"""

import numpy as np

from . import prefill_plan
from .attention import TILE_BLOCKS, Attention
from .lanes import Lanes
from .paged_kv import TOKENS_PER_BLOCK, PagedKv


class PromptTooLong(ValueError):
    """Prompt and answer together exceed the tokens the KV pool was opened for."""


class Decoder:
    """One model, one KV pool. Not thread-safe; sequences take turns."""

    def __init__(self, weights, context_tokens, kv=None):
        """`context_tokens` bounds prompt plus answer; KV memory is 45 KB per token at 135M.

        `kv`, a PoolKv, takes the place of KV memory of the decoder's own.
        """
        shape = weights.shape
        self.weights, self.shape = weights, shape
        tile_tokens = TILE_BLOCKS * TOKENS_PER_BLOCK
        slots = -(-min(context_tokens, shape.context_tokens) // tile_tokens) * TILE_BLOCKS
        self.kv = PagedKv(shape, slots) if kv is None else kv
        self.context_tokens = slots * self.kv.tokens_per_block
        self._lanes = Lanes()
        self._attention = Attention(shape, self.kv.tokens_per_block, self._lanes)
        self._cosine, self._sine = _rotation(shape, self.context_tokens)
        self._buffers = {}
        self.stable_rows = rows_are_stable(weights, self._lanes)

    def open_sequence(self, tokens):
        """Takes slots for a sequence of up to `tokens`. Raises PromptTooLong, PoolFull."""
        if tokens > self.context_tokens:
            raise PromptTooLong(f"{tokens} tokens, the KV pool holds {self.context_tokens}")
        tiles = -(-tokens // (TILE_BLOCKS * self.kv.tokens_per_block))
        return self.kv.allocate(tiles * TILE_BLOCKS)

    def prefill(self, table, tokens):
        """Computes tokens[table.tokens:], whose KV is not yet in `table`; returns the logits.

        Logits are those after the last token, [vocabulary]. REQUIRES: table.tokens is a multiple
        of the block size and less than len(tokens).
        """
        for _, rows in self._computed(table, tokens):
            pass
        return self._logits(rows[-1])

    def choices(self, table, tokens, first):
        """Returns the likeliest token after each of tokens[first:]: greedy decoding's own choices, as
        far as they are these tokens. REQUIRES: as prefill, and table.tokens <= first < len(tokens).
        """
        chosen = []
        for start, rows in self._computed(table, tokens):
            wanted = rows[max(first - start, 0):]
            normed = self._normed(wanted) * self.weights.output_norm
            logits = np.empty((len(wanted), self.shape.vocabulary), np.float32)
            self._lanes.product(normed, self.weights.output.T, out=logits)
            chosen.extend(logits.argmax(axis=1).tolist())
        return chosen

    def _computed(self, table, tokens):
        """Computes tokens[table.tokens:]; yields (first token, its rows of the residual stream)."""
        for piece in prefill_plan.plan(table.tokens, len(tokens), self.stable_rows):
            ids = np.zeros(piece.rows, np.int64)
            used = slice(piece.first_row, piece.first_row + piece.stop - piece.start)
            ids[used] = tokens[piece.start:piece.stop]
            stream = self._forward(table, ids, piece.start - piece.first_row, used)
            table.tokens = piece.stop
            yield piece.start, stream[used]

    def decode(self, table, token):
        """Appends one token to the sequence; returns the logits after it, [vocabulary]."""
        row = slice(0, 1)
        stream = self._forward(table, np.array([token]), table.tokens, row)
        table.tokens += 1
        return self._logits(stream[0])

    def _forward(self, table, ids, position, used):
        """Runs rows `ids`, of which `used` are real, row 0 being token `position`.

        Writes the KV of the used rows; returns the residual stream, [rows, width].
        """
        shape, rows = self.shape, len(ids)
        start = position + used.start
        stream = self.weights.embedding[ids]
        qkv_heads = shape.heads + 2 * shape.kv_heads
        qkv = self._buffer("qkv", rows, qkv_heads * shape.head_dim)
        attended = self._buffer("attended", rows, shape.heads * shape.head_dim)
        added = self._buffer("added", rows, shape.width)
        cosine = self._cosine[position:position + rows, None]
        sine = self._sine[position:position + rows, None]
        for layer, weights in enumerate(self.weights.layers):
            self._lanes.product(self._normed(stream), weights.qkv, out=qkv)
            heads = qkv.reshape(rows, qkv_heads, shape.head_dim)
            _rotate(heads[:, :shape.heads + shape.kv_heads], cosine, sine)
            kv = heads[used, shape.heads:].reshape(-1, 2, shape.kv_heads, shape.head_dim)
            self.kv.store(layer, table, start, kv.swapaxes(0, 1))
            self._attention.run(self.kv, layer, table, heads[:, :shape.heads], position, attended)
            self._lanes.product(attended, weights.attention_out, out=added)
            stream += added
            gated = self._gated(self._normed(stream), weights)
            self._lanes.product(gated, weights.down, out=added)
            stream += added
        return stream

    def _normed(self, stream):
        """Returns stream / rms(stream), row by row; the gain is inside the next projection."""
        square = np.einsum("rw,rw->r", stream, stream)
        square /= np.float32(self.shape.width)
        square += np.float32(self.shape.norm_epsilon)
        scale = 1 / np.sqrt(square)
        return np.multiply(stream, scale[:, None],
                           out=self._buffer("normed", *stream.shape))

    def _gated(self, normed, weights):
        """Returns silu(normed @ gate) * (normed @ up): [rows, width] -> [rows, hidden]."""
        gate, up, gated = (self._buffer(name, len(normed), self.shape.hidden)
                           for name in ("gate", "up", "gated"))

        def share(lane):
            own = self._lanes.columns(self.shape.hidden, lane)
            np.matmul(normed, weights.gate[:, own], out=gate[:, own])
            np.matmul(normed, weights.up[:, own], out=up[:, own])
            shrink = np.negative(gate[:, own], out=gated[:, own])
            with np.errstate(over="ignore"):  # exp may reach inf; gate / inf is the right zero.
                np.exp(shrink, out=shrink)
            shrink += 1
            np.divide(gate[:, own], shrink, out=shrink)
            shrink *= up[:, own]

        self._lanes.run(share)
        return gated

    def _logits(self, row):
        """Returns the output projection of one row of the residual stream: [width] -> [vocabulary]."""
        normed = self._normed(row[None])[0] * self.weights.output_norm
        logits = np.empty(self.shape.vocabulary, np.float32)

        def share(lane):
            own = self._lanes.columns(self.shape.vocabulary, lane)
            np.matmul(self.weights.output[own], normed, out=logits[own])

        self._lanes.run(share)
        return logits

    def _buffer(self, name, rows, columns):
        key = (name, rows, columns)
        if key not in self._buffers:
            self._buffers[key] = np.empty((rows, columns), np.float32)
        return self._buffers[key]


def greedy(decoder, table, logits, max_tokens, end_token):
    """Yields up to `max_tokens` token ids, each the likeliest, stopping before `end_token`.

    Reads `logits` (of the last prompt token) first, so the first id costs no forward pass.
    """
    for count in range(1, max_tokens + 1):
        token = int(np.argmax(logits))
        if token == end_token:
            return
        yield token
        if count < max_tokens:
            logits = decoder.decode(table, token)


def rows_are_stable(weights, lanes):
    """Returns whether this BLAS computes a row alike in every product of a multiple of 16 rows.

    Multiplies the real matrices of layer 0 at each row count a prefill uses and compares bits.
    This takes about 0.1 s; prefill_plan says what depends on it.
    """
    random = np.random.default_rng(0)
    layer = weights.layers[0]
    for matrix in (layer.qkv, layer.attention_out, layer.gate, layer.down):
        rows = random.standard_normal((prefill_plan.BULK_ROWS, matrix.shape[0]), np.float32)
        whole = np.empty((len(rows), matrix.shape[1]), np.float32)
        lanes.product(rows, matrix, out=whole)
        for count in range(prefill_plan.ROW_QUANTUM, prefill_plan.BULK_ROWS,
                           prefill_plan.ROW_QUANTUM):
            part = np.empty((count, matrix.shape[1]), np.float32)
            lanes.product(rows[-count:], matrix, out=part)
            if not np.array_equal(part.view(np.uint32), whole[-count:].view(np.uint32)):
                return False
    return True


def _rotation(shape, tokens):
    """Returns cosines and sines of the rotary angles, each [tokens, head_dim / 2] float32."""
    exponents = np.arange(0, shape.head_dim, 2) / shape.head_dim
    angles = np.outer(np.arange(tokens), shape.rope_base ** -exponents)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _rotate(heads, cosine, sine):
    """Turns each head's (first half, second half) pairs by its token's angle, in place."""
    first, second = np.split(heads, 2, axis=-1)
    turned = first * cosine - second * sine
    second *= cosine
    second += first * sine
    first[...] = turned
