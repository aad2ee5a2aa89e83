"""copy_in() and copy_out() of the kvtier package against a FakeAgent, as test_python_client.py."""

import array
import unittest

from test_python_client import BLOCK_BYTES, WithAgent, eventually, make_keys


class Copies(WithAgent):
    BLOCK = bytes((i * 7 + i // 256) % 256 for i in range(BLOCK_BYTES))

    def reserve(self):
        return self.client.reserve(self.space, make_keys(0, 2))

    def test_a_buffer_goes_in_and_comes_back(self):
        sources = (self.BLOCK, bytearray(self.BLOCK), memoryview(self.BLOCK),
                   array.array("H", self.BLOCK), [self.BLOCK[:1], b"", self.BLOCK[1:]],
                   (memoryview(self.BLOCK)[:4096], bytearray(self.BLOCK[4096:])))
        for i, source in enumerate(sources):
            keys = make_keys(2 * i, 2)
            with self.client.reserve(self.space, keys) as put:
                put.copy_in(1, source)
                self.assertEqual(put.commit(), 1)  # The slot of the other block was not taken.
            with self.client.onboard(self.space, keys[1:]) as hit:
                self.assertEqual(bytes(hit[0]), self.BLOCK)
                copy = bytearray(BLOCK_BYTES)
                self.assertTrue(hit.copy_out(0, copy))
                self.assertEqual(copy, self.BLOCK)
                parts = [bytearray(3), array.array("H", bytes(4000)), bytearray(BLOCK_BYTES - 4003)]
                self.assertTrue(hit.copy_out(0, parts))
                self.assertEqual(b"".join(map(bytes, parts)), self.BLOCK)
                self.assertTrue(hit.prove(0))

    def test_a_copy_ends_the_view_and_a_later_view_is_a_new_one(self):
        with self.reserve() as put:
            before = put[0]
            put.copy_in(0, self.BLOCK)
            with self.assertRaises(ValueError):
                bytes(before)
            self.assertEqual(bytes(put[0]), self.BLOCK)

    def test_mistakes_name_what_cannot_be(self):
        with self.reserve() as put:
            for source, text in ((self.BLOCK[1:], "block 0: pieces have 4999 bytes"), (7, "source"),
                                 ([self.BLOCK, 7], r"source\[1\]"),
                                 (memoryview(self.BLOCK * 2)[::2], "source must be a contiguous")):
                with self.assertRaisesRegex(ValueError, text):
                    put.copy_in(0, source)
            with self.assertRaises(IndexError):
                put.copy_in(2, self.BLOCK)
            put.copy_in(1, self.BLOCK)
            put.give_back(0)
            with self.assertRaisesRegex(ValueError, "block 0 is no_room; must be reserved"):
                put.copy_in(0, self.BLOCK)
            self.assertEqual(put.commit(), 1)
            with self.assertRaisesRegex(ValueError, "given up"):
                put.copy_in(1, self.BLOCK)
        with self.client.onboard(self.space, make_keys(1, 1)) as hit:
            for to, text in ((bytearray(7), "block 0: pieces have 7 bytes"), (self.BLOCK, "writable"),
                             ([bytearray(1), self.BLOCK], r"to\[1\]"), (None, "to must be")):
                with self.assertRaisesRegex(ValueError, text):
                    hit.copy_out(0, to)
            with self.assertRaises(IndexError):
                hit.copy_out(1, bytearray(BLOCK_BYTES))
            with self.assertRaises(IndexError):
                hit.prove(1)

    def test_a_killed_agents_blocks_are_not_proven(self):
        with self.reserve() as put:
            put.copy_in(0, self.BLOCK)
            put.commit()
        with self.client.onboard(self.space, make_keys(0, 1)) as hit:
            self.agent("kill")
            self.assertTrue(eventually(lambda: not hit.copy_out(0, bytearray(BLOCK_BYTES))))
            self.assertFalse(hit.prove(0))
            self.assertFalse(hit.valid())


if __name__ == "__main__":
    unittest.main()
