"""The connector in the scheduler: its answers, and the plans of steps."""

import unittest
from unittest import mock

import kvtier
import stand_ins
from kvtier.vllm import request_options
from kvtier.vllm.options import parse_options
from kvtier.vllm.scheduler_side import SchedulerSide
from stand_ins import BLOCK_TOKENS, Step, make_keys, make_request

NOTHING = frozenset()


class WithScheduler(unittest.TestCase):
    OPTIONS = {}
    HELD = False
    SPECS = (stand_ins.spec(),)

    def setUp(self):
        self.client, self.clock = stand_ins.TableClient(), stand_ins.Clock()
        options = parse_options({"recompute_tokens_per_s": 3200, **self.OPTIONS})  # Computing a block takes 10 ms.
        self.side = SchedulerSide(self.client, options, BLOCK_TOKENS, self.HELD, self.clock)
        self.side.accept_spaces({(0, 0): self.SPECS})
        self.spaces = list(self.client.registered)

    def matched(self, request, computed=0):
        return self.side.matched_tokens(request, computed)

    def put(self, count, tier="host"):
        for space in self.spaces:
            self.client.put(space, make_keys(count), tier)

    def load(self, request, blocks, first=1):
        """Makes the scheduler plan a load of `blocks` blocks of the request. Returns the load."""
        self.side.allocated(request, (list(range(first, first + blocks)),), blocks * BLOCK_TOKENS)
        [load] = self.side.plan(Step()).loads
        return load


class Answers(WithScheduler):
    OPTIONS = {"peers": False}

    def test_what_is_in_memory_is_offered_at_once_and_loaded_between_steps(self):
        self.put(3)
        self.assertEqual(self.matched(make_request("a", 200)), (96, True))
        self.assertEqual(self.client.prefetches, [])

    def test_the_last_token_is_computed(self):
        self.put(4)
        self.assertEqual(self.matched(make_request("a", 128)), (96, True))

    def test_what_the_engine_has_is_not_counted(self):
        self.put(4)
        self.assertEqual(self.matched(make_request("a", 200), 64), (64, True))

    def test_nothing_is_no_load(self):
        self.assertEqual(self.matched(make_request("a", 200)), (0, False))
        self.assertEqual(self.matched(make_request("b", 20)), (0, False))
        self.assertEqual(self.client.prefetches, [])  # A cold prompt without peers sends nothing.

    def test_what_is_on_a_disk_is_offered_at_once(self):
        self.put(2)
        self.client.put(self.spaces[0], make_keys(4)[2:], "disk")
        self.assertEqual(self.matched(make_request("a", 200)), (128, True))
        self.assertEqual(self.client.prefetches, [])  # The load itself has the disk read.

    def test_as_many_calls_as_may_be_are_no_reason_to_wait(self):
        self.client.busy = True
        self.put(2, "disk")
        self.assertEqual(self.matched(make_request("a", 200)), (64, True))

    def test_looks_of_a_step_end_with_its_budget(self):
        self.put(3)
        self.client.clock_cost = (self.clock, 0.0015)
        asked = [make_request(f"r{i}", 200) for i in range(50)]
        answers = [self.matched(request) for request in asked]
        self.assertEqual(answers[0], (96, True))
        self.assertEqual(answers[-1], (None, False))
        self.assertLess(self.client.looks, 10)
        self.side.plan(Step())
        self.assertEqual(self.matched(asked[-1]), (96, True))  # The next step has a budget of its own.

    def test_a_request_that_never_has_its_turn_does_without_at_its_own_deadline(self):
        self.put(3)
        self.client.clock_cost = (self.clock, 0.0025)
        late = make_request("late", 200)
        for _ in range(40):  # 60 ms are what computing six blocks would take.
            self.assertEqual(self.matched(make_request("other", 200)), (96, True))
            answer = self.matched(late)
            self.side.plan(Step())
            self.clock.now += 0.01
            if answer == (0, False):
                break
            self.assertEqual(answer, (None, False))
        self.assertEqual(answer, (0, False))
        self.assertLess(self.clock.now, 100.1)

    def test_ranks_agree_on_what_all_of_them_have(self):
        self.side.accept_spaces({(0, rank): [stand_ins.spec(tp_rank=rank, tp_size=2)] for rank in range(2)})
        first, second = self.client.registered[-2:]
        self.client.put(first, make_keys(6))
        self.client.put(second, make_keys(3), "disk")
        self.assertEqual(self.matched(make_request("a", 200)), (96, True))


class Peers(WithScheduler):
    def test_another_node_is_asked_for_what_this_one_has_not(self):
        request = make_request("a", 200)
        self.assertEqual(self.matched(request), (None, False))
        [(_, _, call)] = self.client.prefetches
        call.end(0)
        self.assertEqual(self.matched(request), (0, False))

    def test_a_wait_for_a_turn_counts(self):
        self.side._spent_s = 1.0
        request = make_request("a", 200)
        self.assertEqual(self.matched(request), (None, False))
        self.side.plan(Step())
        self.clock.now += 0.05  # The request may wait for 60 ms.
        self.assertEqual(self.matched(request), (None, False))
        self.assertAlmostEqual(self.client.prefetches[0][1], 0.01)

    def test_asked_once_and_again_until_it_has_answered(self):
        request = make_request("a", 200)
        self.assertEqual(self.matched(request), (None, False))
        self.assertEqual(self.matched(request), (None, False))
        [(sequences, timeout_s, call)] = self.client.prefetches  # There is one prefetch, however often the engine asks.
        self.assertEqual([list(s.keys) for s in sequences], [make_keys(6)])
        self.assertAlmostEqual(timeout_s, 0.06)  # It is the time that computing would take.
        call.end(5)
        self.assertEqual(self.matched(request), (160, True))  # The load copies the blocks as they come.

    def test_from_the_deadline_on_what_is_here_is_the_answer(self):
        self.put(2)
        request = make_request("a", 200)
        self.assertEqual(self.matched(request), (None, False))
        self.clock.now += 1
        self.assertEqual(self.matched(request), (64, True))  # The agent was stopped: the call never ended.
        self.assertEqual(self.side.counts.take()["late_looks"], 1)

    def test_what_it_brings_to_some_ranks_alone_is_not_offered(self):
        self.side.accept_spaces({(0, rank): [stand_ins.spec(tp_rank=rank, tp_size=2)] for rank in range(2)})
        request = make_request("a", 200)
        self.assertEqual(self.matched(request), (None, False))
        self.client.prefetches[0][2].end(6)  # The 6 may be all of one rank's blocks, or 3 of each.
        self.assertEqual(self.matched(request), (None, False))
        for space in self.client.registered[-2:]:
            self.client.put(space, make_keys(3))
        self.assertEqual(self.matched(request), (96, True))

    def test_what_it_brings_to_all_ranks_is_offered(self):
        self.side.accept_spaces({(0, rank): [stand_ins.spec(tp_rank=rank, tp_size=2)] for rank in range(2)})
        request = make_request("a", 200)
        self.assertEqual(self.matched(request), (None, False))
        self.client.prefetches[0][2].end(12)
        self.assertEqual(self.matched(request), (192, True))


class OptionsOfARequest(WithScheduler):
    OPTIONS = {"peers": False}

    def test_a_request_takes_no_more_tokens_than_it_says(self):
        self.put(6)
        self.assertEqual(self.matched(make_request("a", 200, kv_transfer_params={"kvtier.max_tokens": 70})), (64, True))
        self.assertEqual(self.matched(make_request("b", 200, kv_transfer_params={"kvtier.max_tokens": 0})), (0, False))

    def test_a_request_that_asks_not_to_be_stored_is_not_and_loads(self):
        self.put(2)
        request = make_request("a", 200, kv_transfer_params={"kvtier.no_store": True})
        self.assertEqual(self.matched(request), (64, True))
        self.assertEqual(self.side.plan(Step().new("a", 0, 200, list(range(1, 8)))).saves, [])

    # A max_tokens of -5 once turned loading off, with a line for each request, although the page says that such a value is
    # ignored.
    def test_a_limit_that_cannot_be_is_ignored_and_a_wrong_no_store_is_true_with_one_line_for_each(self):
        self.put(2)
        wrong = {"kvtier.no_store": "yes", "kvtier.max_tokens": -5}
        with mock.patch.object(request_options, "_warned", set()), \
                self.assertLogs("vllm.kvtier", "WARNING") as logged:
            for name in ("a", "b", "c"):
                self.assertEqual(self.matched(make_request(name, 200, kv_transfer_params=wrong)), (64, True))
        self.assertEqual(self.side.plan(Step().new("a", 0, 200, list(range(1, 8)))).saves, [])
        self.assertEqual(len(logged.output), 2)
        self.assertIn("kvtier.no_store is 'yes'; must be true or false, so the request is not stored", logged.output[0])
        self.assertIn("kvtier.max_tokens is -5; must be an int of 0 or more, so it is ignored", logged.output[1])


class Loads(WithScheduler):
    OPTIONS = {"peers": False}

    def test_are_planned_once_with_the_blocks_that_were_given(self):
        self.put(6)
        request = make_request("a", 200)
        self.matched(request, 64)
        self.side.allocated(request, ([9, 8, 7, 6, 5, 4],), 96)
        plan = self.side.plan(Step())
        [load] = plan.loads
        self.assertEqual((load.request_id, load.keys, load.blocks), ("a", tuple(make_keys(5)[2:]), ((7, 6, 5),)))
        self.assertEqual(plan.written, {7, 6, 5})
        self.assertEqual(self.side.plan(Step()).loads, [])

    def test_one_that_failed_is_never_asked_for_again(self):
        self.put(3)
        request = make_request("a", 200)
        self.matched(request)
        load = self.load(request, 3)
        self.side.workers_answered(frozenset([load.blocks[0][1]]), frozenset(["a"]), NOTHING)
        self.assertEqual(self.matched(request), (0, False))
        request.num_preemptions = 1
        self.assertEqual(self.matched(request), (0, False))

    def test_a_rank_may_tell_of_the_failure_before_the_load_has_ended(self):
        self.put(3)
        request = make_request("a", 200)
        self.matched(request)
        load = self.load(request, 3)
        self.side.workers_answered(frozenset([load.blocks[0][0]]), NOTHING, NOTHING)
        self.side.workers_answered(NOTHING, frozenset(["a"]), NOTHING)
        self.assertEqual(self.matched(request), (0, False))

    def test_of_several_groups_failures_come_by_request(self):
        self.put(3)
        request = make_request("a", 200)
        self.matched(request)
        self.load(request, 3)
        self.side.workers_answered(NOTHING, frozenset(["a"]), frozenset(["a"]))
        self.assertEqual(self.matched(request), (0, False))

    def test_a_preempted_request_may_load_what_was_saved(self):
        self.put(3)
        request = make_request("a", 200)
        self.matched(request)
        self.load(request, 3)
        self.side.workers_answered(NOTHING, frozenset(["a"]), NOTHING)
        self.assertEqual(self.matched(request), (0, False))
        request.num_preemptions = 1
        self.assertEqual(self.matched(request), (96, True))

    def test_answers_for_requests_that_are_gone_are_let_go(self):
        self.side.workers_answered(frozenset([4]), frozenset(["gone"]), frozenset(["gone"]))

    def test_nothing_is_kept_of_finished_requests(self):
        for i in range(100):
            request = make_request(f"r{i}", 200)
            self.matched(request)
            self.side.finished(f"r{i}")
        self.assertEqual(self.side._requests, {})


class Saves(WithScheduler):
    OPTIONS = {"peers": False}

    def start(self, computed=0, scheduled=200, **more):
        request = make_request("a", 200, **more)
        self.matched(request, computed)
        self.side.allocated(request, (list(range(1, 8)),), 0)
        return self.side.plan(Step().new("a", computed, scheduled, list(range(1, 8))))

    def test_full_blocks_that_the_step_completes(self):
        [save] = self.start().saves
        self.assertEqual((save.keys, save.parent, save.blocks), (tuple(make_keys(6)), None, ((1, 2, 3, 4, 5, 6),)))

    def test_chunks_follow_each_other(self):
        [save] = self.start(scheduled=100).saves
        self.assertEqual(len(save.keys), 3)
        [save] = self.side.plan(Step().cached("a", 100, 100, [8])).saves
        self.assertEqual((save.keys, save.parent, save.blocks), (tuple(make_keys(6)[3:]), make_keys(3)[2], ((4, 5, 6),)))

    def test_what_was_loaded_is_not_saved(self):
        self.put(4)
        [save] = self.start(computed=128, scheduled=72).saves
        self.assertEqual(save.keys, tuple(make_keys(6)[4:]))

    def test_what_failed_to_load_is_put_again(self):
        self.put(4)  # The table says that all four are there; the third was damaged.
        [save] = self.start(computed=64, scheduled=136).saves
        self.assertEqual((save.keys, save.parent), (tuple(make_keys(6)[2:]), make_keys(2)[1]))

    def test_what_the_engine_had_and_the_agent_lost_is_saved(self):
        self.put(1)
        [save] = self.start(computed=128, scheduled=72).saves
        self.assertEqual(save.keys, tuple(make_keys(6)[1:]))

    def test_looks_for_what_was_lost_end_with_the_steps_budget(self):
        self.client.clock_cost = (self.clock, 0.0015)
        step = Step()
        for i in range(20):
            self.matched(make_request(f"r{i}", 200), 128)
            step.new(f"r{i}", 128, 72, list(range(1, 8)))
        looks = self.client.looks
        self.side.plan(step)
        self.assertLessEqual(self.client.looks - looks, 2)

    def test_tokens_of_the_answer_are_saved_too(self):
        self.start()
        request = self.side._requests["a"].request
        request.block_hashes = make_keys(7)
        [save] = self.side.plan(Step().cached("a", 223, 1)).saves
        self.assertEqual((save.keys, save.blocks), ((make_keys(7)[6],), ((7,),)))

    def test_a_block_whose_key_comes_late_is_saved_by_the_next_step(self):
        self.start()
        self.assertEqual(self.side.plan(Step().cached("a", 223, 1)).saves, [])
        self.assertEqual(self.side.plan(Step().cached("a", 224, 1)).saves, [])
        self.side._requests["a"].request.block_hashes = make_keys(7)
        [save] = self.side.plan(Step().cached("a", 225, 1)).saves
        self.assertEqual((save.keys, save.blocks), ((make_keys(7)[6],), ((7,),)))
        self.assertEqual(self.side._unnamed, set())

    def test_of_several_groups_all_of_a_block_or_none(self):
        request = make_request("a", 200)
        self.matched(request)
        window = [0, 0, 13, 14, 15, 16, 17]
        [save] = self.side.plan(Step().new("a", 0, 200, list(range(1, 8)), window)).saves
        self.assertEqual((save.keys, save.parent), (tuple(make_keys(6)[2:]), make_keys(2)[1]))
        self.assertEqual(save.blocks, ((3, 4, 5, 6), (13, 14, 15, 16)))

    def test_blocks_that_a_step_writes_are_named_and_those_it_reads_are_not(self):
        self.assertEqual(self.start(computed=64, scheduled=136).written, {3, 4, 5, 6, 7})
        self.assertEqual(self.side.plan(Step().cached("a", 200, 1, [8])).written, {8})
        self.assertEqual(self.side.plan(Step().cached("a", 0, 200, [21, 22, 23, 24, 25, 26, 27], resumed=True)).written,
                         set(range(21, 28)))

    def test_a_resumed_request_has_its_new_blocks_alone(self):
        self.start()
        [save] = self.side.plan(Step().cached("a", 0, 200, list(range(21, 28)), resumed=True)).saves
        self.assertEqual(save.blocks, (tuple(range(21, 27)),))

    def test_nothing_is_saved_where_the_options_say_so(self):
        self.side._options = parse_options({"store": False})
        self.assertEqual(self.start().saves, [])


class Resets(WithScheduler):
    OPTIONS = {"peers": False}

    def test_nothing_from_before_is_offered(self):
        self.put(6)
        self.side.reset()
        self.assertEqual(self.matched(make_request("a", 200)), (0, False))
        self.assertNotEqual(self.client.registered[-1].spec.weights_digest, self.client.registered[0].spec.weights_digest)

    def test_every_reset_is_an_epoch_that_the_workers_are_told(self):
        digests = [self.side.plan(Step()).weights_digest]
        for _ in range(2):
            self.side.reset()
            digests.append(self.side.plan(Step()).weights_digest)
        self.assertEqual(digests[0], "w")
        self.assertEqual(len(set(digests)), 3)

    def test_requests_that_outlive_it_save_nothing_until_they_begin_again(self):
        request = make_request("a", 200)
        self.matched(request)
        self.side.plan(Step().new("a", 0, 100, list(range(1, 8))))
        self.side.reset()
        self.assertEqual(self.side.plan(Step().cached("a", 100, 100)).saves, [])
        [save] = self.side.plan(Step().cached("a", 0, 200, list(range(21, 28)), resumed=True)).saves
        self.assertEqual(len(save.keys), 6)


class Held(WithScheduler):
    """kv_load_failure_policy is "fail": a load that fails loses the request."""

    OPTIONS = {"peers": False}
    HELD = True

    def ask(self, request, held):
        self.assertEqual(self.matched(request), (None, False))
        self.client.tickets[-1][2].end(kvtier.Ticket(b"t" * 16, held))
        return self.matched(request)

    def test_only_what_a_ticket_holds_is_offered(self):
        self.put(6)
        self.assertEqual(self.ask(make_request("a", 200), [[0, 1, 3]]), (64, True))
        self.assertEqual(self.client.prefetches, [])

    def test_a_load_has_all_the_time_there_is_because_its_failure_loses_the_request(self):
        self.put(6)
        request = make_request("a", 200)
        self.ask(request, [[0, 1]])
        self.assertEqual(self.load(request, 2).timeout_s, self.side._options.max_wait_s)

    def test_a_ticket_that_does_not_come_is_a_miss(self):
        self.put(6)
        request = make_request("a", 200)
        self.matched(request)
        self.clock.now += 1
        self.assertEqual(self.matched(request), (0, False))
        self.side.finished("a")
        self.client.tickets[0][2].end(kvtier.Ticket(b"t" * 16, [[0]]))  # The ticket comes late and is released.
        self.assertEqual(self.client.released, [b"t" * 16])

    def test_the_ticket_is_let_go_of_behind_the_load(self):
        self.put(6)
        request = make_request("a", 200)
        self.ask(request, [[0, 1]])
        self.load(request, 2)
        self.assertEqual(self.client.released, [])
        self.side.workers_answered(NOTHING, frozenset(["a"]), NOTHING)
        self.assertEqual(self.client.released, [b"t" * 16])

    def test_an_old_ticket_is_taken_anew(self):
        self.put(6)
        request = make_request("a", 200)
        self.ask(request, [[0, 1]])
        self.clock.now += 50
        self.assertEqual(self.ask(request, [[0]]), (32, True))
        self.assertEqual(len(self.client.tickets), 2)


if __name__ == "__main__":
    unittest.main()
