"""CapturedPrompt: a prompt, and the KV, queries and answer that the example's model made of it.

Replay tells what becomes of the answer when the KV went through a codec.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from smollm import bf16  # noqa: E402
from smollm.model import greedy  # noqa: E402


@dataclass(frozen=True)
class CapturedPrompt:
    tokens: list  # Tokens of the prompt.
    output: list  # Greedy answer, in float32 throughout; it includes the end token, if that came.
    blocks: np.ndarray  # [block][layer][K, V][token][head][dim] float32, whole blocks only.
    rest: np.ndarray  # The same of the block that is not full, padded.
    queries: list  # By layer: [rows, heads, dim] of the last rows of the prompt, and padding:
    # a row's result is only the same to the bit among as many others.
    attended: list  # By layer: what attention made of those rows, without the padding's.
    position: int  # Token of the first of those rows.

    @property
    def reusable(self):
        """Returns how many blocks a worker would onboard; it computes at least one token itself."""
        return (len(self.tokens) - 1) // self.blocks.shape[3]


class _Recording:
    """Attention that keeps the queries and results of its latest run on each layer."""

    def __init__(self, attention):
        self._attention = attention
        self.runs = {}

    def run(self, kv, layer, table, query, position, out):
        self._attention.run(kv, layer, table, query, position, out)
        self.runs[layer] = (query.copy(), position, out.copy())


class Model:
    """The example's decoder and tokenizer. One sequence at a time."""

    def __init__(self, decoder, tokenizer):
        self.decoder, self.tokenizer = decoder, tokenizer
        self.kv = decoder.kv
        shape = decoder.shape
        self.block_shape = (shape.layers, 2, self.kv.tokens_per_block, shape.kv_heads,
                            shape.head_dim)

    def capture(self, document, question, max_tokens, shared=None):
        """Computes one prompt. `shared` is another with the same document, whose KV is taken."""
        tokens = self.tokenizer.chat_prompt(document, question).tokens
        table = self.decoder.open_sequence(len(tokens) + max_tokens)
        attention = self.decoder._attention
        recording = self.decoder._attention = _Recording(attention)
        try:
            if shared is not None:
                self._import(table, shared.blocks[:self._in_common(tokens, shared.tokens)])
            logits = self.decoder.prefill(table, tokens)
            runs = [recording.runs[layer] for layer in range(self.decoder.shape.layers)]
            blocks = self._export(table, len(tokens))
            end = self.tokenizer.end_token
            output = list(greedy(self.decoder, table, logits, max_tokens, end))
            if len(output) < max_tokens:
                output.append(end)
        finally:
            self.decoder._attention = attention
            self.kv.free(table)
        whole = len(tokens) // self.kv.tokens_per_block
        position = runs[0][1]
        rows = len(tokens) - position  # The others are padding.
        return CapturedPrompt(tokens, output, blocks[:whole], blocks[whole:],
                              [query for query, _, _ in runs],
                              [out[:rows] for _, _, out in runs], position)

    def _in_common(self, tokens, others):
        """Returns how many leading whole blocks two prompts share."""
        size = self.kv.tokens_per_block
        blocks = 0
        while tokens[blocks * size:][:size] == others[blocks * size:][:size]:
            blocks += 1
        return blocks

    def _import(self, table, blocks):
        for index, block in enumerate(blocks):
            self.kv.import_block(table, index, block)
        table.tokens = len(blocks) * self.kv.tokens_per_block

    def _export(self, table, tokens):
        count = -(-tokens // self.kv.tokens_per_block)
        blocks = np.empty((count, *self.block_shape), np.float32)
        for index in range(count):
            self.kv.export_block(table, index, blocks[index])
        return blocks

    def replay(self, prompt, copies):
        """Answers `prompt` again on `copies` of its reusable blocks. Returns a Replay."""
        assert len(copies) == prompt.reusable
        kept = np.concatenate([copies, prompt.blocks[prompt.reusable:], prompt.rest])
        table = self.decoder.open_sequence(len(prompt.tokens) + len(prompt.output))
        try:
            self._import(table, kept)
            error = original = 0.0
            for layer, (query, attended) in enumerate(zip(prompt.queries, prompt.attended)):
                out = np.empty((len(query), attended.shape[1]), np.float32)
                self.decoder._attention.run(self.kv, layer, table, query, prompt.position, out)
                out = out[:len(attended)]
                error += float(((out - attended).astype(np.float64) ** 2).sum())
                original += float((attended.astype(np.float64) ** 2).sum())
            table.tokens = len(copies) * self.kv.tokens_per_block
            chosen = self.decoder.choices(table, prompt.tokens + prompt.output[:-1],
                                          len(prompt.tokens) - 1)
        finally:
            self.kv.free(table)
        same = [mine == theirs for mine, theirs in zip(chosen, prompt.output)]
        agreeing = same.index(False) if False in same else len(same)
        return Replay(agreeing, len(prompt.output), error, original)


@dataclass(frozen=True)
class Replay:
    """The outcome of greedy decoding on other KV. The reference's tokens are fed, and the first that would not
    have been chosen is where the two answers part: until there they are the same answer."""

    agreeing: int  # Tokens before they part.
    asked: int
    attention_error: float  # Sum of squares, over the attention outputs of all layers.
    attention_original: float

    @property
    def equal(self):
        return self.agreeing == self.asked


class Codec:
    """A codec of kvtier by its SpaceSpec name, for blocks of float32; "bf16" only rounds, and
    "float32" does nothing."""

    def __init__(self, name, block_shape):
        self.name = name
        self.block_shape = block_shape
        self.spec = self.native = None
        self.stored_bytes = {"float32": 4, "bf16": 2}.get(name, 0) * int(np.prod(block_shape))
        if name in ("float32", "bf16"):
            return
        import kvtier

        layers, _, tokens, heads, dim = block_shape
        self.spec = kvtier.SpaceSpec(
            model="captured", weights_digest="0", dtype="bfloat16", codec=name,
            layout="layer,kv,token,head,dim", layers=layers, kv_heads=heads, head_dim=dim,
            tokens_per_block=tokens)
        self.native = kvtier.BlockCodec(self.spec)
        self.stored_bytes = self.spec.block_bytes

    def through(self, block):
        """Returns the block as it comes back from the codec, or None when it cannot be encoded."""
        if self.name == "float32":
            return block
        bits = bf16.from_float32(block)
        if self.native is None:
            return bf16.to_float32(bits)
        slot, back = np.empty(self.stored_bytes, np.uint8), np.empty_like(bits)
        if self.native.encode(bits, slot) is None:
            return None
        if not self.native.decode(slot, back):
            raise RuntimeError(f"{self.name} does not decode what it encoded")
        return bf16.to_float32(back)
