"""Complaints of users of other caches, a class for each symptom: none of it is so here.

Those that are a matter of processes are in test_process_symptoms.py.
"""

import unittest
from types import SimpleNamespace

import stand_ins
from kvtier.vllm.metadata import NO_BLOCK
from kvtier.vllm.options import parse_options
from kvtier.vllm.scheduler_side import SchedulerSide
from stand_ins import BLOCK_TOKENS, Step, make_keys, make_request
from test_connector import WithConnector
from vllm_config import SlidingWindowSpec, attention


class Symptom1ConvoyOfRequestsThatShareBlocksBeingLoaded(unittest.TestCase):
    """vLLM 44294: one load holds all requests that share its blocks, for 12 times the time to first token."""

    WAIT_S = 0.06  # Time to compute six blocks.

    def setUp(self):
        self.client, self.clock = stand_ins.TableClient(), stand_ins.Clock()
        options = parse_options({"recompute_tokens_per_s": 3200})
        self.side = SchedulerSide(self.client, options, BLOCK_TOKENS, False, self.clock)
        self.side.accept_spaces({(0, 0): [stand_ins.spec()]})

    def test_no_request_waits_for_anothers_load_longer_than_its_own_budget(self):
        """Twelve requests for the same blocks on a stuck disk, one each 5 ms; each is answered by its own deadline."""
        self.client.put(self.client.registered[0], make_keys(6), "disk")
        arrived, waited = {}, {}
        for step in range(60):
            if step < 12:
                arrived[f"r{step}"] = self.clock.now
            for name in [name for name in arrived if name not in waited]:
                answer = self.side.matched_tokens(make_request(name, 200), 0)
                if answer != (None, False):
                    waited[name] = self.clock.now - arrived[name]
            self.side.plan(Step())
            self.clock.now += 0.005
        self.assertEqual(len(waited), 12)
        self.assertLessEqual(max(waited.values()), self.WAIT_S + 0.005)

    def test_blocks_that_another_request_is_loading_are_loaded_beside_it(self):
        self.client.put(self.client.registered[0], make_keys(6))
        for i in range(12):
            request = make_request(f"r{i}", 200)
            self.assertEqual(self.side.matched_tokens(request, 0), (192, True))
            self.side.allocated(request, (list(range(10 * i + 1, 10 * i + 8)),), 192)
        self.assertEqual(len(self.side.plan(Step()).loads), 12)  # No load has ended, and all are begun.


class Symptom2AFailedLoadLivelocksItsRequest(WithConnector):
    """vLLM 49176: the lookup says hit again and again for a block that cannot be loaded."""

    def test_a_request_is_asked_once_and_computed_then(self):
        self.put(6)  # The table never learns that they are damaged.
        request, loads = make_request("a", 200), 0
        for _ in range(20):
            tokens, between = self.scheduler.get_num_new_matched_tokens(request, 0)
            if not between:
                break
            loads += 1
            blocks = SimpleNamespace(get_block_ids=lambda: ([1, 2, 3, 4, 5, 6],))
            self.scheduler.update_state_after_alloc(request, blocks, tokens)
            self.step(Step())
            self.lanes[0].onboards[-1].end([False] * 6)
            self.assertEqual(self.step(Step()).finished_recving, {"a"})
        self.assertEqual((loads, tokens), (1, 0))

    def test_what_failed_is_put_again_so_that_the_next_request_has_it(self):
        self.put(6)
        self.start_load("a", 6)
        self.step(Step())
        self.lanes[0].onboards[-1].end([True, False, True, True, True, True])
        self.step(Step())
        self.step(Step().new("a", 32, 168, list(range(1, 8))))
        self.assertEqual(self.lanes[0].offloads[0].keys, make_keys(6)[1:])


class Symptom5LookUpsAreRetriedStepAfterStepWhileTheEngineIdles(unittest.TestCase):
    """vLLM 45765: deferred lookups spin, and nothing bounds them."""

    def setUp(self):
        self.client, self.clock = stand_ins.TableClient(), stand_ins.Clock()

    def idle(self, side, request):
        """Asks in step after step, each of a millisecond, until there is an answer. Returns it, and the seconds."""
        began = self.clock.now
        for _ in range(10_000):
            answer = side.matched_tokens(request, 0)
            side.plan(Step())
            if answer != (None, False):
                return answer, self.clock.now - began
            self.clock.now += 0.001
        self.fail("it is asked for ever")

    def open(self, held=False, **options):
        side = SchedulerSide(self.client, parse_options(options), BLOCK_TOKENS, held, self.clock)
        side.accept_spaces({(0, 0): [stand_ins.spec()]})
        return side

    def test_one_call_is_sent_and_the_deadline_ends_it(self):
        for held in (False, True):
            with self.subTest(held=held):
                self.setUp()
                side = self.open(held, recompute_tokens_per_s=400)
                self.client.put(self.client.registered[0], make_keys(2), "disk")  # Other nodes may have the rest.
                _, seconds = self.idle(side, make_request("a", 200))
                self.assertLessEqual(seconds, 192 / 400 + 0.001)
                self.assertEqual(len(self.client.prefetches) + len(self.client.tickets), 1)
                self.assertEqual(side.counts.take()["late_looks"], 1)

    def test_a_cold_prompt_on_one_node_is_answered_in_its_first_step_without_a_call(self):
        answer, seconds = self.idle(self.open(peers=False), make_request("a", 200))
        self.assertEqual((answer, seconds, self.client.prefetches), ((0, False), 0, []))

    def test_a_request_is_bounded_also_where_others_take_each_steps_time(self):
        side = self.open(recompute_tokens_per_s=400)
        side._spent_s = 1.0
        side.plan = lambda step: None  # No step has time for this request.
        _, seconds = self.idle(side, make_request("a", 200))
        self.assertLessEqual(seconds, 192 / 400 + 0.001)


class Symptom12HybridModelsAreGarbledWhenOneGroupIsNotRestored(WithConnector):
    """LMCache 2863, 2879: 40% of answers were wrong, because the state of one kind of layer was not restored."""

    SPECS = (attention(), attention(SlidingWindowSpec))

    def test_what_one_group_has_not_is_offered_of_none(self):
        full, window = self.clients[-1].registered
        self.clients[-1].put(full, make_keys(6))
        for blocks in range(4):
            self.clients[-1].put(window, make_keys(blocks))
            request = make_request(f"r{blocks}", 200)
            self.assertEqual(self.scheduler.get_num_new_matched_tokens(request, 0)[0], blocks * BLOCK_TOKENS)

    def test_a_load_of_which_one_group_failed_has_failed_whole(self):
        self.put(3)
        self.start_load("a", 3)
        self.step(Step())
        self.lanes[0].onboards[0].end()
        self.assertEqual(self.step(Step()).finished_recving, set())  # The load ends only when all groups have ended.
        self.lanes[1].onboards[0].end([True, True, False])
        output = self.step(Step())
        self.assertEqual((output.finished_recving, output.failed_recving), ({"a"}, {"a"}))

    def test_a_group_without_room_fails_the_load_and_the_other_groups_load_ends_first(self):
        self.put(3)
        self.start_load("a", 3)
        self.lanes[1].full = True
        self.assertEqual(self.step(Step()).finished_recving, set())
        self.lanes[0].onboards[0].end()
        self.assertEqual(self.step(Step()).failed_recving, {"a"})

    def test_blocks_are_saved_of_all_groups_or_of_none(self):
        request = make_request("a", 200)
        self.scheduler.get_num_new_matched_tokens(request, 0)
        self.step(Step().new("a", 0, 200, list(range(1, 8)), [NO_BLOCK, NO_BLOCK, 13, 14, 15, 16, 17]))
        first, second = self.lanes[0].offloads[0], self.lanes[1].offloads[0]
        self.assertEqual((first.keys, first.blocks), (make_keys(6)[2:], [3, 4, 5, 6]))
        self.assertEqual((second.keys, second.blocks), (make_keys(6)[2:], [13, 14, 15, 16]))


if __name__ == "__main__":
    unittest.main()
