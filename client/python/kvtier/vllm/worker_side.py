"""The connector in a worker: copies between the engine's blocks and the agent, on lanes of their own."""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import kvtier

from .metadata import NO_BLOCK, Load, Save, StepPlan
from .never_raises import log_failure
from .stats import Counts

_IDLE_WAIT_S = 0.0015  # Longest wait of a step that computes nothing; a step may be held for 2 ms.


@dataclass
class _LoadPart:
    """A load's blocks of one KV group."""

    blocks: tuple[int, ...]  # Engine's blocks.
    job: kvtier.LaneJob | None = None  # None: there was no room for the job, and no block comes.

    def ended(self) -> bool:
        """Returns whether no more blocks of it will come."""
        return self.job is None or self.job.done

    def came(self) -> list[bool]:
        """Returns, for each block, whether it came. REQUIRES: ended()."""
        try:
            return self.job.results if self.job is not None else [False] * len(self.blocks)
        except Exception:
            log_failure("reading a load's results")
            return [False] * len(self.blocks)


@dataclass
class _SavePart:
    """A run of a save's blocks of one KV group."""

    group: int
    keys: tuple[bytes, ...]
    blocks: frozenset[int]
    job: kvtier.LaneJob


@dataclass
class LoadResults:
    """Loads that have ended since the last results. A request is named when its last load has ended."""

    received: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)  # Requests in `received` with a block that did not come.
    failed_blocks: set[int] = field(default_factory=set)  # Engine's blocks that did not come.


class WorkerSide:
    """Loads and saves the blocks of each step's plan. Only the worker's thread uses it.

    `open_lanes(digest)` returns the lanes of each KV group in spaces with this digest of the weights, at first `digest`.
    `block_bytes` has the sizes of their blocks. `unsaved_groups` are saved by another rank, which has the same blocks.
    prepare(), for `preemption_wait_s` at most, and await_load() wait; no other method does. A failed load brings no block,
    and a failed save stores none.
    """

    def __init__(self, open_lanes: Callable[[str], Sequence[kvtier.Lanes]], digest: str, block_bytes: Sequence[int],
                 preemption_wait_s: float, clock: Callable[[], float] = time.monotonic,
                 stream: Callable[[], int | None] = lambda: None, unsaved_groups: Collection[int] = ()) -> None:
        self._open_lanes = open_lanes
        self._block_bytes = tuple(block_bytes)
        self._preemption_wait_s = preemption_wait_s
        self._clock = clock
        self._stream = stream
        self._unsaved_groups = frozenset(unsaved_groups)
        self.counts = Counts()
        self._digest = digest
        # Empty: the engine's memory is away, copies are stopped, or the weights' digest is not known yet.
        self._lanes = list(open_lanes(digest))
        self._closing: list[threading.Thread] = []  # Threads that close lanes of earlier spaces.
        self._loads: dict[str, list[_LoadPart]] = {}
        self._saves: list[_SavePart] = []
        self._saving: list[set[bytes]] = [set() for _ in block_bytes]  # For each group, keys of the saves in progress.

    def prepare(self, plan: StepPlan) -> None:
        """Changes to the step's spaces and waits for copies out of blocks that it writes. Call it before any is written.

        The lanes give up blocks that are not copied in time, so no block is saved of which a part was overwritten. If
        that cannot be made sure, all copies are stopped.
        """
        try:
            if plan.weights_digest is not None and plan.weights_digest != self._digest:
                self._change_spaces(plan.weights_digest)
            if self._saves:
                self._saves = [part for part in self._saves if not self._ended(part)]
                self._await_copies(None if plan.writes_unknown else plan.written)
        except Exception:
            log_failure("letting copies end")
            self.leave_memory()

    def load(self, loads: Sequence[Load]) -> None:
        """Begins the loads. Never waits: a load without room has failed, and is answered like any other."""
        begun = [(load, [_LoadPart(tuple(block for block in blocks if block != NO_BLOCK)) for blocks in load.blocks])
                 for load in loads]
        for load, parts in begun:  # All are noted before the first can fail, so that all are answered.
            # A load that runs under the same id, of an aborted request, writes to its blocks until it ends.
            self._loads.setdefault(load.request_id, []).extend(parts)
        for load, parts in begun:
            for group, (part, blocks) in enumerate(zip(parts, load.blocks)):
                try:
                    if part.blocks and len(load.keys) == len(blocks) and self._lanes:
                        keys = [key for key, block in zip(load.keys, blocks) if block != NO_BLOCK]
                        part.job = self._lanes[group].onboard(keys, part.blocks, load.timeout_s,
                                                              after_stream=self._stream(), hint=load.hint)
                except BlockingIOError:
                    self.counts.add("load_refused_blocks", len(part.blocks))
                except Exception:
                    log_failure("beginning a load")

    def save(self, saves: Sequence[Save]) -> None:
        """Begins the saves of computed blocks. Never waits: blocks without room are not saved.

        A block that is being saved for another request, which computed the same, is left to that save and counted there.
        """
        for save in saves:
            for group in range(len(save.blocks)):
                if group in self._unsaved_groups:
                    continue
                for first, end in _runs_outside(self._saving[group], save.keys):
                    self._save_run(save, group, first, end)

    def await_load(self) -> None:
        """Waits, 1.5 ms at most, for the load that was begun first.

        Steps that compute nothing call it: the engine sleeps for a millisecond after each of them, and learns only in
        the next one that a load has ended meanwhile.
        """
        try:
            oldest = next(iter(self._loads.values()), [])
            deadline = self._clock() + _IDLE_WAIT_S
            for part in oldest:
                if part.job is not None:
                    part.job.wait(max(0.0, deadline - self._clock()))
        except Exception:
            log_failure("waiting for a load")

    def take_results(self) -> LoadResults:
        """Returns the loads that have ended, and counts the saves that have ended. Never waits."""
        results = LoadResults()
        for request_id, parts in list(self._loads.items()):
            if self._have_ended(parts):
                failed = {block for place, part in enumerate(parts) for block in self._failed(place, part)}
                results.received.add(request_id)
                results.failed_blocks |= failed
                if failed:
                    results.failed.add(request_id)
                del self._loads[request_id]
        self._count_saves()
        return results

    def leave_memory(self) -> None:
        """Ends all copies. Loads fail and nothing is saved until return_to_memory(), or until the spaces change."""
        lanes, self._lanes = self._lanes, []
        _close(lanes)

    def return_to_memory(self) -> None:
        """Opens lanes again, when the engine's memory is back at the same addresses. Idempotent."""
        if not self._lanes:
            self._lanes = list(self._open_lanes(self._digest))

    def close(self) -> None:
        """Ends all copies; those in progress fail."""
        self.leave_memory()
        for thread in self._closing:
            thread.join()

    def _save_run(self, save: Save, group: int, first: int, end: int) -> None:
        keys, blocks = save.keys[first:end], save.blocks[group][first:end]
        try:
            if self._lanes:
                parent = save.keys[first - 1] if first else save.parent
                job = self._lanes[group].offload(list(keys), list(blocks), parent, after_stream=self._stream(),
                                                 hint=save.hint)
                self._saves.append(_SavePart(group, keys, frozenset(blocks), job))
                self._saving[group].update(keys)
                return
        except BlockingIOError:
            self.counts.add("save_refused_blocks", len(blocks))
        except Exception:
            log_failure("beginning a save")
        self.counts.add("unsaved_blocks", len(blocks))

    def _await_copies(self, written: Collection[int] | None) -> None:
        """Waits for copies out of blocks in `written`, one `preemption_wait_s` for all groups. None: gives up all
        copies without waiting."""
        deadline = self._clock() + (0.0 if written is None else self._preemption_wait_s)
        waits = 0
        for group, lanes in enumerate(self._lanes):
            read = {block for part in self._saves if part.group == group and not part.job.copied
                    for block in part.blocks}
            wanted = sorted(read if written is None else read.intersection(written))
            if wanted:
                waits = 1
                given_up = lanes.stats()["offload_given_up_blocks"]
                if not lanes.await_copied(wanted, max(0.0, deadline - self._clock())):
                    self.counts.add("given_up_blocks", int(lanes.stats()["offload_given_up_blocks"] - given_up))
        self.counts.add("preemption_waits", waits)

    def _change_spaces(self, digest: str) -> None:
        """Opens lanes in spaces with `digest`. Copies of those before are given up now, and their jobs end soon, as failed.

        Threads close the old lanes, which end after the block that they are copying, so that no step waits for it.
        """
        left = self._lanes
        self._digest = digest
        self._await_copies(None)
        self._saving = [set() for _ in self._block_bytes]  # Keys name other blocks now.
        self._lanes = []
        self._closing = [thread for thread in self._closing if thread.is_alive()]
        self._closing.append(threading.Thread(target=_close, args=(left,), name="kvtier-close"))
        self._closing[-1].start()
        self._lanes = list(self._open_lanes(digest))

    def _have_ended(self, parts: Sequence[_LoadPart]) -> bool:
        try:
            return all(part.ended() for part in parts)
        except Exception:
            log_failure("asking whether a load has ended")
            self.leave_memory()  # Ends all writes to the request's blocks.
            for part in parts:
                part.job = None
            return True

    def _count_saves(self) -> None:
        try:
            for lanes in self._lanes:
                lanes.poll()  # Takes the ended jobs, which the lanes then forget.
            if self._saves:
                self._saves = [part for part in self._saves if not self._ended(part)]
        except Exception:
            log_failure("counting saves")

    def _failed(self, place: int, part: _LoadPart) -> Collection[int]:
        """Returns the engine's blocks of a part that did not come, and counts those that did."""
        failed = [block for block, came in zip(part.blocks, part.came()) if not came]
        loaded = len(part.blocks) - len(failed)
        self.counts.add("load_failed_blocks", len(failed))
        self.counts.add("loaded_blocks", loaded)
        self.counts.add("loaded_bytes", loaded * self._block_bytes[place % len(self._block_bytes)])
        return failed

    def _ended(self, part: _SavePart) -> bool:
        """Returns whether a save has ended, and if so counts it."""
        if not part.job.done:
            return False
        self._saving[part.group].difference_update(part.keys)
        saved = sum(part.job.results)
        self.counts.add("saved_blocks", saved)
        self.counts.add("saved_bytes", saved * self._block_bytes[part.group])
        self.counts.add("unsaved_blocks", len(part.blocks) - saved)
        return True


def _runs_outside(taken: Collection[bytes], keys: Sequence[bytes]) -> list[tuple[int, int]]:
    """Returns the runs of `keys` that are not in `taken`, each by its first place and the place after its last."""
    runs, first = [], 0
    for is_taken, run in groupby(key in taken for key in keys):
        end = first + len(list(run))
        if not is_taken:
            runs.append((first, end))
        first = end
    return runs


def _close(lanes: Sequence[kvtier.Lanes]) -> None:
    for each in lanes:
        try:
            each.close()
        except Exception:
            log_failure("ending lanes")
