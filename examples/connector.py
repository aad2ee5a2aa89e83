#!/usr/bin/env python3
"""A connector in small: an engine with paged KV memory shares it through kvtier.

    connector.py SOCKET_DIR     run it twice with an agent running: the second run loads what the
                                first one stored

docs/writing-a-connector.md goes through it piece by piece. The engine is numpy with pseudorandom
values where a model would be; everything else is what a connector for a real engine does.
"""

import sys
from collections import Counter
from dataclasses import dataclass

import numpy

import kvtier


@dataclass(frozen=True)
class Model:
    """Facts that an engine knows of the model that it runs, and of its own shard of it."""

    name: str = "connector-example"
    weights_digest: bytes = bytes(32)  # Digest of the weights' files; this example has none.
    layers: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    block_tokens: int = 16
    rank: int = 0
    ranks: int = 1
    prefill_tokens_per_s: float = 2000.0  # The engine measures this at its start.


class PagedMemory:
    """The engine's KV memory: one tensor a layer, [K and V][slot][token][head][dim]."""

    def __init__(self, model, slots):
        shape = (2, slots, model.block_tokens, model.kv_heads, model.head_dim)
        self.tensors = [numpy.zeros(shape, numpy.float16) for _ in range(model.layers)]

    def pieces(self, slot):
        """Returns the memory of one block as views, in the order of the space's layout."""
        return [tensor[axis, slot] for tensor in self.tensors for axis in (0, 1)]

    def block_bytes(self):
        return sum(piece.nbytes for piece in self.pieces(0))

    def kv_memory(self):
        """Returns the tensors as kvtier.Lanes take them: each has the keys of all slots, then the values."""
        slots = self.tensors[0].shape[1]
        run_bytes = self.pieces(0)[0].nbytes
        return kvtier.KvMemory(
            tensors=[(tensor.ctypes.data, tensor.nbytes) for tensor in self.tensors],
            layers=len(self.tensors), axes="apart", order="token_head", blocks=slots,
            run_bytes=run_bytes, block_stride=run_bytes,
            bases=[(layer, axis * slots * run_bytes)
                   for layer in range(len(self.tensors)) for axis in (0, 1)])


def space_spec(model, memory):
    return kvtier.SpaceSpec(
        model=model.name, weights_digest=model.weights_digest, dtype="float16",
        layout="layer,kv,token,head,dim", layers=model.layers, kv_heads=model.kv_heads,
        head_dim=model.head_dim, tokens_per_block=model.block_tokens, tp_rank=model.rank,
        tp_size=model.ranks, block_bytes=memory.block_bytes())


class SchedulerSide:
    """Says how much of a prompt need not be computed. Runs in the engine's scheduler."""

    def __init__(self, client, space):
        self._client = client
        self._space = space

    def keys(self, tokens):
        """Returns a key for each full block of a prompt."""
        return kvtier.token_keys(tokens, self._space.spec.tokens_per_block)

    def reusable_blocks(self, tokens):
        """Returns how many leading blocks are likely to load. Makes no call, so that every step may ask."""
        # The last token is always computed, for its logits.
        blocks = (len(tokens) - 1) // self._space.spec.tokens_per_block
        return self._client.resident_run(self._space, self.keys(tokens)[:blocks])

    def fetch_ahead(self, tokens):
        """Has blocks brought from disks and other nodes while the request waits for its turn."""
        try:
            self._client.submit_prefetch([kvtier.Sequence(self._space, self.keys(tokens))])
        except BlockingIOError:
            pass  # 256 calls are in progress already, and this one is optional.


class WorkerSide:
    """Moves blocks between the engine's memory and kvtier. Runs in each of the engine's workers."""

    def __init__(self, client, space, memory, prefill_tokens_per_s):
        self._client = client
        self._space = space
        self._memory = memory
        self._block_s = space.spec.tokens_per_block / prefill_tokens_per_s
        self.missed = Counter()  # Loads that ended short, by reason.

    def load_run(self, keys, slots):
        """Loads a prefix, block i into slots[i]. Returns how many leading blocks are there."""
        with self._client.onboard(self._space, keys, timeout_s=len(keys) * self._block_s) as hit:
            loaded = self._copy_out(hit, slots)
        return next((i for i in range(len(keys)) if i not in loaded), len(keys))

    def load_set(self, keys, slots):
        """Loads every block that is there, as a sliding window needs it. Returns the keys of those blocks."""
        wanted = kvtier.Sequence(self._space, keys, is_set=True)
        [hit] = self._client.onboard_sequences([wanted], timeout_s=len(keys) * self._block_s)
        with hit:
            return self._copy_out(hit, slots)

    def _copy_out(self, hit, slots):
        """Copies a hit into the slots of its keys. Returns the keys whose blocks were proven."""
        if hit.missed is not None:
            self.missed[hit.missed] += 1
        loaded = set()
        for i in range(len(hit)):
            if hit.copy_out(i, self._memory.pieces(slots[hit.index(i)])):
                loaded.add(hit.index(i))
            elif hit.valid():
                self.missed["damaged"] += 1  # This block's bytes are wrong; kvtier checks it and drops it.
            else:
                self.missed["ended"] += 1  # The lease is over, or the agent is gone.
                break
        return loaded

    def store(self, keys, slots, parent):
        """Puts blocks that were computed, but for those that are there. Returns a Call or None.

        `parent` is the key before keys[0]; None at the start of a prompt.
        """
        with self._client.reserve(self._space, keys, parent, timeout_s=0) as put:
            for i, state in enumerate(put.states):
                if state == "reserved":
                    put.copy_in(i, self._memory.pieces(slots[i]))
            try:
                return self._client.submit_commit(put)
            except BlockingIOError:
                return None  # 256 calls are in progress: leaving the block gives the slots back.


class BackgroundWorker:
    """Moves blocks as WorkerSide does, while the engine goes on: no call waits."""

    def __init__(self, client, space, memory, prefill_tokens_per_s):
        self.lanes = kvtier.Lanes(client, space, memory.kv_memory())
        self._block_s = space.spec.tokens_per_block / prefill_tokens_per_s

    def start_load(self, keys, slots):
        """Begins to load a prefix. Its slots are the job's until the job is done."""
        return self.lanes.onboard(keys, slots, timeout_s=len(keys) * self._block_s)

    def loaded_blocks(self, job):
        """Returns how many leading blocks a finished load has brought."""
        return (job.results + [False]).index(False)

    def start_store(self, keys, slots, parent):
        """Begins to store blocks. Its slots may be overwritten when job.copied is True."""
        return self.lanes.offload(keys, slots, parent)

    def take_back(self, slots):
        """Frees slots at once, as for a request that preempts another."""
        self.lanes.await_copied(slots, timeout_s=0.05)  # Blocks not copied in time are given up.


class Engine:
    """An engine's prefill with both sides of the connector in one process."""

    def __init__(self, socket_dir, model, slots=64):
        self.memory = PagedMemory(model, slots)
        self.client = kvtier.Client(socket_dir=socket_dir)
        space = self.client.register_space(space_spec(model, self.memory))
        self.scheduler = SchedulerSide(self.client, space)
        self.worker = WorkerSide(self.client, space, self.memory, model.prefill_tokens_per_s)

    def prefill(self, tokens, slots):
        """Fills slots[i] with block i of a prompt. Returns the blocks loaded, and a Call or None."""
        keys = self.scheduler.keys(tokens)
        likely = self.scheduler.reusable_blocks(tokens)
        loaded = self.worker.load_run(keys[:likely], slots) if likely else 0
        for key, slot in zip(keys[loaded:], slots[loaded:]):
            self.compute(key, slot)
        # Blocks that the table listed but that did not load are put again, too.
        parent = keys[loaded - 1] if loaded else None
        return loaded, self.worker.store(keys[loaded:], slots[loaded:], parent)

    def compute(self, key, slot):
        """Computes in place of a model: the values depend on the block and all before it, as its key does."""
        random = numpy.random.default_rng(list(key))
        for piece in self.memory.pieces(slot):
            piece[...] = random.standard_normal(piece.shape)


def main(socket_dir):
    engine = Engine(socket_dir, Model())
    prompt = numpy.arange(8 * 16 + 5, dtype=numpy.int32)
    loaded, stored = engine.prefill(prompt, slots=list(range(8)))
    print(f"{loaded} of 8 blocks loaded, {stored.result() if stored else 0} stored")
    engine.client.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "/run/kvtier")
