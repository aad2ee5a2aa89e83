"""Codecs on the KV of a real model, and the example's worker with blocks that are encoded."""

import contextlib
import importlib.util
import io
import sys
import unittest
from pathlib import Path
from unittest import mock

import example_model
import fake_kvtier
from example_model import needs_model, needs_numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

if importlib.util.find_spec("kvtier") is None:
    print("tests/examples: NOT TESTED, codecs: the package kvtier is not on the path",
          file=sys.stderr)
needs_kvtier = unittest.skipIf(importlib.util.find_spec("kvtier") is None,
                               "NOT TESTED: the package kvtier is not on the path")


@needs_numpy
class Bf16Test(unittest.TestCase):
    def test_values_are_rounded_to_the_nearest_ties_to_even(self):
        import numpy as np
        from smollm import bf16

        # 1.0, halfway to the next (even below), just above halfway, halfway (even above), the rest.
        given = np.array([0x3F800000, 0x3F808000, 0x3F808001, 0x3F818000, 0x7F7FFFFF, 0x7F800000,
                          0xFF800000, 0x80000000, 0x7F800001, 0xFFFFFFFF], np.uint32)
        expected = [0x3F80, 0x3F80, 0x3F81, 0x3F82, 0x7F80, 0x7F80, 0xFF80, 0x8000, 0x7FC0, 0x7FC0]
        self.assertEqual(bf16.from_float32(given.view(np.float32)).tolist(), expected)

    def test_every_finite_bf16_survives_the_round_trip(self):
        import numpy as np
        from smollm import bf16

        every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
        finite = every[every & 0x7F80 != 0x7F80]
        self.assertTrue(np.array_equal(bf16.from_float32(bf16.to_float32(finite)), finite))


@needs_model
@needs_kvtier
class CapturedKvTest(unittest.TestCase):
    """The quick form of scripts/bench codecs: it measures over fifty prompts what this bounds."""

    @classmethod
    def setUpClass(cls):
        import bench_codecs
        from captured_kv import Model
        from codec_prompts import PROMPTS

        cls.bench = bench_codecs
        cls.model = Model(*example_model.loaded())
        cls.captured = bench_codecs.capture(cls.model, PROMPTS[:2], max_tokens=4)
        cls.outcomes = {name: bench_codecs.run_variant(cls.model, name, cls.captured)[0]
                        for name in bench_codecs.VARIANTS}

    def test_codecs_keep_their_bounds_on_keys_on_values_and_in_attention(self):
        self.assertEqual(self.bench.beyond_bounds(self.outcomes.values()), [])
        self.assertEqual(self.bench.conclude(self.outcomes.values()), 0)

    def test_what_is_beyond_a_bound_ends_the_bench_with_1(self):
        bounds = {**self.bench.BOUNDS, "int8": 0.0064, "packed_exponents": -1.0}
        attention = {**self.bench.ATTENTION_BOUNDS, "int8": 1.0}
        said = io.StringIO()
        with mock.patch.multiple(self.bench, BOUNDS=bounds, ATTENTION_BOUNDS=attention):
            with contextlib.redirect_stderr(said):
                self.assertEqual(self.bench.conclude(self.outcomes.values()), 1)
        named = [line.split(" is ")[0] for line in said.getvalue().splitlines()]
        error = "relative L2 error of"
        self.assertEqual(named, [f"bench_codecs: int8: {error} V",
                                 f"bench_codecs: int8: {error} attention",
                                 f"bench_codecs: packed_exponents: {error} K",
                                 f"bench_codecs: packed_exponents: {error} V",
                                 f"bench_codecs: packed_exponents: {error} K and V"])

    def test_lossy_codecs_do_lose_something(self):
        # A codec that is not applied must not pass for a good one.
        for name in ("fp8_e4m3", "int8"):
            self.assertGreater(self.outcomes[name].errors.relative_l2(self.bench.KEYS), 1e-3)

    def test_packed_exponents_are_bf16_to_the_bit(self):
        packed = self.outcomes["packed_exponents"]
        for axis in (self.bench.KEYS, self.bench.VALUES):
            self.assertEqual(packed.errors.largest(axis), 0)
        self.assertEqual(packed.replays, self.outcomes["bf16"].replays)

    def test_raw_stored_in_an_encoding_is_bf16_to_the_bit(self):
        import kvtier
        import numpy as np
        from captured_kv import Codec
        from dataclasses import replace
        from smollm import bf16

        block = bf16.from_float32(self.captured[0].blocks[0])
        block.flat[5] = 0x7FC0  # A NaN makes a codec store the block raw.
        spec = Codec("int8", self.model.block_shape).spec
        codec = kvtier.BlockCodec(replace(spec, block_bytes=spec.max_encoded_bytes()))
        slot, back = np.empty(codec.block_bytes, np.uint8), np.empty_like(block)
        self.assertEqual(codec.encode(block, slot), "raw")
        self.assertTrue(codec.decode(slot, back))
        self.assertTrue(np.array_equal(back, block))

    def test_every_block_of_a_real_model_can_be_encoded(self):
        self.assertEqual({name: outcome.not_encoded for name, outcome in self.outcomes.items()},
                         dict.fromkeys(self.bench.VARIANTS, 0))

    def test_the_same_kv_gives_the_same_answer(self):
        for replay in self.outcomes["float32"].replays:
            self.assertTrue(replay.equal)
            self.assertEqual(replay.attention_error, 0)


@needs_model
@needs_kvtier
class EncodedReuseTest(unittest.TestCase):
    """One question twice through an agent whose space has a codec."""

    def store(self, codec, agent):
        import kvtier
        from smollm.prefix_store import PrefixStore, space_fields
        from smollm.stored_form import EncodedForm

        decoder, _ = example_model.loaded()
        client = fake_kvtier.Client(agent)
        spec = kvtier.SpaceSpec(**space_fields(decoder.weights, codec))
        form = EncodedForm(decoder.kv, kvtier.BlockCodec(spec))
        return PrefixStore(client, client.register_space(spec), decoder.kv, form)

    def answers(self, codec, agent, damage=None):
        """Returns the answers of the worker that fills the agent, and of the one that reuses."""
        from smollm.answering import Answerer, Ask

        decoder, tokenizer = example_model.loaded()
        ask = Ask(example_model.document(), "What is this text?", 6, prefix_tokens=100)
        first = Answerer(decoder, tokenizer, self.store(codec, agent)).answer(ask)
        if damage:
            damage(agent)
        return first, Answerer(decoder, tokenizer, self.store(codec, agent)).answer(ask)

    def test_blocks_come_back_from_slots_of_the_encoded_size(self):
        agent = fake_kvtier.Agent()
        first, second = self.answers("int8", agent)
        self.assertEqual((first.blocks_committed, second.blocks_reused), (7, 7))
        self.assertEqual({len(run) for run in agent.blocks.values()}, {198784})
        self.assertEqual(second.bytes_moved, 7 * 198784)
        self.assertTrue(second.output_tokens)

    def test_every_codec_is_reused(self):
        for codec in ("packed_exponents", "fp8_e4m3"):
            with self.subTest(codec=codec):
                _, second = self.answers(codec, fake_kvtier.Agent())
                self.assertEqual(second.blocks_reused, 7)

    def test_what_is_no_encoding_is_computed_again(self):
        def damage(agent):
            third = list(agent.blocks)[2]
            agent.blocks[third] = bytes(len(agent.blocks[third]))

        _, second = self.answers("int8", fake_kvtier.Agent(), damage)
        self.assertEqual(second.blocks_reused, 2)

    def test_a_block_with_a_nan_is_not_put(self):
        decoder, _ = example_model.loaded()
        agent = fake_kvtier.Agent()
        store = self.store("int8", agent)
        table = decoder.open_sequence(32)
        self.addCleanup(decoder.kv.free, table)
        self.addCleanup(decoder.kv.import_block, table, 0, bytes(decoder.kv.block_bytes))
        nan = bytes.fromhex("0000c07f") + bytes(decoder.kv.block_bytes - 4)
        decoder.kv.import_block(table, 0, nan)
        decoder.kv.import_block(table, 1, bytes(decoder.kv.block_bytes))
        self.assertEqual(store.put(table, [b"0" * 32, b"1" * 32], 0), 1)
        self.assertEqual([key for _, key in agent.blocks], [b"1" * 32])


if __name__ == "__main__":
    unittest.main()
