import unittest

import example_model  # noqa: F401  (puts examples/ on the path)
from smollm import block_keys


class BlockKeysTest(unittest.TestCase):
    def test_keys_are_the_known_hashes(self):
        # printf 'kvtier/examples/smollm/engine-key/v1' and u32le 0..15, through sha256sum; the
        # second key is the first one's 32 bytes and u32le 16..31.
        keys = block_keys.chain(list(range(32)), 16)
        self.assertEqual([key.hex() for key in keys], [
            "855af53a849ab318ca0c2ff850ef7155ac37f62c56673492b33e5f9b0ac79c4d",
            "743a8d1d3be4a405f8ea86b0d1d36ab1f99841976213a5468675f0d4804b82f1"])

    def test_partial_block_has_no_key(self):
        for tokens, blocks in ((0, 0), (15, 0), (16, 1), (17, 1), (31, 1), (32, 2)):
            self.assertEqual(len(block_keys.chain([7] * tokens, 16)), blocks)

    def test_key_names_the_whole_prefix(self):
        one = block_keys.chain([1] * 16 + [5] * 32, 16)
        other = block_keys.chain([2] * 16 + [5] * 32, 16)
        self.assertFalse(set(one) & set(other))
        self.assertEqual(len(set(one)), 3)

    def test_longer_prompt_keeps_the_keys_of_its_prefix(self):
        prompt = list(range(100))
        self.assertEqual(block_keys.chain(prompt, 16)[:3], block_keys.chain(prompt[:48], 16))


if __name__ == "__main__":
    unittest.main()
