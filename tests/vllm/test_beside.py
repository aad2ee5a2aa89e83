"""The scheduler's side inside MultiConnector: loads of other connectors, and spaces that come late."""

import unittest

from kvtier.vllm.scheduler_side import SchedulerSide
from stand_ins import BLOCK_TOKENS, Step, make_keys, make_request
from test_scheduler_side import NOTHING, WithScheduler


class BesideOtherConnectors(WithScheduler):
    """The engine's connector is a MultiConnector, and another of its connectors loads what this one was asked for, too."""

    OPTIONS = {"peers": False}
    BLOCKS = (list(range(1, 8)),)

    def left_to_others(self, local=0):
        """Makes a request come that another connector loads, of which the engine has `local` tokens. Returns it."""
        request = make_request("a", 200)
        self.matched(request, local)
        self.side.allocated(request, self.BLOCKS, 0)
        return request

    def test_blocks_that_it_loads_into_are_written_by_the_step(self):
        self.left_to_others(local=32)
        self.assertEqual(self.side.plan(Step()).written, {2, 3, 4, 5, 6, 7})
        self.assertEqual(self.side.plan(Step()).written, set())

    def test_blocks_that_an_older_one_does_not_name_may_be_any(self):
        request = make_request("a", 200)
        self.matched(request)
        self.side.allocated(request, ([],), 0)
        self.assertTrue(self.side.plan(Step()).writes_unknown)
        self.assertFalse(self.side.plan(Step()).writes_unknown)

    # Whether the load came, only the engine learns, when the step has ended and its blocks are on their way to the agent.
    def test_what_it_loads_within_the_step_is_not_saved_nor_what_is_computed_from_it(self):
        self.left_to_others()
        self.assertEqual(self.side.plan(Step().new("a", 96, 104, *self.BLOCKS)).saves, [])
        self.assertEqual(self.side.plan(Step().cached("a", 200, 32, [8])).saves, [])
        [save] = self.side.plan(Step().cached("a", 0, 200, *self.BLOCKS, resumed=True)).saves
        self.assertEqual(len(save.keys), 6)

    def test_what_it_loaded_between_steps_is_saved(self):
        request = self.left_to_others()
        self.side.plan(Step())
        self.side.workers_answered(NOTHING, frozenset(["a"]), NOTHING)
        self.side.allocated(request, self.BLOCKS, 0)
        [save] = self.side.plan(Step().new("a", 96, 104, *self.BLOCKS)).saves
        self.assertEqual(save.keys, tuple(make_keys(6)))

    def test_its_loads_are_no_failures_of_this_one(self):
        request = self.left_to_others()
        self.side.plan(Step())
        self.side.workers_answered(frozenset([3]), frozenset(["a"]), frozenset(["a"]))
        self.assertNotIn("failed_loads", self.side.counts.take())
        self.put(3)
        self.assertEqual(self.matched(request), (96, True))  # The engine asks again, and this one may load it now.
        self.load(request, 3)
        self.side.workers_answered(NOTHING, frozenset(["a"]), frozenset(["a"]))
        self.assertEqual(self.side.counts.take()["failed_loads"], 1)

    def test_a_load_of_this_one_is_followed_by_saves(self):
        self.put(3)
        request = make_request("a", 200)
        self.matched(request)
        self.load(request, 3)
        self.side.workers_answered(NOTHING, frozenset(["a"]), NOTHING)
        self.side.allocated(request, self.BLOCKS, 0)
        [save] = self.side.plan(Step().new("a", 96, 104, *self.BLOCKS)).saves
        self.assertEqual(save.keys, tuple(make_keys(6)[3:]))


class SpacesThatComeLate(WithScheduler):
    """Inside MultiConnector the workers tell their spaces in the answer to the first step."""

    OPTIONS = {"peers": False}

    def setUp(self):
        super().setUp()
        self.side = SchedulerSide(self.client, self.side._options, BLOCK_TOKENS, self.HELD, self.clock)

    def test_a_request_asks_again_until_they_are_there(self):
        request = make_request("a", 200)
        self.put(3)
        self.assertEqual(self.matched(request), (None, False))
        self.side.plan(Step())
        self.side.accept_spaces({(0, 0): self.SPECS})
        self.client.put(self.client.registered[-1], make_keys(3))
        self.assertEqual(self.matched(request), (96, True))
        self.assertEqual(self.client.waits[-1], 0.0)  # A running engine does not wait for the agent.

    def test_no_request_waits_longer_than_any_wait_may_take(self):
        request = make_request("a", 200)
        self.assertEqual(self.matched(request), (None, False))
        self.clock.now += self.side._options.max_wait_s
        self.assertEqual(self.matched(request), (0, False))


if __name__ == "__main__":
    unittest.main()
