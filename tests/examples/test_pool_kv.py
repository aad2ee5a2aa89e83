"""The worker's KV in an agent's emulated GPU pool: the same answers, shared, swapped and copied."""

import tempfile
import unittest

import example_model
from example_agent import SLOTS, Agent, needs_agent
from example_model import needs_model


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
        cls.native = cls.client.paged_kv(space, SLOTS)
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
        self.assertEqual(self.kv.free_slots, SLOTS)
        self.assertEqual(self.native.swapped_bytes, 0)

    def test_a_pool_that_is_too_small_says_so(self):
        from smollm.paged_kv import PoolFull

        with self.assertRaisesRegex(PoolFull, f"{SLOTS} in all"):
            self.kv.allocate(SLOTS + 1)
        table = self.kv.allocate(SLOTS)
        self.addCleanup(self.kv.free, table)
        with self.assertRaises(BlockingIOError):
            self.native.append(table.sequence, SLOTS * 16 + 1)


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
