"""Reports of a client about itself: its statistics, and its lines in the application's log."""

import logging
import subprocess
import sys
import threading
import unittest

import kvtier
from test_python_client import BLOCK_BYTES, WithAgent, make_keys


class Statistics(WithAgent):
    def test_say_what_was_moved_from_where_and_why_not(self):
        put = self.client.reserve(self.space, make_keys(0, 2))
        for index in range(2):
            put.copy_in(index, bytes(BLOCK_BYTES))
        put.commit()
        with self.client.onboard(self.space, make_keys(0, 3)):
            pass
        stats = self.client.stats()
        self.assertEqual(stats["onboarded_bytes"], 2 * BLOCK_BYTES)
        self.assertEqual(stats["committed_bytes"], 2 * BLOCK_BYTES)
        self.assertEqual(stats["onboarded_from"], {"gpu": 0, "host": 2, "disk": 0, "peer": 0})
        self.assertEqual({reason for reason, blocks in stats["missed_because"].items() if blocks},
                         {"absent"})
        onboard = stats["latencies"]["onboard"]
        self.assertEqual(onboard["calls"], 1)
        self.assertTrue(0 < onboard["p50_s"] <= onboard["p99_s"])


class Logger(WithAgent):
    def tearDown(self):
        kvtier.set_logger(None)
        super().tearDown()

    def test_gets_the_lines_of_clients(self):
        lines = []
        connected = threading.Event()

        def write(level, line):
            lines.append((level, line))
            if "connected to the agent" in line:
                connected.set()

        kvtier.set_logger(write)
        with kvtier.Client(self.directory):
            self.assertTrue(connected.wait(10))
        self.assertEqual([level for level, line in lines if "connected to the agent" in line],
                         [logging.INFO])

    def test_may_be_one_of_logging(self):
        with self.assertLogs("engine", logging.INFO) as logged:
            kvtier.set_logger(logging.getLogger("engine"))
            with kvtier.Client(self.directory):
                pass
            kvtier.set_logger(None)
        self.assertIn("connected to the agent", logged.output[0])

    def test_one_that_raises_is_called_again(self):
        calls = []

        def write(level, line):
            calls.append(line)
            raise RuntimeError("full")

        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        self.addCleanup(setattr, sys, "unraisablehook", hook)
        kvtier.set_logger(write)
        for _ in range(2):
            with kvtier.Client(self.directory):
                pass
        kvtier.set_logger(None)
        self.assertGreaterEqual(len(calls), 2)

    def test_what_is_no_logger_is_refused(self):
        with self.assertRaisesRegex(TypeError, "logger is a int"):
            kvtier.set_logger(3)

    def test_a_program_may_end_with_a_logger(self):
        program = ("import kvtier, sys; kvtier.set_logger(lambda level, line: None); "
                   "client = kvtier.Client(sys.argv[1])")
        subprocess.run([sys.executable, "-c", program, self.directory], check=True, timeout=60)


if __name__ == "__main__":
    unittest.main()
