"""The connector in a worker: copies between the engine's blocks and the agent, on lanes of their own."""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import kvtier

from .metadata import NO_BLOCK, Load, Save, StepPlan
from .stats import Counts

_log = logging.getLogger("vllm.kvtier")  # A child of the engine's own logger.


@dataclass
class _LoadPart:
    """A load's blocks of one KV group."""

    blocks: tuple[int, ...]  # Engine's.
    job: kvtier.LaneJob | None  # None: there was no room for it, and no block comes.


@dataclass
class _SavePart:
    """A save's blocks of one KV group."""

    group: int
    blocks: frozenset[int]
    job: kvtier.LaneJob


@dataclass
class LoadResults:
    """Loads that have ended since they were last asked for. Each request is named once for each of its loads."""

    received: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)  # Of `received`, those of which a block did not come.
    failed_blocks: set[int] = field(default_factory=set)  # Engine's.


class WorkerSide:
    """Loads and saves what a step's plan says. For the worker's thread alone.

    `open_lanes(epoch)` returns the lanes of each KV group; `block_bytes` has their blocks' sizes. Nothing waits but
    prepare(), `preemption_wait_s` at most.
    """

    def __init__(self, open_lanes: Callable[[str], Sequence[kvtier.Lanes]], block_bytes: Sequence[int],
                 preemption_wait_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._open_lanes = open_lanes
        self._block_bytes = tuple(block_bytes)
        self._preemption_wait_s = preemption_wait_s
        self._clock = clock
        self.counts = Counts()
        self._epoch = ""
        self._lanes = list(open_lanes(""))
        self._loads: dict[str, list[_LoadPart]] = {}
        self._saves: list[_SavePart] = []

    def prepare(self, plan: StepPlan) -> None:
        """Before anything of the step is written: begins its epoch, and lets copies out of what it writes end.

        What is not copied by then is given up by the lanes, so that no block is saved of which a part
        was overwritten.
        """
        if plan.epoch != self._epoch:
            self._reopen(plan.epoch)
        self._saves = [part for part in self._saves if not self._ended(part)]
        deadline = self._clock() + self._preemption_wait_s
        waits = 0
        for group, lanes in enumerate(self._lanes):
            read = {block for part in self._saves if part.group == group and not part.job.copied
                    for block in part.blocks}
            wanted = sorted(read & plan.written)
            if wanted:
                waits = 1
                if not lanes.await_copied(wanted, max(0.0, deadline - self._clock())):
                    self.counts.add("given_up_blocks", len(wanted))
        self.counts.add("preemption_waits", waits)

    def load(self, loads: Sequence[Load]) -> None:
        """Begins the loads. Never waits: one without room has failed, and is answered as any other."""
        for load in loads:
            parts = self._loads.setdefault(load.request_id, [])
            for group, blocks in enumerate(load.blocks):
                needed = [i for i, block in enumerate(blocks) if block != NO_BLOCK]
                part = _LoadPart(tuple(blocks[i] for i in needed), None)
                parts.append(part)
                try:
                    if part.blocks and len(load.keys) == len(blocks):
                        part.job = self._lanes[group].onboard([load.keys[i] for i in needed], part.blocks,
                                                              load.timeout_s)
                except BlockingIOError:
                    self.counts.add("load_refused_blocks", len(part.blocks))
                except Exception:
                    _log.exception("kvtier: a load of %d blocks cannot be", len(part.blocks))

    def save(self, saves: Sequence[Save]) -> None:
        """Begins the saves of blocks that are computed. Never waits: what has no room is not saved."""
        for save in saves:
            for group, blocks in enumerate(save.blocks):
                try:
                    job = self._lanes[group].offload(list(save.keys), list(blocks), save.parent)
                except BlockingIOError:
                    self.counts.add("save_refused_blocks", len(blocks))
                    self.counts.add("unsaved_blocks", len(blocks))
                    continue
                self._saves.append(_SavePart(group, frozenset(blocks), job))

    def take_results(self) -> LoadResults:
        """Returns the loads that have ended, block by block, and counts the saves that have. Never waits."""
        for lanes in self._lanes:
            lanes.poll()  # It keeps no jobs for us then.
        results = LoadResults()
        for request_id, parts in list(self._loads.items()):
            if all(part.job is None or part.job.done for part in parts):
                del self._loads[request_id]
                results.received.add(request_id)
                failed = {block for place, part in enumerate(parts) for block in self._failed(place, part)}
                results.failed_blocks |= failed
                if failed:
                    results.failed.add(request_id)
        self._saves = [part for part in self._saves if not self._ended(part)]
        return results

    def close(self) -> None:
        """Ends all copies; what is under way fails."""
        for lanes in self._lanes:
            lanes.close()
        self._lanes = []

    def _failed(self, place: int, part: _LoadPart) -> Collection[int]:
        """Returns the engine's blocks of a part that did not come, and counts those that did."""
        results = part.job.results if part.job is not None else [False] * len(part.blocks)
        failed = [block for block, came in zip(part.blocks, results) if not came]
        loaded = len(part.blocks) - len(failed)
        self.counts.add("load_failed_blocks", len(failed))
        self.counts.add("loaded_blocks", loaded)
        self.counts.add("loaded_bytes", loaded * self._block_bytes[place % len(self._block_bytes)])
        return failed

    def _ended(self, part: _SavePart) -> bool:
        """Whether a save has ended, which is then counted."""
        if not part.job.done:
            return False
        saved = sum(part.job.results)
        self.counts.add("saved_blocks", saved)
        self.counts.add("saved_bytes", saved * self._block_bytes[part.group])
        self.counts.add("unsaved_blocks", len(part.blocks) - saved)
        return True

    def _reopen(self, epoch: str) -> None:
        """Ends all copies as failed, and goes on with lanes of `epoch`."""
        for lanes in self._lanes:
            lanes.close()
        self._lanes = list(self._open_lanes(epoch))
        self._epoch = epoch
