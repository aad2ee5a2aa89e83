"""Onboards in parts, on a real agent with a disk: what is in host memory comes first."""

import tempfile
import unittest

from example_agent import Agent, needs_agent

BLOCK_BYTES = 65536
HOST_BLOCKS = 64
WARM = 3  # Leading keys whose blocks are in host memory; all are on disk.


def keys(first, count):
    return [number.to_bytes(16, "big") for number in range(first, first + count)]


@needs_agent
class PartsTest(unittest.TestCase):
    def setUp(self):
        import kvtier

        self.kvtier = kvtier
        disk = tempfile.TemporaryDirectory()
        self.addCleanup(disk.cleanup)
        self.agent = Agent(f"--host_bytes={HOST_BLOCKS * BLOCK_BYTES}", "--slab_bytes=1MiB",
                           f"--disk_dir={disk.name}", "--disk_bytes=64MiB", "--segment_bytes=4MiB")
        self.addCleanup(self.agent.kill)
        self.client = self.agent.client()
        self.addCleanup(self.client.close)
        self.space = self.client.register_space(kvtier.SpaceSpec(
            model="parts", weights_digest="none", dtype="bytes", layout="bytes", layers=1,
            kv_heads=1, head_dim=1, tokens_per_block=16, block_bytes=BLOCK_BYTES))
        self.keys = keys(1, 8)
        self.put(self.keys)
        for first in range(0, 2 * HOST_BLOCKS, 16):  # These blocks take the place of the others in host memory.
            self.put(keys(1000 + first, 16))
        with self.client.onboard(self.space, self.keys[:WARM], timeout_s=30) as hit:
            self.assertEqual(hit.sources, ["disk"] * WARM)

    def put(self, stored):
        """Stores blocks whose bytes are all their index plus one, and waits until they are on disk."""
        put = self.client.reserve(self.space, stored, timeout_s=30)
        for index in range(len(stored)):
            put.copy_in(index, bytes([index + 1]) * BLOCK_BYTES)
        self.assertEqual(put.commit(durable=True, timeout_s=30), len(stored))

    def test_a_run_comes_in_order_and_every_copy_is_proven(self):
        call = self.client.submit_onboard_parts(
            [self.kvtier.Sequence(self.space, self.keys + keys(900, 1))], timeout_s=30)
        sizes, copies, sources = [], [], []
        for part in call:
            with part.hit as hit:
                sizes.append(len(hit))
                sources += hit.sources
                for i in range(len(hit)):
                    self.assertEqual(hit.index(i), len(copies))
                    copy = bytearray(BLOCK_BYTES)
                    self.assertTrue(hit.copy_out(i, copy))
                    copies.append(copy[-1])
        self.assertEqual(sizes[0], WARM)
        self.assertGreater(len(sizes), 1)
        self.assertEqual(sources, ["host"] * WARM + ["disk"] * 5)
        self.assertEqual(copies, list(range(1, 9)))
        self.assertEqual(call.result(0), [self.kvtier.Arrived(8, "absent")])

    def test_a_set_comes_as_it_is_ready(self):
        backwards = list(reversed(self.keys))
        parts = []
        call = self.client.submit_onboard_parts(
            [self.kvtier.Sequence(self.space, backwards, is_set=True)], timeout_s=30,
            on_part=parts.append)
        self.assertEqual(call.result(60), [self.kvtier.Arrived(8, None)])
        self.assertEqual(parts[0].hit.sources, ["host"] * WARM)
        places = [part.hit.index(i) for part in parts for i in range(len(part.hit))]
        self.assertEqual(places[:WARM], [5, 6, 7])
        self.assertEqual(sorted(places), list(range(8)))


if __name__ == "__main__":
    unittest.main()
