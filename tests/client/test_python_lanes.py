"""kvtier.Lanes against a FakeAgent, as test_python_client.py: an engine's tensors are arrays."""

import ctypes
import gc
import os
import threading
import unittest

import kvtier
from test_python_client import SPEC, WithAgent, eventually, make_keys

LAYERS, BLOCKS, RUN_BYTES = 3, 16, 1536
LONG_S = 20.0


class Tensors:
    """An engine's KV tensors in one storage, and a KvMemory of them."""

    def __init__(self, layout="per layer", order="token_head"):
        axes = 2 if layout != "latent" else 1
        block_bytes = LAYERS * axes * RUN_BYTES
        self.storage = (ctypes.c_uint8 * (BLOCKS * block_bytes))()
        if layout == "per layer":  # [layer][kv][block][run]
            stride = RUN_BYTES
            bases = [(0, run * BLOCKS * RUN_BYTES) for run in range(LAYERS * axes)]
        else:  # The order across layers is [block][layer][kv][run].
            stride = block_bytes
            bases = [(0, run * RUN_BYTES) for run in range(LAYERS * axes)]
        self.fields = {"tensors": [(ctypes.addressof(self.storage), len(self.storage))],
                       "layers": LAYERS, "axes": "latent" if axes == 1 else "apart", "order": order,
                       "blocks": BLOCKS, "run_bytes": RUN_BYTES, "block_stride": stride,
                       "bases": bases}

    def memory(self, **changes):
        return kvtier.KvMemory(**{**self.fields, **changes})

    def spec(self):
        layouts = {("apart", "token_head"): "layer,kv,token,head,dim",
                   ("apart", "head_token"): "layer,kv,head,token,dim",
                   ("latent", "token_head"): "layer,token,row"}
        runs = len(self.fields["bases"])
        return kvtier.SpaceSpec(**{**SPEC, "layers": LAYERS, "block_bytes": runs * RUN_BYTES,
                                   "layout": layouts[self.fields["axes"], self.fields["order"]]})

    def _runs(self, block):
        for _, offset in self.fields["bases"]:
            start = offset + block * self.fields["block_stride"]
            yield slice(start, start + RUN_BYTES)

    def compute(self, block, content):
        for run, place in enumerate(self._runs(block)):
            self.storage[place] = bytes((content * 31 + run * 7 + i) % 251 for i in range(RUN_BYTES))

    def write(self, block, content):
        for run, place in enumerate(self._runs(block)):
            self.storage[place] = content[run * RUN_BYTES:][:RUN_BYTES]

    def read(self, block):
        return b"".join(bytes(self.storage[place]) for place in self._runs(block))


def by_head(planes, heads, tokens, row_bytes):
    """Returns runs whose rows lie token by token as runs whose rows lie head by head."""
    rows = [planes[i:i + row_bytes] for i in range(0, len(planes), row_bytes)]
    each = heads * tokens
    return b"".join(rows[run + token * heads + head] for run in range(0, len(rows), each)
                    for head in range(heads) for token in range(tokens))


class LanesTest(WithAgent):
    def open(self, tensors, **options):
        space = self.client.register_space(tensors.spec())
        lanes = kvtier.Lanes(self.client, space, tensors.memory(), **options)
        self.addCleanup(lanes.close)
        return lanes

    def ended(self, job):
        self.assertTrue(job.wait(LONG_S))
        self.assertTrue(job.done and job.copied)
        return job.results

    def test_blocks_come_back_in_other_blocks_of_another_layout(self):
        keys = make_keys(0, 3)
        for first, order in ((0, "token_head"), (10, "head_token")):
            source, target = Tensors("per layer", order), Tensors("across layers", order)
            keys = make_keys(first, 3)
            for i, block in enumerate((6, 1, 2)):
                source.compute(block, first + i)
            out = self.open(source).offload(keys, [6, 1, 2])
            self.assertEqual((self.ended(out), out.error), ([True] * 3, None))
            back = self.open(target, threads=2).onboard(keys, [0, 7, 3], timeout_s=LONG_S)
            self.assertEqual((self.ended(back), back.error), ([True] * 3, None))
            self.assertEqual([target.read(block) for block in (0, 7, 3)],
                             [source.read(block) for block in (6, 1, 2)])
            self.assertEqual(target.read(1), bytes(len(target.read(1))))

    def test_a_hint_goes_to_the_agent_with_each_job(self):
        lanes, keys = self.open(Tensors()), make_keys(0, 2)
        self.ended(lanes.offload(keys, [0, 1], hint=kvtier.ReuseHint(turn=2, priority=7)))
        self.assertEqual(self.agent("hints").strip(), "0,2,7,0,0")
        self.ended(lanes.onboard(keys, [2, 3], LONG_S, hint=kvtier.ReuseHint(conversation="session-1", finish="stop")))
        self.assertEqual(self.agent("hints").strip(), "41d4af322df572b6,-,50,0,1")
        self.ended(lanes.onboard(keys, [2, 3], LONG_S))
        self.assertEqual(self.agent("hints").strip(), "none")
        for hint, said in [({"conversation": ""}, "conversation has 0 bytes"), ({"priority": 101}, "priority is 101"),
                           ({"finish": "why"}, "finish is \"why\"")]:
            with self.assertRaisesRegex(ValueError, said):
                lanes.offload(keys, [0, 1], hint=kvtier.ReuseHint(**hint))

    def test_a_codec_encodes_and_decodes_whatever_the_layout(self):
        shape = {"layers": LAYERS, "kv_heads": 3, "head_dim": 16, "tokens_per_block": 16}
        self.assertEqual(2 * 3 * 16 * 16, RUN_BYTES)
        values = ctypes.create_string_buffer(2 * LAYERS * RUN_BYTES)
        values[:] = b"".join((0x3f00 + i * 37 % 256).to_bytes(2, "little") for i in range(len(values) // 2))
        for first, codec in enumerate(("fp8_e4m3", "int8", "packed_exponents")):
            spec = kvtier.SpaceSpec(**{**SPEC, **shape, "dtype": "bfloat16", "block_bytes": None,
                                       "codec": codec})
            self.assertLess(spec.block_bytes, len(values))
            reference = kvtier.BlockCodec(spec)
            encoded = (ctypes.c_uint8 * spec.block_bytes)()
            decoded = (ctypes.c_uint8 * len(values))()
            self.assertEqual(reference.encode(values, encoded), codec)
            self.assertTrue(reference.decode(encoded, decoded))
            space = self.client.register_space(spec)
            source, target = Tensors("per layer", "token_head"), Tensors("across layers", "head_token")
            source.write(5, bytes(values))
            keys = make_keys(100 * first, 1)
            with kvtier.Lanes(self.client, space, source.memory()) as out, \
                    kvtier.Lanes(self.client, space, target.memory()) as back:
                self.assertEqual(self.ended(out.offload(keys, [5])), [True])
                self.assertEqual(out.stats()["offload_bytes"], len(values))
                self.assertEqual(self.ended(back.onboard(keys, [2])), [True])
            self.assertEqual(target.read(2), by_head(bytes(decoded), heads=3, tokens=16, row_bytes=32))
        with self.assertRaisesRegex(ValueError, 'dtype "float32"; codec int8 is for bfloat16'):
            self.client.register_space(kvtier.SpaceSpec(**{**SPEC, **shape, "codec": "int8"}))

    def test_latent_blocks_follow_their_parent(self):
        tensors = Tensors("latent")
        lanes = self.open(tensors)
        tensors.compute(0, 5)
        tensors.compute(1, 6)
        first, second = make_keys(0, 2)
        self.assertEqual(self.ended(lanes.offload([first], [0])), [True])
        self.assertEqual(self.ended(lanes.offload([second], [1], parent=first)), [True])
        self.assertEqual(self.ended(lanes.onboard([first, second], [8, 9])), [True, True])
        self.assertEqual(tensors.read(9), tensors.read(1))

    def test_a_short_run_and_a_miss_are_no_errors(self):
        tensors = Tensors()
        lanes = self.open(tensors)
        self.assertEqual(self.ended(lanes.offload(make_keys(0, 2), [0, 1])), [True, True])
        again = lanes.offload(make_keys(0, 2), [0, 1])
        self.assertEqual(self.ended(again), [True, True])
        for first, expected in ((0, [True, True, False]), (50, [False] * 3)):
            job = lanes.onboard(make_keys(first, 3), [4, 5, 6])
            self.assertEqual((self.ended(job), job.error), (expected, None))
        self.assertEqual(self.ended(lanes.onboard([], [])), [])
        block_bytes = len(tensors.read(0))
        stats = lanes.stats()
        self.assertGreaterEqual(stats.pop("offload_copy_s"), 0)
        self.assertGreaterEqual(stats.pop("onboard_copy_s"), 0)
        self.assertEqual(stats, {"offload_blocks": 2, "offload_bytes": 2 * block_bytes,
                                 "offload_failed_blocks": 0, "offload_given_up_blocks": 0,
                                 "onboard_blocks": 2,
                                 "onboard_bytes": 2 * block_bytes, "onboard_failed_blocks": 0})

    def test_poll_returns_each_job_once_when_it_has_ended(self):
        lanes = self.open(Tensors())
        self.assertEqual(lanes.poll(), [])
        self.agent("hang")
        waiting = lanes.onboard(make_keys(0, 1), [0], timeout_s=LONG_S)
        self.assertEqual((lanes.poll(), waiting.done, waiting.error), ([], False, None))
        with self.assertRaisesRegex(RuntimeError, "not done"):
            waiting.results
        self.assertFalse(waiting.wait(0))
        self.agent("resume")
        self.assertEqual(self.ended(waiting), [False])
        self.assertEqual((lanes.poll(), lanes.poll()), ([waiting], []))

    def test_other_threads_run_while_one_waits(self):
        lanes = self.open(Tensors())
        self.agent("hang")
        job = lanes.onboard(make_keys(0, 1), [0], timeout_s=LONG_S)
        resumed = threading.Thread(target=lambda: self.agent("resume"))
        resumed.start()
        self.assertTrue(job.wait(LONG_S))  # It would wait in vain if it held the GIL.
        resumed.join()

    def test_what_is_asked_back_is_never_published(self):
        tensors = Tensors()
        lanes = self.open(tensors)
        self.assertTrue(lanes.await_copied([0, 1], 0))
        self.agent("hang")
        job = lanes.offload(make_keys(0, 2), [0, 1])
        self.assertTrue(lanes.await_copied([2, 3], 0))
        self.assertFalse(lanes.await_copied([1], 0.01))
        self.agent("resume")
        self.assertEqual(self.ended(job), [True, False])
        self.assertIn("slots were asked back", job.error)
        self.assertEqual(lanes.stats()["offload_given_up_blocks"], 1)
        self.assertTrue(lanes.await_copied([0, 1], 0))
        self.assertEqual(self.ended(lanes.onboard(make_keys(0, 2), [4, 5])), [True, False])
        self.assertTrue(eventually(lambda: self.agent("reservations") == "0"))

    def test_without_an_agent_jobs_fail_by_themselves(self):
        lanes = self.open(Tensors())
        self.agent("kill")
        self.assertTrue(eventually(lambda: not self.client.connected))
        for job in (lanes.offload(make_keys(0, 2), [0, 1]), lanes.onboard(make_keys(0, 2), [0, 1])):
            self.assertEqual(self.ended(job), [False, False])
            self.assertIn("the agent did not answer", job.error)

    def test_the_queue_is_bounded(self):
        lanes = self.open(Tensors())
        self.agent("hang")
        jobs = []
        with self.assertRaises(BlockingIOError):
            for i in range(1000):
                jobs.append(lanes.onboard(make_keys(i, 1), [0], timeout_s=LONG_S))
        self.assertLessEqual(len(jobs), 256)
        self.agent("resume")
        for job in jobs:
            self.ended(job)
        self.assertEqual(self.ended(lanes.onboard(make_keys(0, 1), [0])), [False])

    def test_close_ends_what_is_under_way(self):
        lanes = self.open(Tensors())
        self.agent("hang")
        jobs = [lanes.offload(make_keys(0, 1), [0]), lanes.onboard(make_keys(0, 1), [1])]
        lanes.close()
        lanes.close()
        for job in jobs:
            self.assertTrue(job.done)
            self.assertEqual((job.results, "closed" in job.error), ([False], True))
        self.assertEqual(lanes.poll(), jobs)
        with self.assertRaisesRegex(ValueError, "closed"):
            lanes.offload(make_keys(0, 1), [0])
        self.agent("resume")

    def test_a_closed_clients_lanes_go_on(self):
        tensors = Tensors()
        lanes = self.open(tensors)
        self.client.close()
        self.assertEqual(self.ended(lanes.offload(make_keys(0, 1), [0])), [True])

    def test_mistakes_name_field_and_value(self):
        tensors = Tensors()
        space = self.client.register_space(tensors.spec())
        address, size = tensors.fields["tensors"][0]
        overlapping = list(tensors.fields["bases"])
        overlapping[3] = (0, overlapping[2][1] + 8)
        for changes, text in (
                ({"axes": "both"}, 'axes is "both"'), ({"order": 3}, "order is 3"),
                ({"blocks": 0}, "blocks is 0"), ({"blocks": -1}, "blocks is -1"),
                ({"layers": LAYERS + 1}, "bases has 6 entries; must have 8"),
                ({"order": "head_token"}, 'layout is "layer,kv,head,token,dim"'),
                ({"run_bytes": RUN_BYTES - 1}, "run_bytes is 1535"),
                ({"block_stride": RUN_BYTES - 1}, "block_stride is 1535"),
                ({"tensors": []}, "0 ranges"), ({"tensors": [(address, -1)]}, r"tensors\[0\]\[1\]"),
                ({"tensors": [(address, size), (address + 8, 64)]}, "overlaps"),
                ({"tensors": [(address, size - 1)]}, r"bases\[5\] \(layer 2, axis 1\)"),
                ({"bases": overlapping}, r"its runs must not overlap those of bases\[2\]"),
                ({"bases": [(1, 0)] * 6}, r"bases\[0\].tensor is 1; must be below 1")):
            with self.assertRaisesRegex(ValueError, text):
                kvtier.Lanes(self.client, space, tensors.memory(**changes))
        for options, text in (({"device": "cuda:99"}, 'device "cuda:99" cannot be opened: .'),
                              ({"device": "gpu"}, 'device is "gpu"; must be "cuda:N"'),
                              ({"device": "emulated"}, 'device is "emulated"; must be "cuda:N"'),
                              ({"device": 0}, "device is 0; must be"),
                              ({"device": "cuda:0", "threads": 2}, "threads is 2; must be 1 for lanes on a device"),
                              ({"threads": 0}, "threads is 0"), ({"threads": 17}, "threads is 17")):
            with self.assertRaisesRegex(ValueError, text):
                kvtier.Lanes(self.client, space, tensors.memory(), **options)
        lanes = self.open(tensors)
        for blocks, text in (([BLOCKS], r"blocks\[0\] is 16; must be below 16"), ([-1], r"blocks\[0\] is -1"),
                             ([0, 1], "1 keys for 2 blocks")):
            with self.assertRaisesRegex(ValueError, text):
                lanes.offload(make_keys(0, 1), blocks)
        with self.assertRaisesRegex(ValueError, r"blocks\[1\] is 3 for the second time"):
            lanes.onboard(make_keys(0, 2), [3, 3])
        with self.assertRaisesRegex(ValueError, "timeout_s"):
            lanes.onboard(make_keys(0, 1), [3], timeout_s=-1)
        for options, text in (({"after_stream": 0}, "lanes of host memory have no streams"),
                              ({"after_event": 16}, "lanes of host memory have no streams"),
                              ({"after_stream": -1}, "after_stream is -1"),
                              ({"after_stream": 1, "after_event": 2}, "one of them at most")):
            for start in (lanes.offload, lanes.onboard):
                with self.assertRaisesRegex(ValueError, text):
                    start(make_keys(0, 1), [3], **options)
        for event, text in ((16, "lanes of host memory have no"), (1.5, "record_event is 1.5")):
            with self.assertRaisesRegex(ValueError, text):
                lanes.onboard(make_keys(0, 1), [3], record_event=event)
        self.assertFalse(lanes.onboard(make_keys(0, 1), [3]).recorded)

    def test_a_forked_child_has_failed_jobs_and_its_parent_never_notices(self):
        tensors = Tensors()
        lanes = self.open(tensors)
        self.agent("hang")
        before = lanes.onboard(make_keys(0, 1), [0], timeout_s=LONG_S)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for job in (before, lanes.offload(make_keys(0, 1), [0])):
                    assert job.wait(0) and job.results == [False] and "forked" in job.error
                assert lanes.await_copied([0], 0)
                lanes.close()
                lanes = None
                gc.collect()
                code = 0
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.agent("resume")
        self.assertEqual(self.ended(before), [False])
        self.assertEqual(self.ended(lanes.offload(make_keys(0, 1), [0])), [True])


if __name__ == "__main__":
    unittest.main()
