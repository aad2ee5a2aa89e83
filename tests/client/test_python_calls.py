"""Submitted calls of the kvtier package against a FakeAgent, as test_python_client.py."""

import gc
import os
import subprocess
import sys
import threading
import unittest
import weakref

import kvtier
from kvtier import Sequence
from test_python_client import BLOCK_BYTES, SPEC, WithAgent, eventually, make_keys


class Submitted(WithAgent):
    def asked(self, first=0, count=2):
        return [Sequence(self.space, make_keys(first, count))]

    def test_each_call_ends_with_what_the_waiting_one_returns(self):
        put = self.client.submit_reserve(self.asked()).result(10)
        self.assertEqual(put.states, ["reserved"] * 2)
        put.copy_in(0, b"a" * BLOCK_BYTES)
        put.copy_in(1, b"b" * BLOCK_BYTES)
        self.assertEqual(self.client.submit_commit(put).result(10), 2)
        self.assertEqual(self.client.submit_match(self.asked(count=3)).result(10),
                         [kvtier.Match(2, 2, ["host"] * 2)])
        self.assertEqual(self.client.submit_prefetch(self.asked()).result(10), 2)
        [hit] = self.client.submit_onboard(self.asked(count=3)).result(10)
        with hit:
            self.assertEqual([bytes(block[:1]) for block in hit], [b"a", b"b"])
            self.assertTrue(hit.valid() and hit.missed == "absent")

    def test_a_submitted_commit_ends_its_put(self):
        put = self.client.reserve(self.space, make_keys(0, 2))
        view = put[0]
        view[:] = bytes(BLOCK_BYTES)
        self.assertEqual(self.client.submit_commit(put, durable=True).result(10), 0,
                         "the fake agent's disk misses the last one")
        self.assertRaises(ValueError, lambda: view[0])
        self.assertIsNone(put[0])
        self.assertEqual(put.commit(), 0)
        self.assertEqual(self.client.submit_commit(put).result(10), 0)
        self.assertEqual(self.client.match(self.space, make_keys(0, 2)).blocks, 1)

    def test_result_waits_as_long_as_it_is_told(self):
        self.agent("hang")
        call = self.client.submit_onboard(self.asked())
        self.assertFalse(call.done())
        self.assertRaises(TimeoutError, call.result, 0)
        self.assertRaises(TimeoutError, call.result, 0.001)
        for timeout_s in (-1, float("nan"), float("inf")):
            with self.assertRaisesRegex(ValueError, f"timeout_s is {timeout_s}"):
                call.result(timeout_s)
        self.agent("resume")
        self.assertEqual([len(hit) for hit in call.result()], [0])
        self.assertTrue(call.done())

    def test_callbacks_are_called_once_with_the_call(self):
        self.agent("hang")
        call = self.client.submit_match(self.asked())
        called, told = [], threading.Event()
        call.add_done_callback(called.append)
        call.add_done_callback(lambda _: 1 // 0)  # The client logs it, and calls the next callback.
        call.add_done_callback(lambda _: told.set())
        self.assertEqual(called, [])
        with self.assertLogs("kvtier", "ERROR") as logged:
            self.agent("resume")
            self.assertTrue(told.wait(10))
        self.assertIn("ZeroDivisionError", logged.output[0])
        call.add_done_callback(called.append)
        self.assertEqual(called, [call, call])

    def test_a_callback_may_submit_the_next_call(self):
        self.put(make_keys(0, 2))
        hits, told = [], threading.Event()

        def matched(call):
            blocks = call.result(0)[0].blocks
            onboard = self.client.submit_onboard(self.asked(count=blocks))
            onboard.add_done_callback(onboarded)

        def onboarded(call):
            hits.extend(call.result(0))
            told.set()

        self.client.submit_match(self.asked(count=5)).add_done_callback(matched)
        self.assertTrue(told.wait(10))
        self.assertEqual([len(hit) for hit in hits], [2])

    def test_calls_under_way_are_bounded(self):
        self.agent("hang")
        calls = [self.client.submit_prefetch(self.asked()) for _ in range(256)]
        with self.assertRaises(BlockingIOError):
            self.client.submit_match(self.asked())
        self.agent("resume")
        for call in calls:
            call.result(10)
        self.assertEqual(self.client.submit_match(self.asked()).result(10), [kvtier.Match()])

    def test_a_commit_that_cannot_be_submitted_leaves_the_put(self):
        put = self.client.reserve(self.space, make_keys(0, 1))
        put.copy_in(0, bytes(BLOCK_BYTES))
        self.agent("hang")
        calls = [self.client.submit_prefetch(self.asked()) for _ in range(256)]
        with self.assertRaises(BlockingIOError):
            self.client.submit_commit(put)
        self.agent("resume")
        for call in calls:
            call.result(10)
        self.assertEqual(put.commit(), 1)

    def test_hits_that_nobody_asks_for_are_given_back(self):
        self.put(make_keys(0, 2))
        call = self.client.submit_onboard(self.asked())
        self.assertTrue(eventually(call.done))
        self.assertEqual(self.agent("leases"), "2")
        del call
        self.assertTrue(eventually(lambda: self.agent("leases") == "0"))

    # gRPC aborts when one of its own threads drops the last channel; once, a call that ended on such a thread did that.
    # This occurs only in a process without a server, so the C++ tests cannot show it.
    def test_a_call_may_be_the_last_to_need_a_dead_agents_connection(self):
        for _ in range(100):
            self.agent("hang")
            call = self.client.submit_onboard(self.asked(count=1))
            self.agent("kill")
            self.assertEqual([len(hit) for hit in call.result(10)], [0])
            self.agent("start")
            self.assertTrue(
                eventually(lambda: self.client.ping() and self.client.stats()["connected"]))


class Ends(WithAgent):
    """A client may go while its calls are in progress."""

    def submit(self, client=None, count=20):
        client = client or self.client
        space = client.register_space(kvtier.SpaceSpec(**SPEC))
        self.agent("hang")
        return [client.submit_onboard([Sequence(space, make_keys(0, 2))]) for _ in range(count)]

    def test_closing_ends_them_as_misses(self):
        told = []
        calls = self.submit()
        for call in calls:
            call.add_done_callback(told.append)
        self.client.close()
        self.assertEqual([len(hit) for call in calls for hit in call.result(0)], [0] * len(calls))
        self.assertEqual(set(told), set(calls))

    def test_a_client_that_nobody_holds_ends_them_too(self):
        client = kvtier.Client(socket_dir=self.directory, timeout_s=30.0)
        calls = self.submit(client)
        del client
        gc.collect()
        self.assertTrue(all(call.done() for call in calls))
        gone = [weakref.ref(call) for call in calls]
        calls.clear()  # Nothing else holds the calls: neither the client's thread nor a cycle.
        self.assertEqual([call for call in gone if call() is not None], [])

    def test_a_callback_may_close_its_client(self):
        client = kvtier.Client(socket_dir=self.directory, timeout_s=30.0)
        calls, told = self.submit(client, 5), threading.Event()
        calls[0].add_done_callback(lambda _: (client.close(), told.set()))
        self.agent("resume")
        self.assertTrue(told.wait(10))
        for call in calls:
            self.assertEqual(len(call.result(10)), 1)

    def test_a_callback_may_be_the_last_to_hold_its_client(self):
        client = kvtier.Client(socket_dir=self.directory, timeout_s=30.0)
        held, gone = [client], weakref.ref(client)
        [call] = self.submit(client, 1)
        del client
        call.add_done_callback(lambda _: held.clear())
        self.agent("resume")
        self.assertTrue(eventually(lambda: gone() is None))
        self.assertEqual(len(call.result(10)), 1)

    # At the end of a program the interpreter calls no callbacks any more.
    def test_a_program_may_end_with_calls_under_way(self):
        self.agent("hang")
        program = f"""
import kvtier
client = kvtier.Client(socket_dir={self.directory!r}, timeout_s=30.0)
space = client.register_space(kvtier.SpaceSpec(**{SPEC!r}))
calls = [client.submit_onboard([kvtier.Sequence(space, [b"12345678"])]) for _ in range(50)]
calls[0].add_done_callback(lambda call: (client.close(), print("told", len(call.result()))))
"""
        ended = subprocess.run([sys.executable, "-c", program], env=os.environ, text=True,
                               capture_output=True, timeout=60)
        self.assertEqual((ended.returncode, ended.stdout), (0, "told 1\n"), ended.stderr)


if __name__ == "__main__":
    unittest.main()
