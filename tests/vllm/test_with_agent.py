"""Both sides of the connector on a real agent, which is stopped and killed while they work."""

import time
import unittest
from types import SimpleNamespace
from unittest import mock

import kvtier
import stand_ins
import vllm_stub
from agent_rig import BLOCKS, Agent, EngineMemory, Memory, WithAgent, eventually
from kvtier.vllm.metadata import Load, Save, StepPlan
from kvtier.vllm.options import parse_options
from kvtier.vllm.scheduler_side import SchedulerSide
from stand_ins import BLOCK_TOKENS, Step, make_keys, make_request
from tensor import Tensor
from test_connector import WithConnector
from test_weights import SIZE, WithFolder
from vllm_config import NAMES, MLAAttentionSpec, make_cache_config, make_config

vllm_stub.install()
from kvtier.vllm import KvtierConnector  # noqa: E402 (the stubs come first)

# A call that waits for a stopped agent waits for 2 s, the client's timeout; any other takes microseconds.
AT_ONCE_S = 0.5


class WithBothSides(WithAgent):
    def setUp(self):
        super().setUp()
        self.scheduler = self.open_scheduler(recompute_tokens_per_s=100)

    def at_once(self, call, *arguments):
        began = time.monotonic()
        result = call(*arguments)
        self.assertLess(time.monotonic() - began, AT_ONCE_S, call)
        return result


class RoundTrip(WithBothSides):
    def test_what_was_saved_is_offered_and_loaded_into_other_blocks(self):
        self.save([1, 2, 3])
        request = make_request("a", 200)
        self.assertTrue(eventually(lambda: self.scheduler.matched_tokens(request, 0) == (96, True)))
        self.scheduler.allocated(request, ([11, 12, 13],), 96)
        self.worker.load(self.scheduler.plan(Step()).loads)
        self.assertEqual(self.answered("a"), set())
        self.assertEqual([self.memory.runs(block) for block in (11, 12, 13)], [self.memory.runs(block) for block in (1, 2, 3)])

    def test_a_reset_makes_it_all_a_miss(self):
        self.save([1, 2, 3])
        self.scheduler.reset()
        plan = self.scheduler.plan(Step())
        self.worker.prepare(plan)
        self.assertEqual(self.scheduler.matched_tokens(make_request("a", 200), 0), (0, False))
        self.load("a", [11, 12, 13])
        self.assertEqual(self.answered("a"), {11, 12, 13})

        def is_saved_anew():
            self.save([1, 2, 3])  # Blocks that come before the agent knows the new spaces are not stored.
            return self.scheduler.matched_tokens(make_request("b", 200), 0) == (96, True)

        self.assertTrue(eventually(is_saved_anew))


class Failures(WithBothSides):
    def begin(self):
        self.save([1, 2, 3])
        self.assertTrue(eventually(lambda: self.scheduler.matched_tokens(make_request("w", 200), 0) == (96, True)))

    def everything_at_once(self, name):
        """Makes all calls of a step; each answers without the agent. Returns the load's blocks that did not come."""
        request = make_request(name, 200)
        self.at_once(self.scheduler.matched_tokens, request, 0)
        self.at_once(self.scheduler.allocated, request, ([11, 12, 13],), 96)
        plan = self.at_once(self.scheduler.plan, Step())
        self.at_once(self.worker.prepare, plan)
        self.at_once(self.worker.load, plan.loads)
        self.at_once(self.worker.save, [Save(tuple(make_keys(2)), None, ((5, 6),))])
        results = self.at_once(self.worker.take_results)
        # The step that would overwrite what is being saved waits for 2 ms at most, and gives the copies up.
        self.at_once(self.worker.prepare, StepPlan(written={5, 6}))
        return results.failed_blocks if name in results.received else self.answered(name)

    def test_a_stopped_agent_holds_no_step_and_its_loads_end(self):
        self.begin()
        self.agent.stop()
        self.assertEqual(self.everything_at_once("a"), {11, 12, 13})
        self.agent.go_on()

    def test_a_killed_agent_holds_no_step_and_its_loads_end(self):
        self.begin()
        self.agent.kill()
        self.assertEqual(self.everything_at_once("a"), {11, 12, 13})
        self.assertTrue(eventually(lambda: self.scheduler.matched_tokens(make_request("b", 200), 0) == (0, False)))


class Engine:
    """Both sides of the connector on a model's folder and real memory, as one process that starts now."""

    def __init__(self, test, folder):
        config = make_config(extra={"socket_dir": test.agent.socket_dir, "weights_digest": ""})
        config.model_config.model = str(folder)
        self.memory = EngineMemory()
        roles = vllm_stub.KVConnectorRole
        self.worker, self.scheduler = (KvtierConnector(config, role, kv_cache_config=make_cache_config(blocks=BLOCKS))
                                       for role in (roles.WORKER, roles.SCHEDULER))
        test.addCleanup(self.scheduler.shutdown)
        test.addCleanup(self.worker.shutdown)
        self.worker.register_kv_caches(dict(zip(NAMES, self.memory.tensors.values())))
        self.scheduler.set_xfer_handshake_metadata_pp_aware({(0, 0): self.worker.get_handshake_metadata()})
        self.saved = 0

    def step(self, scheduled):
        return WithConnector.step(self, scheduled)

    def compute(self, name):
        """Computes six blocks of a request, and decodes until they are saved. Returns whether they are."""
        for block in range(1, 8):
            self.memory.fill(block)
        self.scheduler.get_num_new_matched_tokens(make_request(name, 200), 0)
        self.step(Step().new(name, 0, 200, list(range(1, 8))))
        return eventually(self._all_saved)

    def _all_saved(self):
        self.step(Step().cached("a", 200, 1))
        counted = self.worker.get_kv_connector_stats()
        self.saved += counted.data.get("saved_blocks", 0) if counted is not None else 0
        return self.saved == 6

    def matched(self, name):
        return self.scheduler.get_num_new_matched_tokens(make_request(name, 200), 0)


class KvOfOtherWeightsIsNoHit(WithFolder):
    """With all MLPs changed, which leave the ends of a shard as they are, a new engine loaded the KV of the old model."""

    def test_and_that_of_the_same_weights_is_one_for_the_first_request(self):
        self.agent = Agent(self)
        self.agent.connect()
        first = Engine(self, self.folder)
        self.assertTrue(first.compute("a"))
        again = Engine(self, self.folder)
        self.assertEqual(again.matched("b"), (192, True))
        again.scheduler.update_state_after_alloc(make_request("b", 200), SimpleNamespace(
            get_block_ids=lambda: (list(range(11, 17)),)), 192)
        self.assertTrue(eventually(lambda: again.step(Step()).finished_recving == {"b"}))
        self.assertEqual([again.memory.runs(block) for block in range(11, 17)],
                         [first.memory.runs(block) for block in range(1, 7)])
        for place in (SIZE // 3, SIZE // 2):
            self.change(self.shard, place)
            other = Engine(self, self.folder)
            self.assertTrue(eventually(lambda: other.step(Step()) and other.scheduler._scheduler._spaces))
            self.assertFalse(eventually(lambda: other.step(Step()) and other.matched("c")[0], seconds=0.3))
            self.assertTrue(other.compute("a"))
            self.assertEqual(other.matched("d"), (192, True))  # Its own blocks are a hit.


class LatentAttentionOfEightRanks(unittest.TestCase):
    """Eight ranks that put the same ten blocks kept 80, because each had a space of its own."""

    RANKS = 8
    ROW = 96

    def setUp(self):
        self.agent = Agent(self)
        self.config = make_config(extra={"socket_dir": self.agent.socket_dir}, tensor_parallel_size=self.RANKS)
        self.cache = make_cache_config(MLAAttentionSpec(block_size=BLOCK_TOKENS, num_kv_heads=1, head_size=self.ROW),
                                       blocks=BLOCKS)
        self.agent.connect()
        self.memories = [Memory(len(NAMES) * BLOCKS * BLOCK_TOKENS * self.ROW * 4) for _ in range(self.RANKS)]
        self.ranks = [self.open_rank(rank, memory) for rank, memory in enumerate(self.memories)]

    def open_rank(self, rank, memory):
        layer = BLOCKS * BLOCK_TOKENS * self.ROW
        tensors = {name: Tensor((BLOCKS, BLOCK_TOKENS, self.ROW), memory, offset=i * layer) for i, name in enumerate(NAMES)}
        connector = KvtierConnector(self.config, vllm_stub.KVConnectorRole.WORKER, kv_cache_config=self.cache)
        self.addCleanup(connector.shutdown)
        with mock.patch.object(KvtierConnector, "_ranks", lambda self: (rank, 0)):
            connector.register_kv_caches(tensors)
        return connector

    def step(self, rank, **work):
        rank.bind_connector_metadata(SimpleNamespace(plan=StepPlan(**work)))
        rank.start_load_kv(None)
        rank.wait_for_save()

    def block(self, rank, block):
        """Returns a block's bytes, all layers."""
        size = BLOCK_TOKENS * self.ROW * 4
        return b"".join(bytes(self.memories[rank].bytes[start:start + size])
                        for start in ((i * BLOCKS + block) * size for i in range(len(NAMES))))

    def test_ten_blocks_are_kept_once_and_every_rank_loads_them(self):
        for memory in self.memories:
            for i in range(len(memory.bytes) // 4096):
                memory.bytes[i * 4096] = i % 251
        blocks = tuple(range(1, 11))
        for rank in self.ranks:
            self.step(rank, saves=[Save(tuple(make_keys(10)), None, (blocks,))])
        self.assertTrue(eventually(lambda: all(rank._worker.take_results() and not rank._worker._saves for rank in self.ranks)))
        self.assertEqual(self.agent.host_blocks(), 10)
        counted = [rank.get_kv_connector_stats() for rank in self.ranks]
        self.assertEqual([stats and stats.data for stats in counted[1:]], [None] * 7)
        self.assertEqual(counted[0].data["saved_blocks"], 10)
        came = [self.block(0, block) for block in blocks]
        self.assertEqual(len(set(came)), 10)
        for number, rank in enumerate(self.ranks):
            self.step(rank, loads=[Load("a", tuple(make_keys(10)), (tuple(range(11, 21)),), 5.0)])
            self.assertTrue(eventually(lambda: rank.get_finished(set())[1] == {"a"}))
            self.assertEqual(rank.get_block_ids_with_load_errors(), set())
            self.assertEqual([self.block(number, block) for block in range(11, 21)], came)


class LogLines(unittest.TestCase):
    """A user reads each change once, whatever is asked meanwhile."""

    def setUp(self):
        self.lines = []
        kvtier.set_logger(lambda level, line: self.lines.append(line))
        self.addCleanup(kvtier.set_logger, None)
        self.agent = Agent(self)

    def said(self, what):
        return sum(what in line for line in self.lines)

    def test_an_agent_that_goes_and_comes_back_is_one_line_each_time(self):
        client = self.agent.connect()
        scheduler = SchedulerSide(client, parse_options({"peers": False}), BLOCK_TOKENS, False)
        scheduler.accept_spaces({(0, 0): [stand_ins.spec()]})
        self.assertTrue(eventually(lambda: self.said("connected to the agent") == 1))
        for turn in (1, 2):
            self.agent.kill()
            self.assertTrue(eventually(lambda: self.said("serving misses: UNAVAILABLE: no agent listens at") >= turn))
            for step in range(500):
                scheduler.matched_tokens(make_request(f"{turn}.{step}", 200), 0)
                scheduler.plan(Step())
            self.agent.start()
            self.assertTrue(eventually(lambda: self.said("connected to the agent") == turn + 1))
        self.assertLessEqual(len(self.lines), 16, self.lines)
        self.assertIn(self.agent.socket_dir, next(line for line in self.lines if "no agent listens at" in line))

    def test_an_engine_that_starts_without_an_agent_is_told_what_to_do(self):
        self.agent.kill()
        config = make_config(extra={"socket_dir": self.agent.socket_dir})
        with self.assertLogs("vllm.kvtier", "WARNING") as logged:
            connector = KvtierConnector(config, vllm_stub.KVConnectorRole.SCHEDULER, kv_cache_config=make_cache_config())
        self.addCleanup(connector.shutdown)
        [line] = [line for line in logged.output if "start kvtier-agent --socket_dir=" in line]
        self.assertIn(f"no agent serves this engine in socket_dir '{self.agent.socket_dir}'", line)


if __name__ == "__main__":
    unittest.main()
