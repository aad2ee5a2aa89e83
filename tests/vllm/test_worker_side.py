"""The connector in a worker: loads, saves, and what a step must wait for."""

import unittest

import kvtier
import stand_ins
from kvtier.vllm.metadata import NO_BLOCK, Load, Save, StepPlan
from kvtier.vllm.worker_side import WorkerSide
from stand_ins import make_keys

BLOCK_BYTES = 4096


class WithWorker(unittest.TestCase):
    GROUPS = 1

    def setUp(self):
        self.clock = stand_ins.Clock()
        self.opened = []  # (digest, lanes)
        self.side = WorkerSide(self.open_lanes, "w", [BLOCK_BYTES] * self.GROUPS, 0.002, self.clock)

    def open_lanes(self, digest):
        lanes = [stand_ins.RecordedLanes() for _ in range(self.GROUPS)]
        self.opened.append((digest, lanes))
        return lanes

    @property
    def lanes(self):
        return self.opened[-1][1]

    def load(self, name, *groups):
        self.side.load([Load(name, tuple(make_keys(len(groups[0]))), groups, 0.5)])

    def save(self, *groups):
        self.side.save([Save(tuple(make_keys(len(groups[0]))), None, groups)])


class OnAGpu(WithWorker):
    def test_copies_come_behind_the_stream_that_is_current_when_they_begin(self):
        streams = iter((7, 8))
        self.side = WorkerSide(self.open_lanes, "w", [BLOCK_BYTES], 0.002, self.clock, lambda: next(streams))
        self.load("a", (3, 2))
        self.save((1,))
        self.assertEqual(self.lanes[0].streams, [7, 8])

    def test_copies_of_host_memory_come_behind_none(self):
        self.load("a", (3, 2))
        self.save((1,))
        self.assertEqual(self.lanes[0].streams, [None, None])


class SavesOfAnotherRank(WithWorker):
    GROUPS = 2

    def test_are_left_to_it_and_its_blocks_are_loaded(self):
        self.side = WorkerSide(self.open_lanes, "w", [BLOCK_BYTES] * 2, 0.002, self.clock, unsaved_groups=[0])
        self.save((1, 2), (3, 4))
        self.load("a", (5, 6), (7, 8))
        self.assertEqual([len(lanes.offloads) for lanes in self.lanes], [0, 1])
        self.assertEqual([len(lanes.onboards) for lanes in self.lanes], [1, 1])
        self.assertEqual(self.side.counts.take(), {})


class Hints(WithWorker):
    def test_each_job_carries_that_of_its_request(self):
        hint = kvtier.ReuseHint(turn=2)
        self.side.load([Load("a", tuple(make_keys(1)), ((3,),), 0.5, hint)])
        self.side.save([Save(tuple(make_keys(1)), None, ((4,),), hint)])
        self.side.save([Save((make_keys(2)[1],), None, ((5,),))])
        self.assertEqual(self.lanes[0].hints, [hint, hint, kvtier.ReuseHint()])


class StepsThatComputeNothing(WithWorker):
    def test_wait_for_the_oldest_load_and_no_longer_than_a_step_may_be_held(self):
        self.side.await_load()  # There is no load yet.
        self.load("a", (3, 2))
        self.load("b", (4, 5))
        self.side.await_load()
        first, second = self.lanes[0].onboards
        self.assertEqual((len(first.waits), second.waits), (1, []))
        self.assertTrue(0 < first.waits[0] < 0.002)

    def test_a_wait_that_fails_fails_no_step(self):
        self.load("a", (3, 2))
        self.lanes[0].onboards[0].wait = lambda timeout_s: 1 / 0
        with self.assertLogs("vllm.kvtier", "ERROR"):
            self.side.await_load()


class Loads(WithWorker):
    def test_are_answered_once_when_they_have_ended(self):
        self.load("a", (3, 2, 1))
        [job] = self.lanes[0].onboards
        self.assertEqual((job.keys, job.blocks, job.timeout_s), (make_keys(3), [3, 2, 1], 0.5))
        self.assertEqual(self.side.take_results().received, set())
        job.end()
        results = self.side.take_results()
        self.assertEqual((results.received, results.failed, results.failed_blocks), ({"a"}, set(), set()))
        for _ in range(3):
            self.assertEqual(self.side.take_results().received, set())
        self.assertEqual(self.side.counts.take(), {"loaded_blocks": 3, "loaded_bytes": 3 * BLOCK_BYTES})

    def test_fail_block_by_block_in_the_pass_that_answers_them(self):
        self.load("a", (3, 2, 1))
        self.lanes[0].onboards[0].end([True, False, True])
        results = self.side.take_results()
        self.assertEqual((results.received, results.failed, results.failed_blocks), ({"a"}, {"a"}, {2}))
        self.assertEqual(self.side.take_results().failed_blocks, set())

    def test_without_room_have_failed_at_once(self):
        self.lanes[0].full = True
        self.load("a", (3, 2))
        results = self.side.take_results()
        self.assertEqual((results.received, results.failed_blocks), ({"a"}, {2, 3}))
        self.assertEqual(self.side.counts.take(), {"load_refused_blocks": 2, "load_failed_blocks": 2})

    def test_that_cannot_be_have_failed_and_raise_nothing(self):
        self.lanes[0].onboard = lambda *arguments: 1 / 0
        with self.assertLogs("vllm.kvtier", "ERROR"):
            self.load("a", (3, 2))
        self.assertEqual(self.side.take_results().failed_blocks, {2, 3})

    def test_with_fewer_keys_than_blocks_have_failed(self):
        self.side.load([Load("a", tuple(make_keys(1)), ((3, 2),), 0.5)])
        self.assertEqual(self.side.take_results().failed_blocks, {2, 3})
        self.assertEqual(self.lanes[0].onboards, [])

    def test_of_one_step_are_apart(self):
        self.load("a", (1,))
        self.load("b", (2,))
        self.lanes[0].onboards[1].end()
        self.assertEqual(self.side.take_results().received, {"b"})


    # The second load of a name once took the place of the first, whose copies then went on into blocks that the engine
    # had given to others.
    def test_of_an_aborted_request_and_another_of_its_name_are_answered_when_both_have_ended(self):
        self.load("a", (1, 2))
        self.load("a", (3,))
        first, second = self.lanes[0].onboards
        second.end()
        self.assertEqual(self.side.take_results().received, set())
        first.end([True, False])
        results = self.side.take_results()
        self.assertEqual((results.received, results.failed, results.failed_blocks), ({"a"}, {"a"}, {2}))
        self.assertEqual(self.side.take_results().received, set())
        self.assertEqual(self.side.counts.take()["loaded_blocks"], 2)

    def test_of_one_name_in_one_step_each_have_their_own_blocks(self):
        self.side.load([Load("a", tuple(make_keys(1)), ((block,),), 0.5) for block in (4, 5)])
        self.assertEqual([job.blocks for job in self.lanes[0].onboards], [[4], [5]])


class Groups(WithWorker):
    GROUPS = 2

    def test_a_load_has_ended_when_all_groups_have_and_fails_with_any(self):
        self.load("a", (1, 2, 3), (NO_BLOCK, 12, 13))
        self.assertEqual(self.lanes[1].onboards[0].keys, make_keys(3)[1:])  # A window needs the last blocks.
        self.lanes[0].onboards[0].end()
        self.assertEqual(self.side.take_results().received, set())
        self.lanes[1].onboards[0].end([True, False])
        results = self.side.take_results()
        self.assertEqual((results.received, results.failed), ({"a"}, {"a"}))

    def test_a_save_goes_to_all_groups(self):
        self.save((1, 2), (11, 12))
        self.assertEqual([lanes.offloads[0].blocks for lanes in self.lanes], [[1, 2], [11, 12]])


class Saves(WithWorker):
    def test_without_room_are_not_saved_and_nothing_grows(self):
        self.lanes[0].full = True
        for _ in range(1000):
            self.save((1, 2))
        self.assertEqual(self.side._saves, [])
        self.assertEqual(self.side.counts.take(), {"save_refused_blocks": 2000, "unsaved_blocks": 2000})

    def test_are_counted_when_they_have_ended(self):
        self.save((1, 2, 3))
        self.lanes[0].offloads[0].end([True, False, True])
        self.side.take_results()
        self.side.take_results()
        self.assertEqual(self.side.counts.take(),
                         {"saved_blocks": 2, "saved_bytes": 2 * BLOCK_BYTES, "unsaved_blocks": 1})


    # Blocks that two requests of one step had computed were once counted as unsaved, although one of the two saved them.
    def test_a_block_that_is_being_saved_for_another_request_is_left_to_it_and_counted_once(self):
        keys = tuple(make_keys(5))
        self.side.save([Save(keys[1:3], keys[0], ((1, 2),)), Save(keys, None, ((10, 11, 12, 13, 14),))])
        self.assertEqual([(job.keys, job.blocks, job.parent) for job in self.lanes[0].offloads],
                         [(list(keys[1:3]), [1, 2], keys[0]), ([keys[0]], [10], None), (list(keys[3:]), [13, 14], keys[2])])
        for job in self.lanes[0].offloads:
            job.end()
        self.side.take_results()
        self.assertEqual(self.side.counts.take(), {"saved_blocks": 5, "saved_bytes": 5 * BLOCK_BYTES})

    def test_a_block_whose_save_has_ended_is_saved_again_if_it_is_asked_for(self):
        self.save((1,))
        self.lanes[0].offloads[0].end([False])
        self.side.take_results()
        self.save((2,))
        self.assertEqual(self.lanes[0].offloads[1].blocks, [2])

    def test_a_block_that_is_being_saved_for_an_earlier_epoch_is_saved(self):
        self.save((1,))
        self.side.prepare(StepPlan(weights_digest="e"))
        self.save((2,))
        self.assertEqual(self.lanes[0].offloads[0].blocks, [2])
        self.side.close()


class Preemption(WithWorker):
    def test_copies_out_of_blocks_that_the_step_writes_end_first(self):
        self.save((1, 2, 3))
        self.side.prepare(StepPlan(written={3, 4}))
        [(blocks, wait_s)] = self.lanes[0].awaited
        self.assertEqual(blocks, [3])
        self.assertAlmostEqual(wait_s, 0.002)
        self.assertEqual(self.side.counts.take(), {"preemption_waits": 1})

    def test_nothing_waits_for_other_blocks_or_for_copies_that_have_ended(self):
        self.save((1, 2, 3))
        self.side.prepare(StepPlan(written={4}))
        self.lanes[0].offloads[0].copied = True
        self.side.prepare(StepPlan(written={3}))
        self.assertEqual(self.lanes[0].awaited, [])

    def test_a_copy_that_does_not_end_is_given_up_by_the_lanes(self):
        self.save((1, 2))
        self.lanes[0].ends_in_time = False
        self.side.prepare(StepPlan(written={2}))
        self.assertEqual(self.side.counts.take(), {"given_up_blocks": 1, "preemption_waits": 1})
        self.assertEqual(len(self.opened), 1)


class Epochs(WithWorker):
    def test_a_reset_gives_up_saves_at_once_and_ends_what_was_under_way_beside_the_step(self):
        self.load("a", (7,))
        self.save((8,))
        left = self.lanes[0]
        left.ends_in_time = False
        self.side.prepare(StepPlan(weights_digest="e"))
        self.assertEqual(left.awaited, [([8], 0.0)])
        self.side.close()  # Waits for lanes that are being ended.
        self.assertTrue(left.closed)
        self.assertEqual([digest for digest, _ in self.opened], ["w", "e"])
        self.assertEqual(self.side.take_results().failed_blocks, {7})
        self.side.prepare(StepPlan(weights_digest="e"))
        self.assertEqual(len(self.opened), 2)


class Closing(WithWorker):
    def test_ends_the_lanes_and_what_is_asked_later_fails(self):
        lanes = self.lanes[0]
        self.side.close()
        self.assertTrue(lanes.closed)
        self.load("a", (1,))
        self.save((2,))
        self.assertEqual(self.side.take_results().failed_blocks, {1})
        self.assertEqual(self.side.counts.take()["unsaved_blocks"], 1)


class Sleep(WithWorker):
    def test_ends_all_copies_and_begins_anew_on_the_same_tensors(self):
        self.load("a", (7,))
        self.side.leave_memory()
        self.assertTrue(self.lanes[0].closed)
        self.assertEqual(self.side.take_results().failed_blocks, {7})
        self.load("b", (8,))
        self.assertEqual(self.side.take_results().failed_blocks, {8})
        self.side.return_to_memory()
        self.side.return_to_memory()
        self.assertEqual([digest for digest, _ in self.opened], ["w", "w"])
        self.load("c", (9,))
        self.assertEqual(self.lanes[0].onboards[0].blocks, [9])


if __name__ == "__main__":
    unittest.main()
