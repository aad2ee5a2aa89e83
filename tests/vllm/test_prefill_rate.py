"""Tokens that the engine prefills in a second, measured by an injected clock, and the waits that follow from it."""

import unittest

import stand_ins
from kvtier.vllm.options import parse_options
from kvtier.vllm.prefill_rate import ENOUGH_TOKENS, START_TOKENS_PER_S, PrefillRate
from kvtier.vllm.scheduler_side import SchedulerSide
from stand_ins import BLOCK_TOKENS, Clock, Step, make_request

NOTHING = frozenset()


class Rate(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.rate = PrefillRate(0, self.clock)

    def step(self, tokens, seconds):
        number = self.rate.planned(tokens)
        self.clock.now += seconds
        return self.rate.answered(number)

    def test_begins_with_a_stated_figure(self):
        self.assertEqual(self.rate.tokens_per_s, START_TOKENS_PER_S)

    def test_is_known_from_the_first_step_that_prefills_enough(self):
        self.assertFalse(self.step(ENOUGH_TOKENS - 1, 1))
        self.assertEqual(self.rate.tokens_per_s, START_TOKENS_PER_S)
        with self.assertLogs("vllm.kvtier", "INFO") as logged:
            self.assertTrue(self.step(1000, 2.5))
            self.step(1000, 2)
        self.assertEqual(len(logged.output), 1)
        self.assertIn("prefills 400 tokens in a second", logged.output[0])

    def test_one_slow_step_changes_nothing_and_a_slower_engine_does(self):
        for _ in range(9):
            self.step(1000, 1)
        self.step(1000, 30)
        self.assertEqual(self.rate.tokens_per_s, 1000)
        for _ in range(20):
            self.step(1000, 4)
        self.assertEqual(self.rate.tokens_per_s, 250)

    def test_steps_with_more_tokens_say_more(self):
        for _ in range(3):
            self.step(100, 1)
        self.step(2000, 2)
        self.assertEqual(self.rate.tokens_per_s, 1000)

    def test_steps_that_overlap_share_no_time(self):
        first, second = self.rate.planned(1000), self.rate.planned(1000)
        self.clock.now += 1
        self.rate.answered(first)
        self.clock.now += 1
        self.rate.answered(second)
        self.assertEqual(self.rate.tokens_per_s, 1000)

    def test_answers_that_are_lost_or_come_twice_measure_nothing(self):
        lost = [self.rate.planned(1000) for _ in range(100)]
        self.clock.now += 1
        self.assertFalse(self.rate.answered(lost[0]))
        number = self.rate.planned(1000)
        self.clock.now += 1
        self.assertTrue(self.rate.answered(number))
        self.assertFalse(self.rate.answered(number))
        self.assertFalse(self.step(1000, 0))

    def test_that_is_configured_is_not_measured(self):
        rate = PrefillRate(123, self.clock)
        self.assertEqual(rate.planned(5000), 0)
        self.assertEqual(rate.tokens_per_s, 123)


class Waits(unittest.TestCase):
    """Nobody waits longer than recomputing would take."""

    def setUp(self):
        self.clock, self.client = Clock(), stand_ins.TableClient()

    def open(self, **options):
        side = SchedulerSide(self.client, parse_options(options), BLOCK_TOKENS, False, self.clock)
        side.accept_spaces({(0, 0): [stand_ins.spec()]})
        return side

    def prefill(self, side, tokens, seconds):
        request = make_request(f"p{tokens}", tokens)
        side.matched_tokens(request, 0)
        plan = side.plan(Step().new(request.request_id, 0, tokens, list(range(1, tokens // BLOCK_TOKENS + 2))))
        self.clock.now += seconds
        side.measured(plan.measured)

    def wait_for(self, side, name="a"):
        self.client.prefetches.clear()
        self.assertEqual(side.matched_tokens(make_request(name, 8 * BLOCK_TOKENS + 1), 0), (None, False))
        return self.client.prefetches[0][1]

    def test_are_as_long_as_the_engine_as_it_is_measured_would_compute(self):
        side = self.open()
        self.assertAlmostEqual(self.wait_for(side), 256 / START_TOKENS_PER_S)
        self.prefill(side, 1024, 2.0)
        self.assertAlmostEqual(self.wait_for(side, "b"), 0.5, places=2)

    def test_and_the_figure_is_a_gauge(self):
        side = self.open()
        self.assertEqual(side.counts.take()["recompute_tokens_per_s"], START_TOKENS_PER_S)
        self.prefill(side, 1025, 2.0)
        self.assertEqual(side.counts.take()["recompute_tokens_per_s"], 512)

    def test_are_fixed_by_the_option(self):
        side = self.open(recompute_tokens_per_s=512)
        self.prefill(side, 1024, 20.0)
        self.assertAlmostEqual(self.wait_for(side), 0.5)

    def test_of_decoding_steps_nothing_is_measured(self):
        side = self.open()
        step = Step()
        for i in range(200):
            step.cached(f"r{i}", 100, 1)
        self.assertEqual(side.plan(step).measured, 0)


if __name__ == "__main__":
    unittest.main()
