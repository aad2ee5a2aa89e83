"""Promises of the connector to the engine, a class for each line, on the calls in the order that a real engine made.

For a stopped agent, a real kvtier-agent is frozen in the middle, and clients that waited for it would wait for
a minute.
"""

import functools
import json
import threading
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import kvtier
import stand_ins
import vllm_stub
from agent_rig import BLOCKS, Agent, EngineMemory, eventually
from vllm_config import NAMES, SlidingWindowSpec, attention, make_cache_config, make_config
from recording import PROTOCOLS, Recording, calls_of
from stand_ins import Step, make_keys, make_request
from test_connector import WithConnector

from kvtier.vllm import KvtierConnector
from kvtier.vllm import never_raises as border
from kvtier.vllm.connector import KvtierHandshake
from kvtier.vllm.metadata import Load, Save, StepPlan
from kvtier.vllm.stats import sum_of
from kvtier.vllm.worker_side import WorkerSide

BUDGET_S = 0.002
STOPPED_S = 60.0  # Timeout of clients that meet a stopped agent, the longest there is.
# Methods that the engine calls while it starts: they may raise ValueError.
AT_START = {"__init__", "register_kv_caches", "get_handshake_metadata", "set_xfer_handshake_metadata",
            "set_xfer_handshake_metadata_pp_aware", "build_prom_metrics", "build_kv_connector_stats", "requires_kv_delivery"}


def blocks_of(*groups):
    return SimpleNamespace(get_block_ids=lambda: tuple(list(group) for group in groups))


class NoCallHoldsTheStepByAnInjectedClock(unittest.TestCase):
    """Each look at a table takes 1.5 ms here, and each wait takes all of its timeout."""

    def test_looks_of_all_requests_of_a_step_take_its_budget_and_the_last_look(self):
        clock, client = stand_ins.Clock(), stand_ins.TableClient()
        client.clock_cost = (clock, 0.0015)
        side = kvtier.vllm.scheduler_side.SchedulerSide(
            client, kvtier.vllm.options.parse_options({}), stand_ins.BLOCK_TOKENS, False, clock)
        side.accept_spaces({(0, 0): [stand_ins.spec()]})
        for round_ in range(3):
            began, step = clock.now, Step()
            for i in range(50):
                side.matched_tokens(make_request(f"{round_}.{i}", 200), 0)
            for i in range(20):  # The engine had some blocks of these, and the agent may have lost some of them.
                side.allocated(make_request(f"{round_}.{i}", 200), (list(range(1, 8)),), 0)
                step.new(f"{round_}.{i}", 64, 136, list(range(1, 8)))
            side.plan(step)
            side.workers_answered(frozenset([1]), frozenset(), frozenset())
            self.assertLess(clock.now - began, BUDGET_S + 0.0015 + 1e-9)

    def test_copies_out_of_blocks_of_all_groups_are_waited_for_within_one_budget(self):
        clock, opened = stand_ins.Clock(), [stand_ins.RecordedLanes() for _ in range(3)]
        for lanes in opened:
            lanes.ends_in_time = False
            lanes.await_copied = functools.partial(self.wait_to_the_end, clock, lanes.await_copied)
        wait_s = kvtier.vllm.options.Options().preemption_wait_s
        side = WorkerSide(lambda digest: opened, "w", [1, 1, 1], wait_s, clock)
        side.save([Save(tuple(make_keys(2)), None, ((1, 2), (3, 4), (5, 6)))])
        began = clock.now
        side.prepare(StepPlan(written={1, 2, 3, 4, 5, 6}))
        self.assertEqual([len(lanes.awaited) for lanes in opened], [1, 1, 1])
        self.assertLessEqual(clock.now - began, BUDGET_S + 1e-9)
        self.assertEqual(side.counts.take()["given_up_blocks"], 6)

    def wait_to_the_end(self, clock, await_copied, blocks, timeout_s):
        clock.now += timeout_s
        return await_copied(blocks, timeout_s)


class NoCallHoldsTheStepOfAStoppedAgent(unittest.TestCase):
    """Every method is called, in the recorded order, while the agent is stopped."""

    def setUp(self):
        self.agent = Agent(self)
        self.memory = EngineMemory()
        client = mock.patch.object(kvtier, "Client", functools.partial(kvtier.Client, timeout_s=STOPPED_S))
        client.start()
        self.addCleanup(client.stop)
        config = make_config(extra={"socket_dir": self.agent.socket_dir, "recompute_tokens_per_s": 10, "max_wait_s": 60})
        cache_config = make_cache_config(blocks=BLOCKS)
        self.assertTrue(eventually(lambda: (Path(self.agent.socket_dir) / "kvtier.sock").exists()))
        self.worker = KvtierConnector(config, vllm_stub.KVConnectorRole.WORKER, kv_cache_config=cache_config)
        self.worker.register_kv_caches(dict(zip(NAMES, self.memory.tensors.values())))
        self.scheduler = KvtierConnector(config, vllm_stub.KVConnectorRole.SCHEDULER, kv_cache_config=cache_config)
        self.scheduler.set_xfer_handshake_metadata_pp_aware({(0, 0): self.worker.get_handshake_metadata()})
        self.addCleanup(self.end)
        self.called, self.sums = set(), {}

    def end(self):
        self.agent.go_on()
        self.worker.shutdown()
        self.scheduler.shutdown()

    def replay(self, end=None):
        """Makes the recorded calls before the first call of method `end`, and in each step also those not recorded."""
        calls = calls_of(PROTOCOLS[0])
        recording = Recording(self.scheduler, self.worker)
        for place, call in enumerate(calls):
            if call["method"] == end:
                return
            recording.call(calls, place)
            self.called.add(call["method"])
            if call["method"] == "wait_for_save":
                self.beside_a_step()

    def beside_a_step(self):
        for name in NAMES:
            self.worker.wait_for_layer_load(name)
            self.worker.save_kv_layer(name, None, None)
        self.worker.build_connector_worker_meta()
        self.worker.get_finished(set())
        for connector in (self.scheduler, self.worker):
            stats = connector.get_kv_connector_stats()
            self.sums = sum_of(self.sums, stats.data if stats is not None else {})
        self.called |= {"wait_for_layer_load", "save_kv_layer", "build_connector_worker_meta", "get_kv_connector_stats",
                        "get_finished"}

    def all_has_ended(self):
        self.worker.get_finished(set())
        return not self.worker._worker._saves and not self.worker._worker._loads

    def everything(self):
        self.replay()
        self.scheduler.request_finished(make_request("gone", 64), [1, 2])
        self.worker.unregister_kv_caches()
        self.worker.restore_kv_caches()
        self.called |= {"request_finished", "unregister_kv_caches", "restore_kv_caches"}

    def test_and_all_of_them_return_without_it(self):
        self.replay(end="reset_cache")  # The agent lives: the saved blocks are offered later.
        self.assertTrue(eventually(self.all_has_ended))
        self.agent.stop()
        for connector in (self.scheduler, self.worker):
            connector.get_kv_connector_stats()  # Takes the counts so far.
        self.called.clear()
        self.sums = {}
        driver = threading.Thread(target=self.everything, daemon=True)
        driver.start()
        driver.join(STOPPED_S / 2)  # One call that waited for the agent would take twice as long.
        self.assertFalse(driver.is_alive(), "a call waits for the agent")
        self.assertGreaterEqual(self.sums["offered_tokens"], 256)  # The blocks were offered and did not come.
        self.assertNotIn("loaded_blocks", self.sums)
        self.assertEqual(self.sums["resets"], 1)
        engine_facing = set(NothingRaisesIntoTheEngine.ours()) - AT_START - {"shutdown"}
        self.assertEqual(engine_facing - self.called, set())


class NothingRaisesIntoTheEngine(WithConnector):
    """Every method returns its safe answer when clients, lanes, plans or requests raise."""

    ERRORS = (RuntimeError, ValueError, MemoryError, BlockingIOError, TimeoutError, KeyError, AssertionError, OSError)
    SPECS = (attention(),)

    def setUp(self):
        super().setUp()
        log = mock.patch.object(border, "_log")
        self.log = log.start()
        self.addCleanup(log.stop)
        border._failures.clear()

    @classmethod
    def ours(cls):
        """Returns the methods of the engine's interface, in all known versions, that the connector defines itself."""
        paths = (Path(__file__).parent / "signatures").glob("*.json")
        classes = [json.loads(path.read_text(encoding="utf-8"))["classes"] for path in paths]
        return {method for known in classes for name in ("KVConnectorBase_V1", "SupportsHMA") for method in known[name]
                if method in vars(KvtierConnector)}

    def table(self):
        """Returns each method with its arguments and its safe answers."""
        request, meta = make_request("a", 200), SimpleNamespace(plan=self.Raises(RuntimeError))
        nothing = vllm_stub.KVConnectorTransferResults()
        return {
            "get_num_new_matched_tokens": ((request, 0), [(0, False)]),
            "update_state_after_alloc": ((request, blocks_of([1, 2, 3]), 96), [None]),
            "build_connector_meta": ((self.Raises(RuntimeError),), None),
            "update_connector_output": ((self.Raises(RuntimeError),), [None]),
            "request_finished": ((request, [1]), [(False, None)]),
            "request_finished_all_groups": ((request, ([1],)), [(False, None)]),
            "reset_cache": ((), [True, False]),
            "handle_preemptions": ((meta,), [None]), "start_load_kv": ((None,), [None]), "wait_for_save": ((), [None]),
            "wait_for_layer_load": (("l",), [None]), "save_kv_layer": (("l", None, None), [None]),
            "get_finished": ((set(),), [(None, None)]), "get_transfer_results": ((set(),), [nothing]),
            "get_block_ids_with_load_errors": ((), [set()]), "build_connector_worker_meta": ((), [None]),
            "get_kv_connector_stats": ((), None), "unregister_kv_caches": ((), [None]), "restore_kv_caches": ((), [None]),
            "shutdown": ((), [None])}

    class Raises:
        """Raises at every call and attribute."""

        def __init__(self, error):
            self.__dict__["error"] = error

        def __getattr__(self, name):
            raise self.error(f"the test's, for {name}")

    def break_parts(self, error):
        """Makes every call of the clients and the lanes raise."""
        def raises(*arguments, **named):
            raise error("the test's")
        for part in [*self.clients, *self.lanes]:
            for name in dir(part):
                if not name.startswith("_") and callable(getattr(part, name)):
                    setattr(part, name, raises)

    def assert_safe(self, connector, method):
        arguments, answers = self.table()[method]
        answer = getattr(connector, method)(*arguments)
        if answers is not None:
            self.assertIn(answer, answers)
        if method == "build_connector_meta":
            self.assertEqual(answer.plan.saves, [])
            self.assertTrue(answer.plan.writes_unknown)

    def test_the_log_has_the_first_ten_errors_of_each_kind(self):
        for _ in range(50):
            self.scheduler.build_connector_meta(None)
            self.worker.start_load_kv(None)
        self.assertEqual(self.log.exception.call_count, 20)

    def test_every_method_is_in_the_table_or_is_called_at_start(self):
        self.assertEqual(self.ours() - AT_START, set(self.table()))

    def test_when_both_sides_of_the_connector_raise_whatever_is_asked(self):
        for error in self.ERRORS:
            for connector in (self.scheduler, self.worker):
                connector._scheduler = connector._worker = connector._client = self.Raises(error)
                connector.bind_connector_metadata(self.Raises(error))
                for method in self.table():
                    with self.subTest(error=error.__name__, method=method):
                        self.assert_safe(connector, method)

    def test_when_clients_and_lanes_raise_whatever_is_asked(self):
        for error in self.ERRORS:
            self.setUp()
            self.break_parts(error)
            for connector in (self.scheduler, self.worker):
                connector.bind_connector_metadata(SimpleNamespace(plan=StepPlan()))
                for method in self.table():
                    with self.subTest(error=error.__name__, method=method):
                        self.assert_safe(connector, method)

    def test_a_load_that_the_lanes_refuse_by_any_error_is_answered_as_failed(self):
        for error in self.ERRORS:
            with self.subTest(error.__name__):
                self.setUp()
                self.put(3)
                request = self.start_load("a", 3)
                self.break_parts(error)
                output = self.step(Step())
                self.assertEqual((output.finished_recving, output.invalid_block_ids), ({"a"}, {1, 2, 3}))
                self.assertEqual(self.scheduler.get_num_new_matched_tokens(request, 0), (0, False))

    def test_a_load_that_cannot_be_taken_is_answered_as_failed_and_never_asked_for_again(self):
        self.put(3)
        request = make_request("a", 200)
        self.assertEqual(self.scheduler.get_num_new_matched_tokens(request, 0), (96, True))
        with mock.patch.object(self.scheduler._scheduler, "allocated", side_effect=RuntimeError):
            self.scheduler.update_state_after_alloc(request, blocks_of([4, 5, 6]), 96)
        output = self.step(Step())
        self.assertEqual((output.finished_recving, output.invalid_block_ids), ({"a"}, {4, 5, 6}))
        self.assertEqual(self.scheduler.get_num_new_matched_tokens(request, 0), (0, False))

    def test_a_load_whose_blocks_have_no_names_is_answered_as_failed(self):
        self.put(3)
        request = make_request("a", 200)
        self.assertEqual(self.scheduler.get_num_new_matched_tokens(request, 0), (96, True))
        request.block_hashes = None
        self.scheduler.update_state_after_alloc(request, blocks_of([4, 5, 6]), 96)
        output = self.step(Step())
        self.assertEqual((output.finished_recving, output.invalid_block_ids), ({"a"}, {4, 5, 6}))

    def test_a_step_that_cannot_be_planned_keeps_its_loads_and_gives_up_all_saves(self):
        self.start_save()
        self.put(3)
        self.start_load("a", 3)
        self.lanes[0].ends_in_time = False
        meta = self.scheduler.build_connector_meta(SimpleNamespace())
        self.assertEqual(self.log.exception.call_count, 1)
        self.assertEqual([load.request_id for load in meta.plan.loads], ["a"])
        self.worker.handle_preemptions(meta)
        self.assertEqual(self.lanes[0].awaited, [([8, 9], 0.0)])
        # The connector does not know which blocks the request has by now.
        self.assertEqual(self.scheduler.build_connector_meta(Step().cached("s", 64, 64, [10, 11])).plan.saves, [])

    def test_copies_that_cannot_be_waited_for_are_stopped(self):
        self.start_save()
        lanes = self.lanes[0]
        lanes.await_copied = mock.Mock(side_effect=RuntimeError)
        self.step(Step().new("t", 0, 64, [9, 10]))
        self.assertTrue(lanes.closed)
        self.assertEqual(self.step(Step()).finished_recving, set())

    def test_results_that_cannot_be_read_are_failures(self):
        class Unreadable(stand_ins.Job):
            results = property(lambda self: 1 / 0)

        class Unasked(stand_ins.Job):
            done = property(lambda self: 1 / 0, lambda self, value: None)

        for kind in (Unreadable, Unasked):
            with self.subTest(kind.__name__), mock.patch.object(stand_ins, "Job", kind):
                self.setUp()
                self.put(3)
                self.start_load("a", 3)
                output = self.step(Step())
                if kind is Unreadable:
                    self.lanes[0].onboards[0].end()
                    output = self.step(Step())
                self.assertEqual((output.finished_recving, output.invalid_block_ids), ({"a"}, {1, 2, 3}))

    def test_a_reset_without_a_client_is_done_and_nothing_from_before_is_offered(self):
        self.put(3)
        self.clients[-1].register_space = mock.Mock(side_effect=RuntimeError)
        self.assertIs(self.scheduler.reset_cache(), True)
        self.assertEqual(self.scheduler.get_num_new_matched_tokens(make_request("a", 200), 0), (0, False))
        self.assertNotEqual(self.scheduler.build_connector_meta(Step()).plan.weights_digest, self.worker._specs[0].weights_digest)


class AFailedLoadIsAMissAtOnce(WithConnector):
    def test_in_the_pass_that_ends_it_and_for_good(self):
        self.put(3)
        request = self.start_load("a", 3)
        self.step(Step())
        self.lanes[0].onboards[0].end([False, False, False])
        self.assertEqual(self.step(Step()).invalid_block_ids, {1, 2, 3})
        for preemptions in range(3):
            request.num_preemptions = preemptions
            self.assertEqual(self.scheduler.get_num_new_matched_tokens(request, 0), (0, False))
        self.assertEqual(self.clients[-1].prefetches, [])

    def test_one_that_has_no_room_in_the_queue_is_one_in_its_own_step(self):
        self.put(3)
        self.start_load("a", 3)
        self.lanes[0].full = True
        output = self.step(Step())
        self.assertEqual((output.finished_recving, output.invalid_block_ids), ({"a"}, {1, 2, 3}))


class ResultsArePerBlock(WithConnector):
    def test_blocks_that_came_are_kept_and_the_others_are_named(self):
        for place in range(3):
            with self.subTest(failed=place):
                self.setUp()
                self.put(3)
                self.start_load("a", 3)
                self.step(Step())
                self.lanes[0].onboards[0].end([i != place for i in range(3)])
                self.assertEqual(self.step(Step()).invalid_block_ids, {place + 1})
                self.assertEqual(self.worker.get_kv_connector_stats().data["loaded_blocks"], 2)


class ResultsOfSeveralGroupsArePerRequest(WithConnector):
    SPECS = (attention(), attention(SlidingWindowSpec))

    def test_and_a_request_fails_alone(self):
        self.put(3)
        self.start_load("a", 3)
        self.start_load("b", 3, first=11)
        self.step(Step())
        for lanes in self.lanes:
            for job in lanes.onboards:
                job.end()
        self.lanes[1].onboards[1]._results = [True, False, True]
        output = self.step(Step())
        self.assertEqual((output.finished_recving, output.failed_recving), ({"a", "b"}, {"b"}))


class BackPressureInsteadOfQueues(WithConnector):
    def test_what_has_no_room_is_refused_and_nothing_is_kept_for_later(self):
        for lanes in self.lanes:
            lanes.full = True
        self.clients[-1].busy = True
        self.put(3)
        for i in range(200):
            request = self.start_load(f"r{i}", 3)
            output = self.step(Step().new(f"s{i}", 0, 64, [30, 31]))
            self.assertEqual(output.finished_recving, {f"r{i}"})
            self.scheduler.request_finished_all_groups(request, ([1, 2, 3],))
        self.assertEqual((self.worker._worker._loads, self.worker._worker._saves), ({}, []))
        self.assertEqual(self.worker.get_kv_connector_stats().data["load_refused_blocks"], 600)
        self.assertEqual(self.scheduler._scheduler._requests, {})


class ResetsAndWeightUpdatesBumpTheEpoch(WithConnector):
    """vLLM tells of both by reset_cache(): /reset_prefix_cache, and a pause, as before new weights, that clears the cache."""

    def test_nothing_of_before_is_offered_loaded_or_saved_behind_it(self):
        self.put(3)
        self.start_save()
        before = self.worker._spaces[0].spec
        self.lanes[0].ends_in_time = False
        self.assertIs(self.scheduler.reset_cache(), True)
        self.assertEqual(self.scheduler.get_num_new_matched_tokens(make_request("a", 200), 0), (0, False))
        self.step(Step().cached("s", 64, 64, [10, 11]))
        self.assertEqual(self.lanes[0].awaited, [([8, 9], 0.0)])  # The job was given up.
        self.assertEqual(self.lanes[1].offloads, [])  # Its leading blocks were computed with the earlier weights.
        self.assertNotEqual(self.worker._spaces[0].spec, before)
        self.assertEqual(self.worker._spaces[0].spec, self.clients[-1].registered[-1].spec)

    def test_no_two_epochs_are_alike(self):
        for _ in range(3):
            self.scheduler.reset_cache()
        digests = [space.spec.weights_digest for space in self.clients[-1].registered]
        self.assertEqual(len(set(digests)), 4)


class RanksAgreeOnTheHitLength(WithConnector):
    def test_a_prompt_is_loaded_as_far_as_all_ranks_have_it(self):
        ranks = {(0, rank): KvtierHandshake([stand_ins.spec(tp_rank=rank, tp_size=3)]) for rank in range(3)}
        self.scheduler.set_xfer_handshake_metadata_pp_aware(ranks)
        client = self.clients[-1]
        for space, blocks in zip(client.registered[-3:], (5, 3, 4)):
            client.put(space, make_keys(blocks))
        request = make_request("a", 200)
        self.assertEqual(self.scheduler.get_num_new_matched_tokens(request, 0), (96, True))
        self.scheduler.update_state_after_alloc(request, blocks_of([1, 2, 3]), 96)
        [load] = self.scheduler.build_connector_meta(Step()).plan.loads
        self.assertEqual(load, Load("a", tuple(make_keys(3)), ((1, 2, 3),), load.timeout_s))


if __name__ == "__main__":
    unittest.main()
