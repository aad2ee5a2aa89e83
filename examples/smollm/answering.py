"""Answerer: one question about one document, from text to text, with or without kvtier.

    tokens -> EngineKeys -> onboard the longest prefix -> prefill the rest -> first token
           -> put what was computed -> the other tokens -> verify
"""

import time
from dataclasses import asdict, dataclass, field

from . import block_keys
from .block_digests import Verdict
from .model import greedy
from .prefix_store import MatchReport, Onboarded

# Prefill speed taken for granted until this process has measured its own, in tokens per second.
_FIRST_GUESS_RATE = 300.0


@dataclass(frozen=True)
class Ask:
    """One question. `prefix_tokens` cuts system text plus document to that many tokens."""

    document: str
    question: str
    max_tokens: int = 32
    use_cache: bool = True
    prefix_tokens: int | None = None


@dataclass(frozen=True)
class Answer:
    """The outcome. Times are wall seconds and `ttft_s` runs from the ask to the first token."""

    text: str
    output_tokens: list
    prompt_tokens: int
    tokens_reused: int
    blocks_reused: int
    bytes_moved: int
    blocks_committed: int
    lease_lost: bool
    connected: bool
    ttft_s: float
    onboard_s: float
    prefill_s: float
    put_s: float
    total_s: float  # None without verification.
    blocks_verified: int = 0
    wrong_blocks: int = 0
    blocks_unknown: int = 0
    tokens_forked: int = 0  # Tokens that this prompt shares with the one before it, in the pool.
    match: dict = field(default_factory=dict)

    def fields(self):
        return asdict(self)


class Answerer:
    """Model, tokenizer and, where there is one, a PrefixStore. One ask at a time."""

    def __init__(self, decoder, tokenizer, store=None, digests=None, timeout_s=2.0, prefix=None):
        """`digests` turns verification on. `timeout_s` is the longest wait for kvtier.

        With `prefix`, a SharedPrefix, prompts share what they have in common with the last one.
        """
        self._decoder, self._tokenizer = decoder, tokenizer
        self._store, self._digests = store, digests
        self._timeout_s = timeout_s
        self._prefix = prefix
        self._rate = _FIRST_GUESS_RATE

    def answer(self, ask):
        """Returns the Answer.

        Raises PromptTooLong or PoolFull when the prompt does not fit the KV memory, PoolLost when
        the agent took it away.
        """
        started = time.perf_counter()
        prompt = self._tokenizer.chat_prompt(ask.document, ask.question, ask.prefix_tokens)
        table = self._open(prompt.tokens, ask.max_tokens)
        try:
            return self._answer(ask, prompt.tokens, table, started)
        finally:
            self._decoder.kv.free(table)

    def _open(self, tokens, max_tokens):
        def new():
            return self._decoder.open_sequence(len(tokens) + max_tokens)

        return self._prefix.open(tokens, new) if self._prefix else new()

    def _answer(self, ask, tokens, table, started):
        kv = self._decoder.kv
        forked = table.tokens
        store = self._store if ask.use_cache else None
        keys = block_keys.chain(tokens, kv.tokens_per_block)
        hit = Onboarded(MatchReport()) if forked else self._onboard(store, table, keys, len(tokens))
        onboarded = time.perf_counter()
        logits = self._decoder.prefill(table, tokens)
        generated = greedy(self._decoder, table, logits, ask.max_tokens, self._tokenizer.end_token)
        output = [token for token in [next(generated, None)] if token is not None]
        first_token = time.perf_counter()
        reused = max(hit.blocks, forked // kv.tokens_per_block)
        self._measure(len(tokens) - reused * kv.tokens_per_block, first_token - onboarded)
        committed = store.put(table, keys, reused) if store else 0
        was_put = time.perf_counter()
        if self._prefix:
            self._prefix.keep(tokens, table)
        output.extend(generated)
        if self._prefix:
            kv.check()
        done = time.perf_counter()
        verdict = self._verify(table, keys, hit.blocks)
        return Answer(
            text=self._tokenizer.decode(output), output_tokens=output, prompt_tokens=len(tokens),
            tokens_reused=hit.blocks * kv.tokens_per_block, blocks_reused=hit.blocks,
            bytes_moved=hit.bytes_moved, blocks_committed=committed, lease_lost=hit.lease_lost,
            connected=bool(store and store.connected), ttft_s=first_token - started,
            onboard_s=onboarded - started, prefill_s=first_token - onboarded,
            put_s=was_put - first_token, total_s=done - started,
            blocks_verified=verdict.verified, wrong_blocks=verdict.wrong,
            blocks_unknown=verdict.unknown, tokens_forked=forked, match=hit.match.fields())

    def _onboard(self, store, table, keys, tokens):
        """Onboards leading blocks, but leaves one token or more to compute: its logits choose the first word."""
        usable = keys[:(tokens - 1) // self._decoder.kv.tokens_per_block]
        if not store or not usable:
            return Onboarded(MatchReport())
        # Waiting longer than recomputing takes would make the cache a loss.
        recompute_s = tokens / self._rate
        return store.onboard(table, usable, min(self._timeout_s, recompute_s))

    def _measure(self, tokens, seconds):
        """Updates the measured prefill speed, but not by short prefills, which say little about long ones."""
        if tokens >= 256:
            self._rate = 0.5 * self._rate + 0.5 * tokens / seconds

    def _verify(self, table, keys, reused):
        if self._digests is None:
            return Verdict()
        verdict = self._digests.compare(self._decoder.kv, table, keys, reused)
        self._digests.record(self._decoder.kv, table, keys, reused)
        return verdict
