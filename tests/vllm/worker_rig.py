"""A worker's side of the connector on a real agent, for the tests that need both."""

import unittest

import kvtier
import stand_ins
from agent_rig import LAYERS, Agent, EngineMemory, eventually
from kvtier.vllm.metadata import Load, Save
from kvtier.vllm.options import Options, parse_options
from kvtier.vllm.scheduler_side import SchedulerSide
from kvtier.vllm.space import space_of_epoch
from kvtier.vllm.worker_side import WorkerSide
from stand_ins import BLOCK_TOKENS, make_keys


class WithAgent(unittest.TestCase):
    """A worker's side on a real agent."""

    FLAGS = ()

    def setUp(self):
        self.agent = Agent(self, *self.FLAGS)
        self.memory = EngineMemory()
        layout = self.memory.layout
        self.spec = stand_ins.spec(block_bytes=layout.block_bytes, layers=LAYERS, layout=layout.stored)
        self.client = self.agent.connect()
        self.worker = self.open_worker(self.client)

    def open_worker(self, client, epoch_of=space_of_epoch):
        def open_lanes(epoch):
            space = client.register_space(epoch_of(self.spec, epoch), 0.0 if epoch else None)
            return [kvtier.Lanes(client, space, self.memory.layout.memory)]
        worker = WorkerSide(open_lanes, [self.memory.layout.block_bytes], Options().preemption_wait_s)
        self.addCleanup(worker.close)
        return worker

    def open_scheduler(self, held=False, **options):
        scheduler = SchedulerSide(self.agent.connect(), parse_options({"peers": False, **options}), BLOCK_TOKENS, held)
        scheduler.accept_spaces([self.spec])
        return scheduler

    def save(self, blocks, worker=None):
        """Saves blocks under the first keys, and waits until they are stored."""
        worker = worker or self.worker
        for block in blocks:
            self.memory.fill(block)
        worker.save([Save(tuple(make_keys(len(blocks))), None, (tuple(blocks),))])
        self.assertTrue(eventually(lambda: worker.take_results() and not worker._saves))

    def load(self, name, blocks, timeout_s=0.5, worker=None):
        (worker or self.worker).load([Load(name, tuple(make_keys(len(blocks))), (tuple(blocks),), timeout_s)])

    def answered(self, *names, worker=None):
        """Returns the blocks that did not come, when all of these loads are answered, each once."""
        worker, seen, failed = worker or self.worker, [], set()

        def all_are():
            results = worker.take_results()
            seen.extend(results.received)
            failed.update(results.failed_blocks)
            return set(names) <= set(seen)

        self.assertTrue(eventually(all_are), seen)
        self.assertEqual(len(seen), len(set(seen)))
        return failed
