"""Prefixes that a node keeps for a time to live, by Python, on a real agent."""

import unittest

from example_agent import Agent, needs_agent

BLOCK_BYTES = 8192
KEYS = [bytes([number]) * 16 for number in range(4)]


@needs_agent
class KeptTest(unittest.TestCase):
    def setUp(self):
        import kvtier

        self.kvtier = kvtier
        self.agent = Agent()
        self.addCleanup(self.agent.kill)
        self.client = self.agent.client()
        self.addCleanup(self.client.close)
        self.space = self.client.register_space(kvtier.SpaceSpec(
            model="kept", weights_digest="none", dtype="bytes", layout="bytes", layers=1, kv_heads=1,
            head_dim=1, tokens_per_block=16, block_bytes=BLOCK_BYTES))
        put = self.client.reserve(self.space, KEYS[:3])
        for index in range(3):
            put.copy_in(index, bytes([index + 1]) * BLOCK_BYTES)
        self.assertEqual(put.commit(), 3)
        self.run_of_keys = [kvtier.Sequence(self.space, KEYS)]

    def test_what_is_kept_is_listed_renewed_and_ended(self):
        kept = self.client.keep(self.run_of_keys, ttl_s=300)
        self.assertEqual((kept.blocks, kept.limit), ([[0, 1, 2]], None))
        self.assertTrue(250 < kept.ttl_s <= 300)
        again = self.client.keep(self.run_of_keys, ttl_s=3600)
        self.assertEqual(again.id, kept.id)
        self.assertGreater(again.ttl_s, 3000)
        listed = self.client.list_kept()
        [prefix] = listed.prefixes
        self.assertEqual((prefix.id, prefix.blocks, prefix.bytes), (kept.id, 3, 3 * BLOCK_BYTES))
        self.assertEqual(listed.used, self.kvtier.KeptUse(1, 3, 3 * BLOCK_BYTES))
        self.assertGreater(listed.quota.bytes, listed.used.bytes)
        self.assertEqual(self.client.end_kept(kept.id + 1), 0)
        self.assertEqual(self.client.end_kept(0), 1)
        self.assertEqual(self.client.list_kept().prefixes, [])

    def test_a_prefix_is_dropped_with_what_descends_from_it(self):
        self.client.keep(self.run_of_keys)
        head = [self.kvtier.Sequence(self.space, KEYS[1:2])]
        self.assertEqual(self.client.drop_prefix(head), self.kvtier.Dropped(2, 0, False))
        self.assertEqual(self.client.match(self.space, KEYS).blocks, 1)
        [prefix] = self.client.list_kept().prefixes
        self.assertEqual(prefix.blocks, 1)

    def test_without_a_block_nothing_is_kept(self):
        kept = self.client.keep([self.kvtier.Sequence(self.space, KEYS[3:])])
        self.assertEqual((kept.id, kept.blocks, kept.limit, kept.ttl_s), (None, [[]], None, 0))

    def test_what_cannot_be_is_named(self):
        for options, what in (({"ttl_s": 0.5}, "ttl is 500ms; must be 1s to 1h"),
                              ({"ttl_s": 3601.0}, "ttl is 1h1s; must be 1s to 1h"),
                              ({"ttl_s": -1.0}, "ttl_s is -1"),
                              ({"timeout_s": -1.0}, "timeout_s is -1")):
            with self.assertRaisesRegex(ValueError, what):
                self.client.keep(self.run_of_keys, **options)

    def test_without_an_agent_nothing_is_known(self):
        self.agent._process.kill()
        self.agent._process.wait()
        self.assertIsNone(self.client.keep(self.run_of_keys))
        self.assertIsNone(self.client.list_kept())
        self.assertIsNone(self.client.end_kept(0))
        self.assertIsNone(self.client.drop_prefix(self.run_of_keys))


if __name__ == "__main__":
    unittest.main()
