"""kvtier.Lanes over torch tensors on a GPU, beside the streams of an engine. Skips where torch has no GPU."""

import time
import unittest

import kvtier
import node

try:
    import torch
    HAS_GPU = torch.cuda.is_available()
except ImportError:
    HAS_GPU = False

LAYERS, HEADS, TOKENS, DIM, BLOCKS = 8, 8, 16, 128, 64
RUN_BYTES = 2 * TOKENS * HEADS * DIM
HALF = BLOCKS // 2
LONG_S = 30.0


@unittest.skipUnless(HAS_GPU, "NOT TESTED: torch has no GPU here")
class GpuLanesTest(unittest.TestCase):
    def setUp(self):
        self.client = self.enterContext(node.Node("--disk_dir=")).client()
        # A tensor for K and V of each layer, as vLLM has them: [2, blocks, tokens, heads, dim].
        self.tensors = [torch.zeros(2, BLOCKS, TOKENS, HEADS, DIM, dtype=torch.bfloat16, device="cuda")
                        for _ in range(LAYERS)]

    def open(self, codec):
        space = self.client.register_space(kvtier.SpaceSpec(
            model="gpu", weights_digest="00" * 16, dtype="bfloat16", layout="layer,kv,token,head,dim",
            layers=LAYERS, kv_heads=HEADS, head_dim=DIM, tokens_per_block=TOKENS, codec=codec,
            block_bytes=2 * LAYERS * RUN_BYTES if codec == "raw" else None))
        memory = kvtier.KvMemory(
            tensors=[(t.data_ptr(), t.nbytes) for t in self.tensors], layers=LAYERS, axes="apart",
            order="token_head", blocks=BLOCKS, run_bytes=RUN_BYTES, block_stride=RUN_BYTES,
            bases=[(layer, axis * BLOCKS * RUN_BYTES) for layer in range(LAYERS) for axis in range(2)])
        lanes = kvtier.Lanes(self.client, space, memory, device="cuda:0")
        self.addCleanup(lanes.close)
        return lanes

    def store(self, lanes, keys, stream):
        """Computes half of the blocks on `stream`, behind work that takes a while, and stores them."""
        with torch.cuda.stream(stream):
            busy = torch.randn(4096, 4096, device="cuda")
            for _ in range(20):
                busy = busy @ busy / 64
            for tensor in self.tensors:
                tensor[:, :HALF].normal_()
        job = lanes.offload(keys, range(HALF), after_stream=stream.cuda_stream)
        self.assertTrue(job.wait(LONG_S))
        self.assertIsNone(job.error)
        self.assertEqual(job.results, [True] * HALF)

    def test_blocks_come_back_behind_the_streams_of_the_engine(self):
        lanes, writer, reader = self.open("raw"), torch.cuda.Stream(), torch.cuda.Stream()
        keys = [i.to_bytes(16, "big") for i in range(HALF)]
        self.store(lanes, keys, writer)
        arrived = torch.cuda.Event()
        arrived.record()  # torch makes an event when it is first recorded.
        job = lanes.onboard(keys, range(HALF, BLOCKS), LONG_S, after_stream=writer.cuda_stream,
                            record_event=arrived.cuda_event)
        while not job.recorded and not job.done:
            time.sleep(0)
        reader.wait_event(arrived)
        with torch.cuda.stream(reader):
            same = [torch.equal(t[:, :HALF], t[:, HALF:]) for t in self.tensors]
        self.assertTrue(job.wait(LONG_S))
        self.assertEqual(job.results, [True] * HALF)
        self.assertEqual(same, [True] * LAYERS)

    def test_a_graph_is_captured_beside_running_copies(self):
        lanes, keys = self.open("raw"), [i.to_bytes(16, "big") for i in range(HALF)]
        self.store(lanes, keys, torch.cuda.Stream())
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        one = torch.ones(512, 512, device="cuda")
        with torch.cuda.stream(stream):
            one @ one  # Loads the modules that must not be loaded during a capture.
        running = lanes.onboard(keys, range(HALF, BLOCKS), LONG_S)
        # In this mode a forbidden call of any thread ends the capture.
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="global"):
            two = one @ one
            with self.assertRaises(RuntimeError):
                lanes.offload(keys, range(HALF), after_stream=stream.cuda_stream)
            self.assertTrue(running.wait(LONG_S))
            job = lanes.onboard(keys, range(HALF, BLOCKS), LONG_S)
            self.assertTrue(job.wait(LONG_S))
        self.assertEqual(running.results + job.results, [True] * BLOCKS)
        two.zero_()
        graph.replay()
        torch.cuda.synchronize()
        self.assertEqual(float(two.min()), 512)

    def test_codecs_keep_their_bounds(self):
        for codec, bound in (("packed_exponents", 0), ("int8", 0.008), ("fp8_e4m3", 0.03)):
            with self.subTest(codec):
                lanes = self.open(codec)
                keys = [codec.encode() + i.to_bytes(16, "big") for i in range(HALF)]
                self.store(lanes, keys, torch.cuda.Stream())
                job = lanes.onboard(keys, range(HALF, BLOCKS), LONG_S)
                self.assertTrue(job.wait(LONG_S))
                self.assertEqual(job.results, [True] * HALF)
                for tensor in self.tensors:
                    raw, back = tensor[:, :HALF].float(), tensor[:, HALF:].float()
                    self.assertLessEqual(float((raw - back).norm() / raw.norm()), bound)
                lanes.close()


if __name__ == "__main__":
    unittest.main()
