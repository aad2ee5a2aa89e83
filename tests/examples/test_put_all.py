"""A run of more blocks than memory has slots, put in one call, on a real agent without a disk."""

import unittest

from example_agent import Agent, needs_agent

BLOCK_BYTES = 1 << 20
KEYS = [number.to_bytes(16, "little") for number in range(100)]


@needs_agent
class PutAllTest(unittest.TestCase):
    def setUp(self):
        import kvtier

        self.kvtier = kvtier
        self.agent = Agent("--slab_bytes=4MiB", "--host_bytes=64MiB")
        self.addCleanup(lambda: self.agent and self.agent.kill())
        self.client = self.agent.client()
        self.addCleanup(self.client.close)
        self.space = self.client.register_space(kvtier.SpaceSpec(
            model="put_all", weights_digest="none", dtype="bytes", layout="bytes", layers=1,
            kv_heads=1, head_dim=1, tokens_per_block=16, block_bytes=BLOCK_BYTES))

    def test_a_space_that_is_unregistered_is_no_space_any_more(self):
        spec = self.kvtier.SpaceSpec(**{**vars(self.space.spec), "lora": "other"})
        other = self.client.register_space(spec)
        self.assertEqual(self.client.match(other, KEYS).blocks, 0)
        self.client.unregister_space(other)
        with self.assertRaisesRegex(ValueError, "must be one that this client registered"):
            self.client.match(other, KEYS)
        with self.assertRaisesRegex(ValueError, "must be one that this client registered"):
            self.client.unregister_space(other)

    def test_its_head_is_stored_as_far_as_a_node_without_a_disk_has_room(self):
        limits = self.client.limits(self.space)
        self.assertEqual((limits.usable, limits.why_not, limits.slot_bytes, limits.host_slots),
                         (True, "", BLOCK_BYTES, 64))
        blocks = [[bytes([number]) * 1000, bytes([number]) * (BLOCK_BYTES - 1000)]
                  for number in range(len(KEYS))]
        counts = self.client.put_all(self.space, KEYS, blocks)
        self.assertEqual(counts, self.kvtier.PutCounts(stored=64, present=0, missed=36))
        last = [self.kvtier.Sequence(self.space, KEYS[63:64], is_set=True)]
        [hit] = self.client.onboard_sequences(last)
        with hit:
            copy = bytearray(BLOCK_BYTES)
            self.assertTrue(hit.copy_out(0, copy))
            self.assertEqual(bytes(copy), bytes([63]) * BLOCK_BYTES)
        self.assertEqual(self.client.match(self.space, KEYS).local_blocks, 64)
        self.assertEqual(self.client.put_all(self.space, KEYS[:1], blocks[:1]).present, 1)

    def test_a_space_of_any_length_takes_objects_of_all_sizes(self):
        space = self.client.register_space(self.kvtier.SpaceSpec(
            **{**vars(self.space.spec), "any_length": True}))
        keys = KEYS[:40]
        lengths = [1 + number * 27919 % BLOCK_BYTES for number in range(len(keys) - 1)]
        lengths.append(BLOCK_BYTES)
        blocks = [[bytes([number]) * (length // 2), bytes([number]) * (length - length // 2)]
                  for number, length in enumerate(lengths)]
        counts = self.client.put_all(space, keys, blocks)
        self.assertEqual(counts, self.kvtier.PutCounts(stored=40, present=0, missed=0))
        with self.client.onboard(space, keys, timeout_s=10) as hit:
            self.assertEqual([bytes(block) for block in hit],
                             [bytes([number]) * length for number, length in enumerate(lengths)])
        # The key alone names a block, so a put of the same key with another length finds it present.
        with self.client.reserve(space, KEYS[:1], lengths=[5]) as put:
            self.assertEqual(put.states, ["present"])
        for length in (0, BLOCK_BYTES + 1):
            with self.assertRaisesRegex(ValueError, f"block 1: pieces have {length} bytes; must have 1"):
                self.client.put_all(space, [b"new key 1", b"new key 2"], [b"x", bytes(length)])

    def test_what_is_deleted_is_a_miss(self):
        self.assertEqual(self.client.put_all(self.space, KEYS[:3], [bytes(BLOCK_BYTES)] * 3).stored,
                         3)
        run = [self.kvtier.Sequence(self.space, KEYS[:3])]
        with self.client.onboard(self.space, KEYS[:1]):
            self.assertEqual(self.client.delete(run), (2, 1))
        self.assertEqual(self.client.match_sequences(run)[0].blocks, 1)

    def test_what_cannot_be_is_named(self):
        with self.assertRaisesRegex(ValueError, "blocks has 1 entries for 2 keys"):
            self.client.put_all(self.space, KEYS[:2], [b""])
        with self.assertRaisesRegex(ValueError, r"blocks\[0\] must be a contiguous buffer"):
            self.client.put_all(self.space, KEYS[:1], [3])

    def test_without_an_agent_all_is_missed(self):
        self.agent.kill()
        self.agent = None
        while self.client.connected:
            pass
        counts = self.client.put_all(self.space, KEYS[:2], [bytes(BLOCK_BYTES)] * 2)
        self.assertEqual((counts.stored, counts.missed), (0, 2))
        self.assertRegex(self.client.limits(self.space).why_not, "no agent")


if __name__ == "__main__":
    unittest.main()
