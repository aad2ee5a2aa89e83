import unittest

import example_model
from example_model import needs_model


@needs_model
class ModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.decoder, cls.tokenizer = example_model.loaded()

    def answer(self, document, question):
        from smollm.answering import Answerer, Ask

        return Answerer(self.decoder, self.tokenizer).answer(Ask(document, question, 16))

    def test_answer_comes_from_the_document(self):
        answer = self.answer("In the harbour of Lisbon there is a red lighthouse. Its keeper is "
                             "called Amelia.", "What is the name of the keeper?")
        self.assertIn("Amelia", answer.text)

    def test_attention_agrees_with_the_formula(self):
        import numpy as np
        from smollm.attention import Attention
        from smollm.lanes import Lanes

        shape, kv = self.decoder.shape, self.decoder.kv
        random = np.random.default_rng(7)
        tokens, rows = 300, 20  # The keys fill two tiles; the queries are the last rows of the sequence.
        keys, values = random.standard_normal((2, tokens, 3, 64), np.float32)
        query = random.standard_normal((rows, 9, 64), np.float32)
        table = self.decoder.open_sequence(tokens)
        self.addCleanup(kv.free, table)
        kv.store(0, table, 0, np.stack([keys, values]))
        out = np.empty((rows, shape.heads * shape.head_dim), np.float32)
        Attention(shape, kv.tokens_per_block, Lanes()).run(
            kv, 0, table, query, tokens - rows, out)
        for row in range(rows):
            seen = tokens - rows + row + 1
            for head in range(shape.heads):
                scores = keys[:seen, head // 3].astype(np.float64) @ query[row, head]
                chances = np.exp2(scores - scores.max())
                expected = chances @ values[:seen, head // 3] / chances.sum()
                got = out[row, head * 64:head * 64 + 64]
                np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)

    def test_scattered_slots_give_the_same_bits(self):
        import numpy as np

        tokens, kv = self.tokenizer.encode("The quick brown fox jumps."), self.decoder.kv
        table = self.decoder.open_sequence(len(tokens))
        expected = self.decoder.prefill(table, tokens)
        kv.free(table)
        holes = [kv.allocate(1) for _ in range(6)]
        for hole in holes[::2]:
            kv.free(hole)
        table = self.decoder.open_sequence(len(tokens))
        self.assertFalse(table.consecutive)
        got = self.decoder.prefill(table, tokens)
        for freed in (table, *holes[1::2]):
            kv.free(freed)
        self.assertTrue(np.array_equal(got.view(np.uint32), expected.view(np.uint32)))

    def test_decode_continues_as_prefill_would(self):
        import numpy as np

        tokens = self.tokenizer.encode("One, two, three, four, five, six, seven, eight, nine")
        table, whole = (self.decoder.open_sequence(len(tokens)) for _ in range(2))
        self.addCleanup(self.decoder.kv.free, table)
        self.addCleanup(self.decoder.kv.free, whole)
        self.decoder.prefill(table, tokens[:-1])
        stepped = self.decoder.decode(table, tokens[-1])
        np.testing.assert_allclose(stepped, self.decoder.prefill(whole, tokens), atol=1e-2)

    def test_prompt_longer_than_the_pool_is_refused(self):
        from smollm.model import PromptTooLong

        with self.assertRaises(PromptTooLong):
            self.decoder.open_sequence(self.decoder.context_tokens + 1)


if __name__ == "__main__":
    unittest.main()
