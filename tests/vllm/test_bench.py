"""Checks that judge the engines of bench_engines, shown able to fail: medians, arms, rounds that are left out."""

import random
import sys
import unittest
from pathlib import Path
from statistics import median
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import engines_arm  # noqa: E402
from engines_arm import Arm, whole  # noqa: E402
from engines_medians import median_of, percentile_of  # noqa: E402
from engines_stream import Streamed  # noqa: E402


class Medians(unittest.TestCase):
    def test_an_interval_of_twenty_rounds_is_of_the_sixth_and_the_fifteenth(self):
        found = median_of([float(value) for value in range(1, 21)])
        self.assertEqual((found.low, found.value, found.high), (6.0, 10.5, 15.0))

    def test_a_few_rounds_have_an_interval_of_all_of_them(self):
        found = median_of([3.0, 1.0, 2.0])
        self.assertEqual((found.low, found.high), (1.0, 3.0))

    def test_the_interval_has_the_true_median_as_often_as_it_says(self):
        chance = random.Random(1)
        tries = [median_of([chance.expovariate(1) for _ in range(20)]) for _ in range(2000)]
        true = 0.6931  # The median of the exponential distribution is ln 2.
        share = sum(found.low <= true <= found.high for found in tries) / len(tries)
        self.assertGreater(share, 0.94)
        self.assertLess(share, 0.98)  # A wider interval would say less than it can.
        self.assertAlmostEqual(median(found.value for found in tries), true, delta=0.03)

    def test_a_percentile_is_a_value_that_was_measured(self):
        values = [float(value) for value in range(1, 101)]
        self.assertEqual([percentile_of(values, share) for share in (0.5, 0.99, 1.0)], [50.0, 99.0, 100.0])
        self.assertEqual(percentile_of([7.0], 0.99), 7.0)


class Engine:
    """A stream whose answers were written down."""

    def __init__(self, *cached):
        self.cached = list(cached)

    def complete(self, prompt, tokens):
        if len(prompt) < 32:
            return Streamed(9.0, "awake", 0)
        return Streamed(0.1, "text", self.cached.pop(0))


class Arms(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(engines_arm.time, "sleep")
        patch.start()
        self.addCleanup(patch.stop)
        quiet = mock.patch("builtins.print")
        quiet.start()
        self.addCleanup(quiet.stop)

    def test_an_answer_that_computed_more_does_not_count(self):
        arm = Arm("host", Engine(0, 992, 1024), whole(32))
        arm.ask([1] * 1031)
        self.assertEqual((arm.seconds, arm.misses), ([0.1], 2))

    def test_an_answer_from_another_tier_does_not_count(self):
        counter = iter([0, 0, 0, 47])
        arm = Arm("disk", Engine(1024, 1024), whole(32), source_bytes=lambda: next(counter), wanted_bytes=47)
        arm.ask([1] * 1031)
        self.assertEqual((arm.seconds, arm.misses), ([0.1], 1))

    def test_a_hit_in_memory_that_reads_the_disk_does_not_count(self):
        counter = iter([0, 1, 1, 1])
        arm = Arm("host", Engine(1024, 1024), whole(32), source_bytes=lambda: next(counter))
        arm.ask([1] * 1031)
        self.assertEqual((arm.seconds, arm.misses), ([0.1], 1))

    def test_an_arm_that_never_is_what_it_is_about_is_an_error(self):
        arm = Arm("host", Engine(*[0] * 5), whole(32))
        with self.assertRaisesRegex(RuntimeError, "host: 0 tokens of 1031 were reused, not 1024"):
            arm.ask([1] * 1031)
        self.assertEqual(arm.seconds, [])

    def test_the_last_token_is_always_computed(self):
        self.assertEqual([whole(256)(tokens) for tokens in (1031, 1025, 1024, 1007, 256)], [1024, 1024, 768, 768, 0])


if __name__ == "__main__":
    unittest.main()
