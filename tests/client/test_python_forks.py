"""The kvtier package in a process that forks: a child has the parent's sockets and memory, and
none of its threads. Run by CTest as test_python_client.py is.
"""

import ctypes
import gc
import multiprocessing
import os
import signal
import unittest

import kvtier
from test_python_client import BLOCK_BYTES, SPEC, WithAgent, make_keys


def count_blocks(directory):
    """Returns how many of two blocks this process finds with a client of its own."""
    with kvtier.Client(socket_dir=directory, timeout_s=5.0) as client:
        return client.match(client.register_space(kvtier.SpaceSpec(**SPEC)), make_keys(0, 2)).blocks


class Forks(WithAgent):
    def run_child(self, body):
        """Runs body() in a forked child that ends as a program does; returns False if it raised or hung."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.alarm(20)
                body()
                code = 0
            finally:
                # Ends as a program does: collects objects, then runs static destructors.
                self.client = None
                gc.collect()
                library = ctypes.CDLL(None)
                library.exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    def check_misses(self, client):
        space = client.register_space(kvtier.SpaceSpec(**SPEC))
        keys = make_keys(0, 2)
        self.assertEqual(client.match(space, keys), kvtier.Match())
        self.assertEqual(client.prefetch(space, keys), 0)
        with client.onboard(space, keys) as hit:
            self.assertEqual((len(hit), hit.valid()), (0, False))
        with client.reserve(space, keys) as put:
            self.assertEqual((put.states, put.commit()), (["no_room"] * 2, 0))
        call = client.submit_onboard([kvtier.Sequence(space, keys)])
        self.assertEqual([len(hit) for hit in call.result(0)], [0])
        self.assertEqual(client.residences(space, keys), ["absent"] * len(keys))
        self.assertEqual(client.resident_run(space, keys), 0)
        client.end_step(client.begin_step())
        self.assertFalse(client.connected or client.ping())
        # "open clients after the fork" is what the child did with the second client.
        self.assertIn("open the first client after the fork, or start the process by exec", client.stats()["last_error"])
        client.close()

    # After one call in a forked child, every call of the parent was once answered "UNKNOWN: Missing :authority header"
    # for ever; a close() in the child ended the parent's session.
    def test_a_child_misses_and_its_parent_never_notices(self):
        self.put(make_keys(0, 2))
        with self.client.onboard(self.space, make_keys(0, 2)) as hit, \
                self.client.reserve(self.space, make_keys(5, 2)) as put:
            put[0][:], put[1][:] = b"0" * BLOCK_BYTES, b"1" * BLOCK_BYTES

            def child():
                self.assertFalse(hit.valid())
                self.assertEqual(bytes(hit[0]), bytes(BLOCK_BYTES))
                put[0][:] = b"x" * BLOCK_BYTES
                self.assertEqual(put.commit(), 0)
                self.check_misses(self.client)
                self.check_misses(kvtier.Client(socket_dir=self.directory))

            for _ in range(5):
                self.assertTrue(self.run_child(child))
            self.assertTrue(hit.valid())
            self.assertEqual(put.commit(), 2)
        for _ in range(10):
            with self.client.onboard(self.space, make_keys(5, 2)) as hit:
                self.assertEqual([bytes(view[:1]) for view in hit], [b"0", b"1"])
        stats = self.client.stats()
        self.assertEqual((stats["sessions"], stats["calls_failed"]), (1, 0))

    def test_processes_of_multiprocessing_that_fork_miss(self):
        self.put(make_keys(0, 2))
        with multiprocessing.get_context("fork").Pool(3) as pool:
            self.assertEqual(pool.map(self.blocks_found, range(6)), [0] * 6)
        self.assertEqual(self.blocks_found(0), 2)

    def blocks_found(self, _):
        return self.client.match(self.space, make_keys(0, 2)).blocks

    def __reduce__(self):  # The pool needs it; the child has its own copy already.
        return Forks.current, ()

    @classmethod
    def current(cls):
        return cls.running

    def setUp(self):
        super().setUp()
        Forks.running = self

    def test_calls_under_way_stay_the_parents(self):
        self.put(make_keys(0, 2))
        self.agent("hang")
        call = self.client.submit_onboard([kvtier.Sequence(self.space, make_keys(0, 2))])

        def child():
            self.assertFalse(call.done())
            with self.assertRaisesRegex(RuntimeError, "before the fork"):
                call.result()

        self.assertTrue(self.run_child(child))
        self.agent("resume")
        self.assertEqual([len(hit) for hit in call.result()], [2])

    # A closed client leaves nothing that a fork could spoil.
    def test_a_child_of_a_process_that_closed_its_clients_opens_its_own(self):
        self.put(make_keys(0, 2))
        self.client.close()
        self.assertTrue(self.run_child(lambda: self.assertEqual(count_blocks(self.directory), 2)))

    def test_a_process_that_was_spawned_opens_its_own_beside_an_open_client(self):
        self.put(make_keys(0, 2))
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            self.assertEqual(pool.apply(count_blocks, (self.directory,)), 2)


if __name__ == "__main__":
    unittest.main()
