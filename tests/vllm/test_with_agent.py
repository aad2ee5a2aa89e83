"""Both sides of the connector on a real agent, which is stopped and killed while they work."""

import time
import unittest

import kvtier
import stand_ins
import vllm_stub
from agent_rig import Agent, WithAgent, eventually
from kvtier.vllm.metadata import Save, StepPlan
from kvtier.vllm.options import parse_options
from kvtier.vllm.scheduler_side import SchedulerSide
from stand_ins import BLOCK_TOKENS, Step, make_keys, make_request
from vllm_config import make_cache_config, make_config

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
        scheduler.accept_spaces([stand_ins.spec()])
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
