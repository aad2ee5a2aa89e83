"""A reused prefix changes the time an answer takes, and nothing else."""

import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

import example_model
import fake_kvtier
from example_model import needs_model

QUESTION = "What is this text?"
PREFIX_TOKENS = 232  # The prefix is no whole number of blocks: 14 blocks and 8 tokens, then comes the question.
MAX_TOKENS = 6


@needs_model
class ReuseTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from smollm import block_keys
        from smollm.answering import Answerer, Ask

        cls.decoder, cls.tokenizer = example_model.loaded()
        cls.kv = cls.decoder.kv
        cls.ask = Ask(example_model.document(), QUESTION, MAX_TOKENS, prefix_tokens=PREFIX_TOKENS)
        cls.tokens = cls.tokenizer.chat_prompt(cls.ask.document, QUESTION, PREFIX_TOKENS).tokens
        cls.keys = block_keys.chain(cls.tokens, cls.kv.tokens_per_block)
        cls.filled = fake_kvtier.Agent()
        cls.recomputed = Answerer(cls.decoder, cls.tokenizer, cls.store(cls.filled)).answer(cls.ask)

    @classmethod
    def store(cls, agent):
        from smollm.prefix_store import PrefixStore, space_fields

        client = fake_kvtier.Client(agent)
        spec = fake_kvtier.SpaceSpec(**space_fields(cls.decoder.weights))
        return PrefixStore(client, client.register_space(spec), cls.kv)

    def agent_with(self, blocks):
        """Returns an agent that holds the first `blocks` blocks of the prompt, with the bytes of the filled agent."""
        held = {k: run for k, run in self.filled.blocks.items() if k[1] in self.keys[:blocks]}
        return fake_kvtier.Agent(held)

    def answer(self, agent, **changes):
        from smollm.answering import Answerer

        answerer = Answerer(self.decoder, self.tokenizer, self.store(agent))
        return answerer.answer(replace(self.ask, **changes))

    def assert_same_bits(self, agent):
        """Asserts that `agent` holds every block of the prompt, each with the same bits as the recomputed one."""
        self.assertEqual(len(agent.blocks), len(self.keys))
        for key, run in agent.blocks.items():
            self.assertEqual(run, self.filled.blocks[key])

    def test_recompute_puts_every_full_block(self):
        self.assertEqual(self.recomputed.tokens_reused, 0)
        self.assertEqual(self.recomputed.blocks_committed, len(self.keys))

    def test_full_hit_gives_the_same_tokens(self):
        answer = self.answer(self.agent_with(len(self.keys)))
        self.assertEqual(answer.blocks_reused, (len(self.tokens) - 1) // 16)
        self.assertEqual(answer.bytes_moved, answer.blocks_reused * 737280)
        self.assertEqual(answer.output_tokens, self.recomputed.output_tokens)

    def test_partial_hit_computes_the_rest_to_the_same_bits(self):
        for blocks in (1, 3, 8, 13, 14):
            with self.subTest(blocks=blocks):
                agent = self.agent_with(blocks)
                answer = self.answer(agent)
                self.assertEqual(answer.blocks_reused, blocks)
                self.assertEqual(answer.output_tokens, self.recomputed.output_tokens)
                self.assert_same_bits(agent)

    def test_fixed_rows_give_the_same_bits_too(self):
        # Selects the plan for a BLAS whose rows are not stable. Its bits must only agree with each other, not with the
        # other plan's.
        self.addCleanup(setattr, self.decoder, "stable_rows", self.decoder.stable_rows)
        self.decoder.stable_rows = False
        whole = fake_kvtier.Agent()
        first = self.answer(whole, max_tokens=1)
        part = fake_kvtier.Agent({k: run for k, run in whole.blocks.items()
                                  if k[1] in self.keys[:6]})
        second = self.answer(part, max_tokens=1)
        self.assertEqual(second.blocks_reused, 6)
        self.assertEqual(first.output_tokens, second.output_tokens)
        self.assertEqual(part.blocks, whole.blocks)

    def test_blocks_not_ready_in_time_are_recomputed(self):
        agent = self.agent_with(len(self.keys))
        agent.ready_blocks = 10
        answer = self.answer(agent)
        self.assertEqual((answer.match["blocks"], answer.blocks_reused), (15, 10))
        self.assertEqual(answer.output_tokens, self.recomputed.output_tokens)

    def test_lost_lease_recomputes_everything(self):
        agent = self.agent_with(len(self.keys))
        agent.leases_last = False
        answer = self.answer(agent, max_tokens=2)
        self.assertTrue(answer.lease_lost)
        self.assertEqual(answer.tokens_reused, 0)
        self.assertEqual(answer.output_tokens, self.recomputed.output_tokens[:2])

    def test_absent_agent_is_a_miss(self):
        answer = self.answer(fake_kvtier.Agent(present=False), max_tokens=1)
        self.assertFalse(answer.connected)
        self.assertEqual((answer.tokens_reused, answer.blocks_committed), (0, 0))

    def test_full_agent_keeps_what_fits(self):
        agent = self.agent_with(14)
        agent.capacity_blocks = 14
        self.assertEqual(self.answer(agent, max_tokens=1).blocks_committed, 0)

    def test_use_cache_false_leaves_kvtier_alone(self):
        agent = self.agent_with(14)
        answer = self.answer(agent, use_cache=False, max_tokens=1, prefix_tokens=60)
        self.assertEqual((answer.tokens_reused, len(agent.blocks)), (0, 14))

    def test_another_question_reuses_the_document(self):
        answer = self.answer(self.agent_with(len(self.keys)), question="Who?", max_tokens=1)
        self.assertEqual(answer.blocks_reused, PREFIX_TOKENS // 16)

    def test_slots_return_after_every_answer(self):
        self.assertEqual(self.kv.free_slots * 16, self.decoder.context_tokens)

    def test_digests_pass_right_blocks_and_catch_a_flipped_bit(self):
        from smollm.answering import Answerer
        from smollm.block_digests import BlockDigests

        written = BlockDigests()
        agent = fake_kvtier.Agent()
        Answerer(self.decoder, self.tokenizer, self.store(agent), written).answer(
            replace(self.ask, max_tokens=1))
        (sixth,) = (k for k in agent.blocks if k[1] == self.keys[5])
        damaged = bytearray(agent.blocks[sixth])
        damaged[1000] ^= 1
        agent.blocks[sixth] = bytes(damaged)
        with tempfile.TemporaryDirectory() as folder:
            written.save(Path(folder) / "digests.json")
            known = BlockDigests()
            known.load(Path(folder) / "digests.json")
        verifier = Answerer(self.decoder, self.tokenizer, self.store(agent), known)
        answer = verifier.answer(replace(self.ask, max_tokens=1))
        self.assertEqual((answer.blocks_verified, answer.wrong_blocks, answer.blocks_unknown),
                         (answer.blocks_reused - 1, 1, 0))


if __name__ == "__main__":
    unittest.main()
