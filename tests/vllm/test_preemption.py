"""Requests that the engine preempts: what is saved of them, and how it comes back."""

import unittest
from unittest import mock

import kvtier
from agent_rig import WithAgent, eventually
from kvtier.vllm.metadata import Save, StepPlan
from stand_ins import Step, make_keys, make_request
from test_scheduler_side import WithScheduler


class Preemptions(WithScheduler):
    OPTIONS = {"peers": False}

    def start(self):
        request = make_request("a", 200)
        self.matched(request)
        self.side.allocated(request, (list(range(1, 8)),), 0)
        self.side.plan(Step().new("a", 0, 200, list(range(1, 8))))
        self.side.plan(Step().cached("a", 200, 24))  # The step completes the block before its key is known.
        request.block_hashes, request.num_tokens = make_keys(7), 225
        return request

    def test_what_no_step_could_name_is_saved_before_it_is_given_up(self):
        self.start()
        step = Step()
        step.preempted_req_ids = {"a", "of nobody"}
        [save] = self.side.plan(step).saves
        self.assertEqual((save.keys, save.parent, save.blocks), ((make_keys(7)[6],), make_keys(6)[5], ((7,),)))
        self.assertEqual(self.side.plan(step).saves, [])

    def test_what_the_step_overwrites_is_not(self):
        self.start()
        step = Step().new("b", 0, 64, [7, 9])
        step.preempted_req_ids = {"a"}
        self.assertEqual(self.side.plan(step).saves, [])

    def test_a_block_whose_last_token_is_not_computed_is_not(self):
        request = self.start()
        request.num_tokens = 224  # The last of them was sampled, and drafts behind it were rejected.
        step = Step()
        step.preempted_req_ids = {"a"}
        self.assertEqual(self.side.plan(step).saves, [])

    def test_a_preempted_request_comes_back_as_one_load(self):
        request = self.start()
        self.put(7)
        request.num_preemptions = 1
        self.assertEqual(self.matched(request), (224, True))
        self.side.allocated(request, (list(range(11, 19)),), 224)
        [load] = self.side.plan(Step()).loads
        self.assertEqual((load.keys, load.blocks), (tuple(make_keys(7)), (tuple(range(11, 18)),)))


class PreemptedRequestsComeBack(WithAgent):
    """Its blocks are saved while it runs, copied before another request gets them, and come back as one load."""

    def test_as_one_onboard_of_the_same_bytes(self):
        scheduler = self.open_scheduler(recompute_tokens_per_s=100)
        request = make_request("a", 200)
        scheduler.matched_tokens(request, 0)
        scheduler.allocated(request, ([1, 2, 3, 4, 5, 6, 7],), 0)
        for block in range(1, 8):
            self.memory.fill(block)
        before = [self.memory.runs(block) for block in range(1, 7)]
        plan = scheduler.plan(Step().new("a", 0, 200, list(range(1, 8))))
        self.worker.prepare(plan)
        self.worker.save(plan.saves)
        self.assertTrue(eventually(lambda: self.worker.take_results() and not self.worker._saves))
        # The request is preempted, and another one has its blocks.
        step = Step().new("b", 0, 100, [4, 5, 6, 7])
        step.preempted_req_ids, request.num_preemptions = {"a"}, 1
        self.worker.prepare(scheduler.plan(step))
        for block in (4, 5, 6, 7):
            self.memory.fill(block, value=255)
        self.assertTrue(eventually(lambda: scheduler.matched_tokens(request, 0) == (192, True)))
        scheduler.allocated(request, (list(range(11, 18)),), 192)
        plan = scheduler.plan(Step())
        self.worker.prepare(plan)
        with mock.patch.object(kvtier.Lanes, "onboard", autospec=True, side_effect=kvtier.Lanes.onboard) as onboard:
            self.worker.load(plan.loads)
        self.assertEqual(onboard.call_count, 1)
        self.assertEqual(self.answered("a"), set())
        self.assertEqual([self.memory.runs(block) for block in range(11, 17)], before)

    def test_and_blocks_that_were_overwritten_before_they_were_copied_are_not_among_them(self):
        self.agent.stop()
        for block in (1, 2, 3):
            self.memory.fill(block)
        self.worker.save([Save(tuple(make_keys(3)), None, ((1, 2, 3),))])
        self.worker.prepare(StepPlan(written={2}))
        self.memory.fill(2, value=255)
        self.assertEqual(self.worker.counts.take()["given_up_blocks"], 1)
        self.agent.go_on()
        self.assertTrue(eventually(lambda: self.worker.take_results() and not self.worker._saves))
        saved = self.worker.counts.take().get("saved_blocks", 0)
        self.load("a", [11, 12, 13], timeout_s=5)
        missing = self.answered("a")
        self.assertIn(12, missing)
        for block, source in ((11, 1), (13, 3)):
            self.assertTrue(block in missing or self.memory.runs(block) == self.memory.runs(source))
        self.assertIn(saved, (0, 2))  # No block is saved if the call had no time left when the agent went on.


if __name__ == "__main__":
    unittest.main()
