"""The worker's KV in an agent's emulated GPU pool: the same answers, shared, swapped and copied."""

import tempfile
import unittest

import example_model
from example_agent import BLOCK_BYTES, SLOTS, Agent, needs_agent
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
        for _ in range(4):  # Each sequence has 12 blocks or more, in 40 slots.
            table = self.pooled.open_sequence(len(self.tokens) + 24)
            self.addCleanup(self.kv.free, table)
            tables.append((table, self.pooled.prefill(table, self.tokens).copy()))
        self.assertGreater(self.native.swapped_bytes, 0)
        for table, logits in tables:
            self.assertEqual(self.generate(self.pooled, table, logits, 8), self.expected(8))

    def filled(self, blocks=12):
        """Returns a sequence whose block n has n in every byte; three of them and four slots make a full pool."""
        import numpy as np

        table = self.kv.allocate(blocks)
        self.addCleanup(self.kv.free, table)
        for block in range(blocks):
            self.kv.import_block(table, block,
                                 np.full(self.kv.block_bytes // 4, block, np.float32))
        return table

    def swapped_out(self, *tables):
        return [self.native.facts(table.sequence).swapped_out for table in tables]

    def test_the_last_in_line_makes_room(self):
        first, second, third = self.filled(), self.filled(), self.filled()
        fourth = self.filled()
        self.assertEqual(self.swapped_out(first, second, third, fourth), [False, False, True, False])
        run = bytearray(self.kv.block_bytes)
        self.kv.export_block(third, 5, run)
        self.assertEqual(bytes(run[:4]), b"\0\0\xa0@", "5.0: what went out came back")
        self.assertEqual(self.swapped_out(first, second, third, fourth), [False, False, False, True])

    def test_what_is_only_kept_goes_first(self):
        first, second, third = self.filled(), self.filled(), self.filled()
        self.kv.keep(first)
        self.kv.keep(third)
        self.kv.export_block(third, 0, bytearray(self.kv.block_bytes))
        fourth = self.filled()
        self.assertEqual(self.swapped_out(first, second, third, fourth), [False, False, True, False])
        self.filled()
        self.assertEqual(self.swapped_out(first, second, third, fourth), [True, False, True, False])

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


@needs_agent
class LineTest(unittest.TestCase):
    def test_the_first_in_line_comes_back_before_the_others(self):
        import kvtier

        agent = Agent()
        self.addCleanup(agent.kill)
        client = agent.client()
        self.addCleanup(client.close)
        kv = client.paged_kv(client.register_space(kvtier.SpaceSpec(
            model="line", weights_digest=bytes(32), dtype="float32", layout="any", layers=30,
            kv_heads=3, head_dim=64, tokens_per_block=16, block_bytes=BLOCK_BYTES)), 4)
        self.assertIsNone(kv.next_return())
        low, high = kv.open(), kv.open(priority=1)
        for sequence in (low, high):
            kv.append(sequence, 16)
        kv.swap_out([low, high])
        self.assertEqual(kv.next_return(), high)
        with self.assertRaisesRegex(RuntimeError, "sequence 1 of priority 0 .* sequence 2 of"):
            kv.swap_in(low)
        kv.set_priority(low, 2)
        self.assertEqual(kv.next_return(), low)
        kv.swap_in(low)
        kv.swap_in(high)
        self.assertIsNone(kv.next_return())


@needs_agent
class SwapTest(unittest.TestCase):
    """Sequences in the agent's host memory, without a model."""

    def setUp(self):
        import kvtier

        # A quarter of 12 MiB has room for four blocks.
        self.agent = Agent("--host_bytes=12MiB", "--slab_bytes=1MiB")
        self.addCleanup(self.agent.kill)
        self.client = self.agent.client()
        self.addCleanup(self.client.close)
        self.kv = self.client.paged_kv(self.client.register_space(kvtier.SpaceSpec(
            model="swap", weights_digest=bytes(32), dtype="float32", layout="any", layers=30,
            kv_heads=3, head_dim=64, tokens_per_block=16, block_bytes=BLOCK_BYTES)), 6)

    def at(self, sequence, block):
        """Returns the place of the block's first byte in the pool."""
        return self.kv.slots(sequence)[block] * self.kv.slot_bytes

    def test_a_sequence_comes_back_from_host_memory_with_its_bytes(self):
        first, second = self.kv.open(), self.kv.open()
        self.kv.append(first, 3 * 16)
        for block in range(3):
            self.kv.memory[self.at(first, block)] = 100 + block
        self.kv.swap_out([first])
        self.assertEqual(self.kv.swapped_bytes, 3 * BLOCK_BYTES)
        self.kv.append(second, 6 * 16)
        for block in range(6):
            self.kv.memory[self.at(second, block)] = 1
        self.kv.free(second)
        self.kv.swap_in(first)
        self.assertEqual([self.kv.memory[self.at(first, block)] for block in range(3)],
                         [100, 101, 102])

    def test_beyond_the_tenants_quota_nothing_goes_out(self):
        sequence = self.kv.open()
        self.kv.append(sequence, 5 * 16)
        with self.assertRaisesRegex(BlockingIOError, "bytes of a tenant"):
            self.kv.swap_out([sequence])
        self.assertFalse(self.kv.facts(sequence).swapped_out)
        self.kv.truncate(sequence, 4 * 16)
        self.kv.swap_out([sequence])
        self.assertTrue(self.kv.facts(sequence).swapped_out)

    def test_without_its_agent_nothing_is_swapped(self):
        first, second = self.kv.open(priority=1), self.kv.open()
        for sequence in (first, second):
            self.kv.append(sequence, 16)
        self.kv.swap_out([first])
        self.agent.kill()
        with self.assertRaises(RuntimeError):
            self.kv.swap_out([second])
        with self.assertRaises(RuntimeError):
            self.kv.swap_in(first)
        self.assertTrue(self.kv.facts(first).swapped_out)
        self.assertFalse(self.kv.facts(second).swapped_out)
        self.assertFalse(self.kv.valid())


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
            with self.assertRaisesRegex(ValueError, "slots is empty; must be granted"):
                client.paged_kv(space, 4)


if __name__ == "__main__":
    unittest.main()
