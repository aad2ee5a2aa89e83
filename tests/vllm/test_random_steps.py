"""Random requests through both sides of the connector, beside a small model of the engine and of its memory.

The seed is printed when a run fails: KVTIER_SEED runs that one alone.
"""

import os
import random
import unittest

import stand_ins
from kvtier.vllm.options import parse_options
from kvtier.vllm.scheduler_side import SchedulerSide
from kvtier.vllm.worker_side import WorkerSide
from stand_ins import BLOCK_TOKENS, Request, Step

SEEDS, STEPS, BLOCKS = 150, 120, 24
RUNNING, WAITING, LOADING = "running", "waiting", "loading"


class CopyingLanes(stand_ins.RecordedLanes):
    """Lanes that copy at random moments between `memory`, a dict by the engine's block, and `store`, a dict by key."""

    def __init__(self, chance, memory, store):
        super().__init__()
        self.chance, self.memory, self.store = chance, memory, store

    def go_on(self, likely=0.4):
        self.full = self.chance.random() < 0.1
        for job in [job for job in self.offloads if not job.done and self.chance.random() < likely]:
            self.copy(job)
        for job in [job for job in self.onboards if not job.done and self.chance.random() < likely]:
            came = [key in self.store and self.chance.random() < 0.9 for key in job.keys]
            for key, block, good in zip(job.keys, job.blocks, came):
                self.memory[block] = self.store[key] if good else "void"
            job.end(came)

    def copy(self, job):
        self.store.update({key: self.memory[block] for key, block in zip(job.keys, job.blocks)})
        job.end()

    def await_copied(self, blocks, timeout_s):
        reading = [job for job in self.offloads if not job.done and set(job.blocks) & set(blocks)]
        in_time = self.chance.random() < 0.7
        for job in reading:
            if in_time:
                self.copy(job)
            else:  # Blocks that are asked for are given up one by one; the others are copied later, or now.
                kept = [block not in blocks for block in job.blocks]
                self.store.update({key: self.memory[block] for key, block, good in zip(job.keys, job.blocks, kept) if good})
                job.end(kept)
        return in_time

    def close(self):
        super().close()
        self.onboards, self.offloads = [], []


class World:
    """An engine with few blocks, and the connector."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.memory, self.stores = {}, {}
        self.client, self.clock = stand_ins.TableClient(), stand_ins.Clock()
        self.client.resident_run = self.resident_run
        self.client.residences = lambda space, keys: ["host" if key in self.store else "absent" for key in keys]
        self.scheduler = SchedulerSide(self.client, parse_options({"peers": False}), BLOCK_TOKENS, False, self.clock)
        self.scheduler.accept_spaces({(0, 0): [stand_ins.spec()]})
        self.worker = WorkerSide(self.open_lanes, "w", [1], 0.1, self.clock)
        self.free = list(range(1, BLOCKS))
        self.requests = []  # [state, request, blocks, computed tokens]
        self.names = 0
        self.unanswered, self.preempted = [], set()

    @property
    def store(self):
        return self.stores.setdefault(self.scheduler._digest, {})

    def resident_run(self, space, keys):
        return next((i for i, key in enumerate(keys) if key not in self.store), len(keys))

    def open_lanes(self, digest):
        self.lanes = CopyingLanes(self.chance, self.memory, self.stores.setdefault(digest, {}))
        return [self.lanes]

    def arrive(self):
        book, tokens = self.chance.randrange(4), self.chance.randrange(40, 200)
        self.names += 1
        keys = [b"%08d.%022d" % (book, i) for i in range(tokens // BLOCK_TOKENS)]
        self.requests.append([WAITING, Request(f"r{self.names}", tokens, keys), [], 0])

    def admit(self, step):
        for entry in [entry for entry in self.requests if entry[0] == WAITING]:
            state, request, blocks, computed = entry
            matched, between = (0, False) if computed else self.scheduler.matched_tokens(request, 0)
            wanted = -(-(matched if between else request.num_tokens) // BLOCK_TOKENS) - len(blocks)
            if matched is None or wanted > len(self.free):
                continue
            taken = [self.free.pop(0) for _ in range(wanted)]
            blocks += taken
            self.scheduler.allocated(request, (list(blocks),), matched if between else 0)
            if between:
                entry[:] = [LOADING, request, blocks, matched]
                self.unanswered.append(request.request_id)
            else:
                entry[:] = [RUNNING, request, blocks, request.num_tokens]
                resumed = request.num_preemptions > 0
                add = (lambda *facts: step.cached(*facts, resumed=True)) if resumed else step.new
                add(request.request_id, computed, request.num_tokens - computed, list(blocks))

    def content(self, request, place):
        """Returns the content of a computed block: its key, and the epoch of the weights."""
        keys = request.block_hashes
        return (keys[place], self.scheduler._digest) if place < len(keys) else "tail"

    def let_go(self, entry):
        self.free += entry[2]
        entry[2] = []

    def step(self):
        """Makes one step of the engine. Returns the blocks whose content was wrong."""
        for entry in [entry for entry in self.requests if entry[0] == RUNNING]:
            dice = self.chance.random()
            if dice < 0.3:
                self.let_go(entry)
                self.requests.remove(entry)
                self.scheduler.finished(entry[1].request_id)
            elif dice < 0.4:
                self.let_go(entry)
                entry[1].num_preemptions += 1
                entry[0], entry[3] = WAITING, 0
                self.preempted.add(entry[1].request_id)
        if self.chance.random() < 0.02 and not any(entry[0] == LOADING for entry in self.requests):
            for entry in self.requests:
                if entry[0] == RUNNING:
                    entry[1].num_preemptions += 1
                self.let_go(entry)
                entry[0], entry[3] = WAITING, 0
            self.scheduler.reset()
        if self.chance.random() < 0.5:
            self.arrive()
        scheduled = Step(preempted_req_ids=self.preempted)
        self.preempted = set()
        computed_before = {entry[1].request_id: entry[3] for entry in self.requests}
        self.admit(scheduled)
        plan = self.scheduler.plan(scheduled)
        self.worker.prepare(plan)
        for entry in self.requests:
            if entry[0] == RUNNING and entry[1].request_id in scheduled.num_scheduled_tokens:
                first = computed_before[entry[1].request_id] // BLOCK_TOKENS
                for place in range(first, len(entry[2])):
                    self.memory[entry[2][place]] = self.content(entry[1], place)
        self.worker.load(plan.loads)
        self.worker.save(plan.saves)
        self.lanes.go_on()
        self.answer()

    def answer(self):
        results = self.worker.take_results()
        self.scheduler.workers_answered(frozenset(results.failed_blocks), frozenset(results.received), frozenset())
        for name in results.received:
            self.unanswered.remove(name)  # Raises ValueError if it was answered twice.
            [entry] = [entry for entry in self.requests if entry[1].request_id == name]
            failed = [place for place, block in enumerate(entry[2]) if block in results.failed_blocks]
            entry[0], entry[3] = WAITING, (failed[0] if failed else len(entry[2])) * BLOCK_TOKENS
            if entry[3] == 0:
                self.let_go(entry)

    def wrong(self):
        """Returns the blocks of running requests and the stored blocks whose content is wrong."""
        running = [(request.request_id, place) for state, request, blocks, _ in self.requests if state == RUNNING
                   for place in range(len(request.block_hashes)) if self.memory[blocks[place]][0] != request.block_hashes[place]]
        stored = [key for epoch, store in self.stores.items() for key, value in store.items() if value != (key, epoch)]
        return running + stored


class RandomSteps(unittest.TestCase):
    def test_no_block_is_ever_wrong_and_every_load_is_answered_once(self):
        seeds = [int(os.environ["KVTIER_SEED"])] if "KVTIER_SEED" in os.environ else range(SEEDS)
        loaded = saved = failed = 0
        for seed in seeds:
            world = World(seed)
            for _ in range(STEPS):
                world.step()
                self.assertEqual(world.wrong(), [], f"seed {seed}")
            for _ in range(100):
                world.lanes.go_on(likely=1)
                world.answer()
            self.assertEqual(world.unanswered, [], f"seed {seed}")
            counts = world.worker.counts.take()
            loaded, saved = loaded + counts.get("loaded_blocks", 0), saved + counts.get("saved_blocks", 0)
            failed += counts.get("load_failed_blocks", 0)
        self.assertTrue(loaded and saved and failed, "the model did nothing")


if __name__ == "__main__":
    unittest.main()
