"""The worker's KV in an agent's emulated GPU pool: the same answers, shared, swapped and copied."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import example_model
from example_model import needs_model

_AGENT = Path(os.environ.get("KVTIER_BIN_DIR", Path(__file__).resolve().parents[2]
                             / "build/dev/bin")) / "kvtier-agent"
_MISSING = importlib.util.find_spec("kvtier") is None or not _AGENT.exists()
if _MISSING:
    print(f"tests/examples: NOT TESTED, KV in the GPU pool: no package kvtier, or no {_AGENT}",
          file=sys.stderr)
needs_agent = unittest.skipIf(_MISSING, "NOT TESTED: no package kvtier, or no kvtier-agent")

_SLOTS = 40
_BLOCK_BYTES = 737280  # SmolLM2-135M: 30 layers, K and V, 16 tokens, 3 heads of 64, float32.


class Agent:
    """A real agent with an emulated GPU, on loopback, in a folder of its own."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [_AGENT, f"--socket_dir={self.folder.name}", "--node_id=pool", "--listen=127.0.0.1:0",
             "--advertise=127.0.0.1:1", "--host_bytes=64MiB", "--device=emulated",
             f"--gpu_bytes={_SLOTS * _BLOCK_BYTES}", f"--gpu_block_bytes={_BLOCK_BYTES}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def client(self):
        import kvtier

        deadline = time.monotonic() + 30
        while True:
            client = kvtier.Client(socket_dir=self.folder.name)
            if client.connected:
                return client
            client.close()
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no agent: {self._process.stderr.read()}")
            time.sleep(0.05)

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stderr.close()
        self.folder.cleanup()


@needs_model
@needs_agent
class PoolKvTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import kvtier
        from smollm.model import Decoder
        from smollm.pool_kv import PoolKv
        from smollm.prefix_store import space_fields

        cls.own, cls.tokenizer = example_model.loaded()
        cls.agent = Agent()
        cls.addClassCleanup(cls.agent.kill)
        cls.client = cls.agent.client()
        cls.addClassCleanup(cls.client.close)
        weights = cls.own.weights
        space = cls.client.register_space(kvtier.SpaceSpec(**space_fields(weights)))
        cls.native = cls.client.paged_kv(space, _SLOTS)
        cls.kv = PoolKv(weights.shape, cls.native)
        cls.pooled = Decoder(weights, 512, cls.kv)
        cls.tokens = cls.tokenizer.chat_prompt(example_model.document(), "Who?", 150).tokens

    def generate(self, decoder, table, logits, count):
        from smollm.model import greedy

        return list(greedy(decoder, table, logits, count, self.tokenizer.end_token))

    def expected(self, count):
        table = self.own.open_sequence(len(self.tokens) + count)
        try:
            return self.generate(self.own, table, self.own.prefill(table, self.tokens), count)
        finally:
            self.own.kv.free(table)

    def test_the_pool_gives_the_answer_of_own_memory(self):
        table = self.pooled.open_sequence(len(self.tokens) + 8)
        self.addCleanup(self.kv.free, table)
        logits = self.pooled.prefill(table, self.tokens)
        self.assertEqual(self.generate(self.pooled, table, logits, 8), self.expected(8))
        self.kv.check()

    def test_a_fork_in_the_middle_of_a_block_is_copied_and_both_go_on(self):
        self.assertNotEqual(len(self.tokens) % 16, 0)
        first = self.pooled.open_sequence(len(self.tokens) + 8)
        logits = self.pooled.prefill(first, self.tokens).copy()
        second = self.kv.fork(first)
        self.addCleanup(self.kv.free, first)
        self.addCleanup(self.kv.free, second)
        copied = self.native.copied_blocks
        free = self.kv.free_slots
        answers = [self.generate(self.pooled, table, logits, 6) for table in (first, second)]
        self.assertEqual(answers, [self.expected(6)] * 2)
        self.assertEqual(self.native.copied_blocks, copied + 1, "one of two copies its last block")
        self.assertLessEqual(free - self.kv.free_slots, 3)

    def test_sequences_that_do_not_fit_take_turns(self):
        tables = []
        for _ in range(4):  # Of 12 blocks and more each, in 40 slots.
            table = self.pooled.open_sequence(len(self.tokens) + 24)
            self.addCleanup(self.kv.free, table)
            tables.append((table, self.pooled.prefill(table, self.tokens).copy()))
        self.assertGreater(self.native.swapped_bytes, 0)
        for table, logits in tables:
            self.assertEqual(self.generate(self.pooled, table, logits, 8), self.expected(8))

    def test_several_questions_share_the_document(self):
        from smollm.answering import Answerer, Ask
        from smollm.shared_prefix import SharedPrefix

        prefix = SharedPrefix(self.kv)
        self.addCleanup(prefix.drop)
        pooled = Answerer(self.pooled, self.tokenizer, prefix=prefix)
        own = Answerer(self.own, self.tokenizer)
        for number, question in enumerate(("What is this?", "Who wrote it?", "What is it for?")):
            ask = Ask(example_model.document(), question, 6, prefix_tokens=150)
            answer = pooled.answer(ask)
            self.assertEqual(answer.output_tokens, own.answer(ask).output_tokens)
            self.assertEqual(answer.tokens_forked > 100, number > 0)

    def test_nothing_is_left_behind(self):
        self.assertEqual(self.kv.free_slots, _SLOTS)
        self.assertEqual(self.native.swapped_bytes, 0)

    def test_a_pool_that_is_too_small_says_so(self):
        from smollm.paged_kv import PoolFull

        with self.assertRaisesRegex(PoolFull, f"{_SLOTS} in all"):
            self.kv.allocate(_SLOTS + 1)
        table = self.kv.allocate(_SLOTS)
        self.addCleanup(self.kv.free, table)
        with self.assertRaises(BlockingIOError):
            self.native.append(table.sequence, _SLOTS * 16 + 1)


@needs_model
@needs_agent
class PoolLossTest(unittest.TestCase):
    def test_answers_on_slots_of_a_dead_agent_are_not_given(self):
        import kvtier
        from smollm.pool_kv import PoolKv, PoolLost
        from smollm.prefix_store import space_fields

        decoder, _ = example_model.loaded()
        agent = Agent()
        client = agent.client()
        self.addCleanup(client.close)
        space = client.register_space(kvtier.SpaceSpec(**space_fields(decoder.weights)))
        kv = PoolKv(decoder.shape, client.paged_kv(space, 4))
        kv.check()
        agent.kill()
        with self.assertRaises(PoolLost):
            kv.check()

    def test_without_an_agent_there_is_no_pool(self):
        import kvtier
        from smollm.prefix_store import space_fields

        decoder, _ = example_model.loaded()
        with tempfile.TemporaryDirectory() as empty:
            client = kvtier.Client(socket_dir=empty)
            self.addCleanup(client.close)
            space = client.register_space(kvtier.SpaceSpec(**space_fields(decoder.weights)))
            with self.assertRaisesRegex(ValueError, "none were granted"):
                client.paged_kv(space, 4)


if __name__ == "__main__":
    unittest.main()
