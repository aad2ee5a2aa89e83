"""Both sides of the connector on a real agent, which is stopped and killed while they work.

Run by CTest with KVTIER_AGENT, the program. The engine's tensors are stand-ins over memory of this process.
"""

import ctypes
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import kvtier
import stand_ins
from kvtier.vllm.kv_layout import lay_out
from kvtier.vllm.metadata import Load, Save, StepPlan
from kvtier.vllm.options import parse_options
from kvtier.vllm.scheduler_side import SchedulerSide
from kvtier.vllm.space import space_of_epoch
from kvtier.vllm.worker_side import WorkerSide
from stand_ins import BLOCK_TOKENS, Step, make_keys, make_request
from tensor import Storage, Tensor

BLOCKS, HEADS, LAYERS, DIM = 24, 3, 2, 64
RUN_BYTES = HEADS * BLOCK_TOKENS * DIM * 4
# Calls that wait for a stopped agent wait for 2 s, the client's timeout; those that do not take microseconds.
AT_ONCE_S = 0.5


class Memory(Storage):
    """Storage that is there."""

    def __init__(self, size):
        self.bytes = (ctypes.c_ubyte * size)()
        self._address, self._size = ctypes.addressof(self.bytes), size


def eventually(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


class WithAgent(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.sums = {}  # Of the worker's counts, since await_saved() began.
        self.agent = subprocess.Popen(
            [os.environ["KVTIER_AGENT"], "--node_id=a", f"--socket_dir={folder.name}", "--host_bytes=16MiB",
             "--slab_bytes=4MiB", "--listen=127.0.0.1:0", "--advertise=127.0.0.1:1"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.agent.wait)
        self.addCleanup(self.agent.kill)
        self.memory = Memory(LAYERS * BLOCKS * RUN_BYTES)
        layers = [(f"l{i}", Tensor((BLOCKS, HEADS, BLOCK_TOKENS, DIM), self.memory, offset=i * BLOCKS * RUN_BYTES // 4))
                  for i in range(LAYERS)]
        self.layout = lay_out(layers, BLOCKS, HEADS, BLOCK_TOKENS)
        spec = stand_ins.spec(block_bytes=self.layout.block_bytes, layers=LAYERS, layout=self.layout.stored)
        self.client, scheduler_client = self.connect(folder.name), self.connect(folder.name)
        self.worker = WorkerSide(lambda epoch: self.open_lanes(spec, epoch), [self.layout.block_bytes], 0.1)
        self.addCleanup(self.worker.close)
        options = parse_options({"recompute_tokens_per_s": 100, "peers": False})
        self.scheduler = SchedulerSide(scheduler_client, options, BLOCK_TOKENS, False)
        self.scheduler.accept_spaces([spec])

    def connect(self, socket_dir):
        client = kvtier.Client(socket_dir)
        self.addCleanup(client.close)
        self.assertTrue(eventually(lambda: client.connected))
        return client

    def open_lanes(self, spec, epoch):
        space = self.client.register_space(space_of_epoch(spec, epoch))
        return [kvtier.Lanes(self.client, space, self.layout.memory)]

    def runs(self, block):
        """The bytes of a block's runs, by layer."""
        starts = [(layer * BLOCKS + block) * RUN_BYTES for layer in range(LAYERS)]
        return [bytes(self.memory.bytes[start:start + RUN_BYTES]) for start in starts]

    def fill(self, block):
        for layer in range(LAYERS):
            start = (layer * BLOCKS + block) * RUN_BYTES
            ctypes.memset(ctypes.addressof(self.memory.bytes) + start, 16 * layer + block, RUN_BYTES)

    def save(self, blocks):
        for block in blocks:
            self.fill(block)
        self.worker.save([Save(tuple(make_keys(len(blocks))), None, (tuple(blocks),))])

    def counted(self):
        self.worker.take_results()
        for name, amount in self.worker.counts.take().items():
            self.sums[name] = self.sums.get(name, 0) + amount
        return self.sums

    def await_saved(self, count):
        self.sums = {}
        self.assertTrue(eventually(lambda: self.counted().get("saved_blocks", 0) == count), self.sums)

    def await_load(self, name):
        """Returns the results of the pass that answers the load."""
        passes = []

        def answered():
            passes.append(self.worker.take_results())
            return name in passes[-1].received

        self.assertTrue(eventually(answered))
        return passes[-1]

    def at_once(self, call, *arguments):
        began = time.monotonic()
        result = call(*arguments)
        self.assertLess(time.monotonic() - began, AT_ONCE_S, call)
        return result


class RoundTrip(WithAgent):
    def test_what_was_saved_is_offered_and_loaded_into_other_blocks(self):
        self.save([1, 2, 3])
        self.await_saved(3)
        request = make_request("a", 200)
        self.assertTrue(eventually(lambda: self.scheduler.matched_tokens(request, 0) == (96, True)))
        self.scheduler.allocated(request, ([11, 12, 13],), 96)
        self.worker.load(self.scheduler.plan(Step()).loads)
        results = self.await_load("a")
        self.assertEqual(results.failed_blocks, set())
        self.assertEqual([self.runs(block) for block in (11, 12, 13)], [self.runs(block) for block in (1, 2, 3)])

    def test_a_reset_makes_it_all_a_miss(self):
        self.save([1, 2, 3])
        self.await_saved(3)
        self.scheduler.reset()
        plan = self.scheduler.plan(Step())
        self.worker.prepare(plan)
        self.assertEqual(self.scheduler.matched_tokens(make_request("a", 200), 0), (0, False))
        self.worker.load([Load("a", tuple(make_keys(3)), ((11, 12, 13),), 0.5)])
        self.assertEqual(self.await_load("a").failed_blocks, {11, 12, 13})
        self.save([1, 2, 3])
        self.await_saved(3)
        self.assertTrue(eventually(lambda: self.scheduler.matched_tokens(make_request("b", 200), 0) == (96, True)))


class Failures(WithAgent):
    def begin(self):
        self.save([1, 2, 3])
        self.await_saved(3)
        self.assertTrue(eventually(lambda: self.scheduler.matched_tokens(make_request("w", 200), 0) == (96, True)))

    def is_stopped(self):
        """Whether each of the agent's threads is: a signal takes its time."""
        stats = [path.read_text() for path in Path(f"/proc/{self.agent.pid}/task").glob("*/stat")]
        return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)

    def everything_at_once(self, name):
        """Calls all that a step calls, each of which answers without the agent. Returns the load's results."""
        request = make_request(name, 200)
        self.at_once(self.scheduler.matched_tokens, request, 0)
        self.at_once(self.scheduler.allocated, request, ([11, 12, 13],), 96)
        plan = self.at_once(self.scheduler.plan, Step())
        self.at_once(self.worker.prepare, plan)
        self.at_once(self.worker.load, plan.loads)
        self.at_once(self.worker.save, [Save(tuple(make_keys(2)), None, ((5, 6),))])
        results = self.at_once(self.worker.take_results)
        # The step that would overwrite what is being saved waits for 0.1 s at most, and gives the copies up.
        self.at_once(self.worker.prepare, StepPlan(written={5, 6}))
        return results if name in results.received else self.await_load(name)

    def test_a_stopped_agent_holds_no_step_and_its_loads_end(self):
        self.begin()
        self.agent.send_signal(signal.SIGSTOP)
        self.assertTrue(eventually(self.is_stopped))
        self.assertEqual(self.everything_at_once("a").failed_blocks, {11, 12, 13})
        self.agent.send_signal(signal.SIGCONT)

    def test_a_killed_agent_holds_no_step_and_its_loads_end(self):
        self.begin()
        self.agent.kill()
        self.agent.wait()
        self.assertEqual(self.everything_at_once("a").failed_blocks, {11, 12, 13})
        self.assertTrue(eventually(lambda: self.scheduler.matched_tokens(make_request("b", 200), 0) == (0, False)))


if __name__ == "__main__":
    unittest.main()
