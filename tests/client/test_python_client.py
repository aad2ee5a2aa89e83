"""The kvtier package against a FakeAgent in a process of its own.

Run by CTest with PYTHONPATH=<build>/python and the path of the fake_agent program in
KVTIER_FAKE_AGENT.
"""

import ctypes
import gc
import os
import subprocess
import tempfile
import threading
import time
import unittest

import kvtier

BLOCK_BYTES = 5000
SPEC = {
    "model": "python-test", "weights_digest": bytes(range(200, 232)), "dtype": "float32",
    "layout": "layer,kv,token,head,dim", "layers": 1, "kv_heads": 1, "head_dim": 16,
    "tokens_per_block": 16, "block_bytes": BLOCK_BYTES}
# Time that a loaded machine with two cores may add to a deadline, in seconds.
SLACK_S = 0.5


def make_keys(first, count):
    return [b"key %012d" % (first + i) for i in range(count)]


def eventually(condition):
    deadline = time.monotonic() + 10
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


class FakeAgent:
    """Runs tests/testing/fake_agent_main.cc, and tells it through its stdin what to do."""

    def __init__(self, socket_dir):
        self._process = subprocess.Popen(
            [os.environ["KVTIER_FAKE_AGENT"], socket_dir], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)

    def __call__(self, command):
        print(command, file=self._process.stdin, flush=True)
        return self._process.stdout.readline().strip()

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()


class OneProcess(unittest.TestCase):
    # Both once contained the full Protobuf runtime, and the second one to be loaded aborted.
    def test_the_c_library_loads_beside_the_module(self):
        library = ctypes.CDLL(os.environ["KVTIER_C_LIBRARY"])
        self.assertTrue(library.kvtier_open)


class WithAgent(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="kvtier-test-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.agent = FakeAgent(directory.name)
        self.addCleanup(self.agent.close)
        self.agent("start")
        self.client = kvtier.Client(socket_dir=directory.name, timeout_s=5.0)
        self.addCleanup(self.client.close)
        self.space = self.client.register_space(kvtier.SpaceSpec(**SPEC))

    def put(self, keys):
        with self.client.reserve(self.space, keys) as put:
            for i, key in enumerate(keys):
                if put[i] is not None:
                    put[i][:] = key[-1:] * BLOCK_BYTES
            return put.commit()


class Calls(WithAgent):
    def test_blocks_come_back_byte_for_byte(self):
        keys = make_keys(0, 4)
        self.assertEqual(self.put(keys), 4)
        with self.client.onboard(self.space, keys + make_keys(9, 1), timeout_s=5) as hit:
            self.assertEqual(len(hit), 4)
            self.assertEqual([bytes(view) for view in hit],
                             [key[-1:] * BLOCK_BYTES for key in keys])
            self.assertEqual(hit.sources, ["host"] * 4)
            self.assertTrue(hit.valid())

    def test_match_says_where(self):
        self.put(make_keys(0, 3))
        match = self.client.match(self.space, make_keys(0, 5))
        self.assertEqual(match, kvtier.Match(3, 3, ["host"] * 3))
        self.assertEqual(match.remote_blocks, 0)
        self.assertEqual(self.client.prefetch(self.space, make_keys(0, 5)), 3)

    def test_residences_say_what_is_here_without_a_call(self):
        self.put(make_keys(1, 2))
        self.agent("hang")
        keys = make_keys(0, 4)
        self.assertEqual(self.client.residences(self.space, keys),
                         ["absent", "host", "host", "absent"])
        self.assertEqual(self.client.resident_run(self.space, keys[1:]), 2)
        self.assertEqual(self.client.resident_run(self.space, keys), 0)
        self.assertEqual(self.client.residences(self.space, []), [])
        with self.assertRaisesRegex(ValueError, r"keys\[1\]"):
            self.client.residences(self.space, [keys[0], b"short"])
        self.agent("resume")

    def test_a_larger_table_is_found(self):
        self.put(make_keys(0, 1))
        self.agent("grow residency")
        self.put(make_keys(1, 1))
        self.assertIn(self.client.residences(self.space, make_keys(0, 3)),
                      (["perhaps"] * 3, ["host", "host", "absent"]))
        self.assertTrue(eventually(
            lambda: self.client.resident_run(self.space, make_keys(0, 3)) == 2))

    def test_a_durable_commit_tells_how_many_blocks_are_on_disk(self):
        with self.client.reserve(self.space, make_keys(0, 3)) as put:
            for slot in (put[0], put[1], put[2]):
                slot[:] = bytes(BLOCK_BYTES)
            on_disk = put.commit(durable=True, timeout_s=1.0)
        self.assertEqual(on_disk, 2, "the fake agent's disk misses the last one")
        self.assertEqual(self.client.match(self.space, make_keys(0, 3)).blocks, 3)

    def test_steps_are_told_and_named_by_a_commit(self):
        first, second = self.client.begin_step(), self.client.begin_step()
        self.assertEqual(second, first + 1)
        with self.client.reserve(self.space, make_keys(0, 1), target="gpu") as put:
            put[0][:] = bytes(BLOCK_BYTES)
            self.assertEqual(put.commit(step=second), 1)
        self.assertEqual(self.agent("committed step"), str(second))
        self.assertEqual(self.agent("retired step"), "0")
        self.client.end_step(second)
        self.assertEqual(self.agent("retired step"), str(second))

    def test_reserve_says_what_is_there_already(self):
        self.put(make_keys(0, 1))
        with self.client.reserve(self.space, make_keys(0, 2), parent=make_keys(7, 1)[0]) as put:
            self.assertEqual(put.states, ["present", "reserved"])
            self.assertIsNone(put[0])
            self.assertEqual(len(put[1]), BLOCK_BYTES)

    def test_reserve_tells_what_another_is_putting_from_what_is_there(self):
        with kvtier.Client(socket_dir=self.directory, timeout_s=5.0) as other:
            space = other.register_space(kvtier.SpaceSpec(**SPEC))
            with other.reserve(space, make_keys(0, 1)):
                with self.client.reserve(self.space, make_keys(0, 2)) as put:
                    self.assertEqual(put.states, ["pending", "reserved"])
                    self.assertIsNone(put[0])
                    self.assertTrue(put.answered)

    def test_a_slot_that_nobody_took_is_not_published(self):
        with self.client.reserve(self.space, make_keys(0, 3)) as put:
            put[0][:] = bytes(BLOCK_BYTES)
            self.assertEqual(put.states, ["reserved"] * 3)
            self.assertEqual(put.commit(), 1)
        self.assertEqual(self.client.match(self.space, make_keys(0, 3)).blocks, 1)
        self.assertEqual(self.agent("reservations"), "0")
        stats = self.client.stats()
        self.assertEqual((stats["committed_blocks"], stats["unwritten_blocks"]), (1, 2))

    def test_leaving_the_block_gives_everything_back(self):
        self.put(make_keys(0, 2))
        with self.client.onboard(self.space, make_keys(0, 2)), \
                self.client.reserve(self.space, make_keys(5, 2)):
            self.assertEqual((self.agent("leases"), self.agent("reservations")), ("2", "2"))
        self.assertTrue(eventually(lambda: self.agent("leases") == "0"))
        self.assertTrue(eventually(lambda: self.agent("reservations") == "0"))

    def test_stats_count(self):
        self.put(make_keys(0, 2))
        stats = self.client.stats()
        self.assertTrue(stats["connected"])
        self.assertEqual((stats["committed_blocks"], stats["sessions"]), (2, 1))
        self.assertTrue(self.client.ping())


class ZeroCopy(WithAgent):
    def test_hits_are_read_only_views_of_one_memory(self):
        self.put(make_keys(0, 1))
        with self.client.onboard(self.space, make_keys(0, 1)) as first, \
                self.client.onboard(self.space, make_keys(0, 1)) as second:
            self.assertTrue(first[0].readonly)
            with self.assertRaises(TypeError):
                first[0][0] = 1
            self.assertEqual(self.address(first[0]), self.address(second[0]))
            self.assertIs(first[0], first[0])

    def test_slots_are_written_in_place(self):
        # Readers see bytes written through the view, without any further call.
        key = make_keys(0, 1)
        with self.client.reserve(self.space, key) as put:
            view = put[0]
            self.assertFalse(view.readonly)
            view[:] = bytes(BLOCK_BYTES)
            view[17] = 42
            put.commit()
        with self.client.onboard(self.space, key) as hit:
            self.assertEqual(hit[0][17], 42)

    def test_views_end_with_their_hit_and_put(self):
        self.put(make_keys(0, 1))
        with self.client.onboard(self.space, make_keys(0, 1)) as hit, \
                self.client.reserve(self.space, make_keys(1, 1)) as put:
            read, written = hit[0], put[0]
            put.commit()
            self.assertRaises(ValueError, lambda: written[0])
            self.assertIsNone(put[0])
        self.assertRaises(ValueError, lambda: read[0])
        self.assertRaises(IndexError, lambda: hit[0])

    def test_a_view_of_a_view_stays_mapped_after_everything_is_gone(self):
        self.put(make_keys(0, 1))
        with self.client.onboard(self.space, make_keys(0, 1)) as hit:
            inner = hit[0][10:20]
        self.client.close()
        self.agent("kill")
        del hit
        gc.collect()
        self.assertEqual(len(bytes(inner)), 10)  # The bytes are undefined, but reading them does not fault.

    def address(self, view):
        # ctypes refuses read-only memory, so numpy is used if it is installed.
        try:
            import numpy
        except ImportError:
            self.skipTest("needs numpy")
        return numpy.frombuffer(view, dtype=numpy.uint8).ctypes.data


# A block has 2 axes of 16 tokens: 1024 bytes raw, 640 in int8.
CODEC_SPEC = {name: value for name, value in SPEC.items() if name != "block_bytes"} | {
    "dtype": "bfloat16", "codec": "int8"}
ONE, NAN = b"\x80\x3f", b"\xc0\x7f"  # These are values in bf16.


class Codecs(WithAgent):
    def setUp(self):
        super().setUp()
        self.spec = kvtier.SpaceSpec(**CODEC_SPEC)
        self.codec = kvtier.BlockCodec(self.spec)
        self.encoded = self.client.register_space(self.spec)

    def test_block_bytes_left_out_are_what_encodings_take(self):
        self.assertEqual((self.spec.block_bytes, self.spec.max_encoded_bytes()), (640, 1088))
        self.assertEqual(self.codec.raw_bytes, 1024)

    def test_blocks_go_through_a_slot_and_a_hit(self):
        raw, back = ONE * 512, bytearray(1024)
        with self.client.reserve(self.encoded, make_keys(0, 1)) as put:
            self.assertEqual(self.codec.encode(raw, put[0]), "int8")
            self.assertEqual(put.commit(), 1)
        with self.client.onboard(self.encoded, make_keys(0, 1)) as hit:
            self.assertEqual(len(hit[0]), 640)
            self.assertTrue(self.codec.decode(hit[0], back) and hit.valid())
        self.assertEqual(bytes(back), raw)

    def test_a_block_that_cannot_be_encoded_is_given_back(self):
        with self.client.reserve(self.encoded, make_keys(0, 2)) as put:
            self.assertEqual(self.codec.encode(ONE * 512, put[0]), "int8")
            self.assertIsNone(self.codec.encode(NAN + ONE * 511, put[1]))
            put.give_back(1)
            self.assertEqual((put.states, put[1]), (["reserved", "no_room"], None))
            self.assertEqual(put.commit(), 1)
        self.assertEqual(self.client.match(self.encoded, make_keys(0, 2)).blocks, 1)

    def test_with_room_for_raw_blocks_it_is_stored_raw(self):
        spec = kvtier.SpaceSpec(**CODEC_SPEC, block_bytes=self.spec.max_encoded_bytes())
        codec, slot, back = kvtier.BlockCodec(spec), bytearray(1088), bytearray(1024)
        self.assertEqual(codec.encode(NAN + ONE * 511, slot), "raw")
        self.assertTrue(codec.decode(slot, back))
        self.assertEqual(bytes(back), NAN + ONE * 511)

    def test_what_is_no_encoding_is_not_decoded(self):
        self.assertFalse(self.codec.decode(bytes(640), bytearray(1024)))

    def test_mistakes_name_field_and_value(self):
        for changes, says in (({"codec": "zip"}, "zip"), ({"dtype": "float32"}, "float32"),
                              ({"block_bytes": 641}, "641"), ({"codec": "raw"}, "block_bytes"),
                              ({"head_dim": 24}, "head_dim is 24"), ({"codec": 3}, "codec is 3")):
            with self.subTest(changes), self.assertRaisesRegex(ValueError, says):
                self.client.register_space(kvtier.SpaceSpec(**CODEC_SPEC | changes))
        with self.assertRaisesRegex(ValueError, "must be one that encodes blocks"):
            kvtier.BlockCodec(kvtier.SpaceSpec(**SPEC))
        with self.assertRaisesRegex(ValueError, "raw has 3 bytes; must be 1024"):
            self.codec.encode(b"abc", bytearray(640))
        with self.assertRaisesRegex(ValueError, "writable"):
            self.codec.encode(ONE * 512, bytes(640))

    def test_numpy_arrays_of_uint16_are_raw_blocks(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("needs numpy")
        raw, slot = numpy.full(512, 0x3f80, numpy.uint16), numpy.empty(640, numpy.uint8)
        back = numpy.empty_like(raw)
        self.assertEqual(self.codec.encode(raw, slot), "int8")
        self.assertTrue(self.codec.decode(slot, back))
        self.assertTrue(numpy.array_equal(raw, back))
        with self.assertRaisesRegex(ValueError, "contiguous"):
            self.codec.encode(numpy.zeros(1024, numpy.uint16)[::2], slot)


class Mistakes(WithAgent):
    def test_a_bad_space_names_field_and_value(self):
        for field, value, says in (("head_dim", 0, "head_dim"), ("layers", -1, "layers is -1"),
                                   ("model", "", "model"), ("tp_rank", 1.5, "tp_rank is 1.5"),
                                   ("block_bytes", 2**40, str(2**40))):
            with self.subTest(field), self.assertRaisesRegex(ValueError, says):
                self.client.register_space(kvtier.SpaceSpec(**SPEC | {field: value}))

    def test_a_bad_key_is_named_by_its_place(self):
        with self.assertRaisesRegex(ValueError, r"keys\[1\]"):
            self.client.match(self.space, [b"long enough", b"short"])
        with self.assertRaisesRegex(ValueError, "parent"):
            self.client.reserve(self.space, make_keys(0, 1), parent=b"short")
        with self.assertRaisesRegex(ValueError, "target"):
            self.client.onboard(self.space, make_keys(0, 1), target="disk")

    def test_a_closed_client_says_so(self):
        self.client.close()
        self.client.close()
        self.assertFalse(self.client.connected)
        self.assertRaises(ValueError, self.client.match, self.space, make_keys(0, 1))

    def test_bad_options_are_value_errors(self):
        self.assertRaises(ValueError, kvtier.Client, socket_dir="")
        self.assertRaises(ValueError, kvtier.Client, socket_dir="/run", timeout_s=0)
        with self.assertRaisesRegex(ValueError, 'group is "acme", the tenant itself'):
            kvtier.Client(socket_dir="/run", tenant="acme", group="acme")

    def test_a_client_that_is_no_member_of_its_share_group_is_told_so(self):
        with kvtier.Client(socket_dir=self.directory, group="prompts") as client:
            self.assertFalse(client.connected)
            self.assertIn('no share group "prompts" that it is a member of', client.stats()["last_error"])


class Failures(WithAgent):
    def test_without_an_agent_everything_is_a_miss_at_once(self):
        start = time.monotonic()
        with kvtier.Client(socket_dir="/nonexistent", timeout_s=30) as client:
            space = client.register_space(kvtier.SpaceSpec(**SPEC))
            self.assertEqual(client.match(space, make_keys(0, 2)), kvtier.Match())
            with client.onboard(space, make_keys(0, 2)) as hit:
                self.assertEqual((len(hit), hit.valid()), (0, False))
            with client.reserve(space, make_keys(0, 2)) as put:
                self.assertEqual((len(put), put[0], put.commit()), (2, None, 0))
                self.assertEqual((put.states, put.answered), (["no_room"] * 2, False))
            self.assertFalse(client.connected)
            self.assertFalse(client.ping())
            self.assertIn("/nonexistent", client.stats()["last_error"])
        self.assertLess(time.monotonic() - start, SLACK_S)

    def test_a_killed_agent_voids_hits_and_a_new_one_serves_again(self):
        self.put(make_keys(0, 2))
        with self.client.onboard(self.space, make_keys(0, 2)) as hit:
            self.agent("kill")
            self.assertFalse(hit.valid())
            self.assertEqual(bytes(hit[1]), make_keys(1, 1)[0][-1:] * BLOCK_BYTES)
        self.assertEqual(self.client.match(self.space, make_keys(0, 2)).blocks, 0)
        self.agent("start")
        self.assertTrue(eventually(lambda: self.client.connected))
        self.assertEqual(self.put(make_keys(0, 2)), 2)

    def test_other_threads_run_while_one_waits_for_a_stuck_agent(self):
        self.agent("hang")
        ended = threading.Event()

        def wait():
            self.client.onboard(self.space, make_keys(0, 1), timeout_s=0.5)
            ended.set()

        waiter = threading.Thread(target=wait)
        start = time.monotonic()
        waiter.start()
        turns = 0
        while not ended.wait(0.005):  # Each turn of the loop needs the GIL.
            turns += 1
        waiter.join()
        self.assertLess(time.monotonic() - start, 0.5 + SLACK_S)
        self.assertGreater(turns, 10)

    def test_close_while_another_thread_waits_is_safe(self):
        self.agent("hang")
        waiter = threading.Thread(
            target=self.client.onboard, args=(self.space, make_keys(0, 1)),
            kwargs={"timeout_s": 0.3})
        waiter.start()
        self.client.close()
        waiter.join(timeout=10)
        self.assertFalse(waiter.is_alive())


if __name__ == "__main__":
    unittest.main()
