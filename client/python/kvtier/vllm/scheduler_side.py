"""The connector in the engine's scheduler: what is loaded, and what is saved."""

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import kvtier

from .block_keys import block_keys
from .metadata import NO_BLOCK, Load, Save, StepPlan
from .offers import Offers
from .options import Options
from .space import space_of_epoch
from .stats import Counts
from .tracked_request import TrackedRequest
from .wishes import read_wishes

_log = logging.getLogger("vllm.kvtier")  # A child of the engine's own logger.

_STEP_BUDGET_S = 0.002  # That all looks of one step may take; the last one may go beyond it.
_MAX_KEYS = 8192  # Of one call of the client.


class SchedulerSide:
    """Answers the scheduler, at once. For the scheduler's thread alone.

    `block_tokens` is the tokens of a block, `held` says that only blocks are offered that nothing but
    the agent's end can take away.
    """

    def __init__(self, client: kvtier.Client, options: Options, block_tokens: int, held: bool,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._options = options
        self._block_tokens = block_tokens
        self._held = held
        self._clock = clock
        self.counts = Counts()
        self._specs: tuple[kvtier.SpaceSpec, ...] = ()
        self._spaces: list[kvtier.Space] = []
        self._offers: Offers | None = None
        self._requests: dict[str, TrackedRequest] = {}
        self._loads: list[Load] = []
        self._epoch = ""
        self._spent_s = 0.0

    def accept_spaces(self, specs: Sequence[kvtier.SpaceSpec]) -> None:
        """Takes the spaces of all ranks and KV groups. Until then nothing is offered. ValueError names a field."""
        self._specs = tuple(specs)
        self._register()

    def matched_tokens(self, request: Any, computed_tokens: int) -> tuple[int | None, bool]:
        """Returns (tokens beyond `computed_tokens` that can be loaded, between steps); None: ask again."""
        tracked = self._track(request)
        tracked.local_blocks = computed_tokens // self._block_tokens
        if self._offers is None or not self._may_load(tracked):
            return 0, False
        began = self._clock()
        if self._spent_s >= _STEP_BUDGET_S:
            # The others of this step took its time. One whose own time is over does without.
            if tracked.look is not None and began >= tracked.look.deadline:
                return 0, False
            return None, False
        keys = block_keys(request, tracked.local_blocks, self._last_block(tracked))
        keys = keys[:self._max_keys()]
        blocks = self._offers.offered(tracked, keys) if keys else 0
        self._spent_s += self._clock() - began
        return (None, False) if blocks is None else (blocks * self._block_tokens, blocks > 0)

    def allocated(self, request: Any, blocks: Sequence[Sequence[int]], external_tokens: int) -> None:
        """Takes the blocks that the request was given, for each KV group; of them the last are loaded."""
        tracked = self._track(request)
        if external_tokens == 0:
            return
        first, end = tracked.local_blocks, tracked.local_blocks + external_tokens // self._block_tokens
        keys = block_keys(request, first, end)
        wanted = tuple(tuple(group[first:end]) for group in blocks)
        tracked.loading = frozenset(block for group in wanted for block in group if block != NO_BLOCK)
        tracked.offered = getattr(request, "num_preemptions", 0)
        self.counts.add("offered_tokens", external_tokens)
        self._loads.append(Load(request.request_id, tuple(keys), wanted, self._load_timeout_s(len(keys))))

    def plan(self, scheduled: Any) -> StepPlan:
        """Returns the work of the step that `scheduled`, the engine's SchedulerOutput, describes."""
        loads, self._loads = self._loads, []
        plan = StepPlan(epoch=self._epoch, loads=loads)
        plan.written.update(block for load in loads for group in load.blocks for block in group)
        for new in scheduled.scheduled_new_reqs:
            self._plan_request(plan, scheduled, new.req_id, new.num_computed_tokens, new.block_ids, anew=True)
        cached = scheduled.scheduled_cached_reqs
        resumed = getattr(cached, "resumed_req_ids", ())
        for place, request_id in enumerate(cached.req_ids):
            self._plan_request(plan, scheduled, request_id, cached.num_computed_tokens[place],
                               cached.new_block_ids[place], anew=request_id in resumed)
        plan.written.discard(NO_BLOCK)
        self._spent_s = 0.0
        return plan

    def workers_answered(self, failed_blocks: frozenset[int], received: frozenset[str],
                         failed: frozenset[str]) -> None:
        """Learns which loads have ended, and which blocks, or requests, did not come."""
        for tracked in self._requests.values() if failed_blocks else ():
            # One rank may tell of it steps before the last rank has ended the load.
            if not tracked.loading.isdisjoint(failed_blocks):
                self._fail(tracked)
        for request_id in received | failed:
            answered = self._requests.get(request_id)
            if answered is None:
                continue
            if request_id in failed:
                self._fail(answered)
            answered.loading = frozenset()
            self._forget_look(answered)

    def finished(self, request_id: str) -> None:
        """Forgets a request. Saves of its blocks go on: a step that writes to them first waits for the copies."""
        tracked = self._requests.pop(request_id, None)
        if tracked is not None:
            self._forget_look(tracked)

    def reset(self) -> None:
        """Begins a new epoch: nothing that was put before, or is being loaded, is used any more."""
        self._epoch = uuid.uuid4().hex
        self.counts.add("resets")
        for tracked in self._requests.values():
            self._forget_look(tracked)
            tracked.outlived = True
        self._register()

    def close(self) -> None:
        """Hangs up."""
        self._client.close()

    def _register(self) -> None:
        for space in self._spaces:
            self._client.unregister_space(space)
        self._spaces = [self._client.register_space(space_of_epoch(spec, self._epoch)) for spec in self._specs]
        if self._spaces:
            options = self._options
            self._offers = Offers(self._client, self._spaces, self._block_tokens / options.recompute_tokens_per_s,
                                  options.max_wait_s, options.peers, self._held, self.counts, self._clock)

    def _track(self, request: Any) -> TrackedRequest:
        tracked = self._requests.get(request.request_id)
        if tracked is None:
            tracked = TrackedRequest(request, read_wishes(getattr(request, "kv_transfer_params", None)))
            if tracked.wishes.no_store:
                self.counts.add("unstored_requests")
            self._requests[request.request_id] = tracked
        return tracked

    def _may_load(self, tracked: TrackedRequest) -> bool:
        """Whether it is asked for at all: never again after a failure, and once for each preemption."""
        if tracked.failed or tracked.loading:
            return False
        if getattr(tracked.request, "skip_reading_prefix_cache", False):
            return False
        return tracked.offered is None or getattr(tracked.request, "num_preemptions", 0) > tracked.offered

    def _last_block(self, tracked: TrackedRequest) -> int:
        """Returns how many leading blocks may be loaded: the last token is always computed."""
        tokens = int(tracked.request.num_tokens) - 1
        for limit in (self._options.max_tokens or None, tracked.wishes.max_tokens):
            if limit is not None:
                tokens = min(tokens, limit)
        return max(tokens, 0) // self._block_tokens

    def _load_timeout_s(self, blocks: int) -> float:
        return self._options.max_wait_s if self._offers is None else self._offers.load_timeout_s(blocks)

    def _fail(self, tracked: TrackedRequest) -> None:
        if not tracked.failed:
            tracked.failed = True
            self.counts.add("failed_loads")

    def _forget_look(self, tracked: TrackedRequest) -> None:
        if self._offers is not None:
            self._offers.forget(tracked)

    def _plan_request(self, plan: StepPlan, scheduled: Any, request_id: str, computed_tokens: int,
                      new_blocks: Sequence[Sequence[int]] | None, anew: bool) -> None:
        """Notes the request's blocks, and plans the saves of those that this step completes."""
        computed_blocks = computed_tokens // self._block_tokens
        groups = [list(group) for group in new_blocks or ()]
        plan.written.update(block for group in groups for block in group[computed_blocks if anew else 0:])
        tracked = self._requests.get(request_id)
        if tracked is None:
            return
        try:
            if anew:
                tracked.blocks = groups
                tracked.outlived = False
                tracked.saved = self._known(tracked, computed_blocks)
            else:
                for known, more in zip(tracked.blocks, groups):
                    known.extend(more)
            self._plan_saves(plan, tracked, computed_tokens + scheduled.num_scheduled_tokens.get(request_id, 0))
        except Exception:
            tracked.outlived = True  # Its blocks are not known for sure. The step's other work goes on.
            _log.exception("kvtier: request %s is not saved", request_id)

    def _known(self, tracked: TrackedRequest, computed_blocks: int) -> int:
        """Returns how many of the leading blocks that a request begins with need no save: the table has them."""
        if not self._spaces or not self._wants_saves(tracked):
            return 0
        if computed_blocks == 0 or self._spent_s >= _STEP_BUDGET_S:
            return computed_blocks  # What of them was lost is saved when it is computed again.
        began = self._clock()
        known = computed_blocks
        keys = block_keys(tracked.request, 0, min(known, self._max_keys()))
        for space in self._spaces:
            known = min(known, self._client.resident_run(space, keys[:known]) if known else 0)
        self._spent_s += self._clock() - began
        return known

    def _max_keys(self) -> int:
        """Returns how many keys are looked up at once: a call takes them for each of the spaces."""
        return _MAX_KEYS // max(1, len(self._spaces))

    def _wants_saves(self, tracked: TrackedRequest) -> bool:
        return self._options.store and not tracked.wishes.no_store

    def _plan_saves(self, plan: StepPlan, tracked: TrackedRequest, tokens: int) -> None:
        if not self._wants_saves(tracked) or tracked.outlived:
            return
        end = min([tokens // self._block_tokens] + [len(group) for group in tracked.blocks])
        first = tracked.saved
        keys = block_keys(tracked.request, first, min(end, first + _MAX_KEYS))
        end = first + len(keys)
        if not keys or not tracked.blocks:
            return
        # A window has let go of blocks: what is behind the last of them is saved, all groups or none.
        gaps = [i for group in tracked.blocks for i in range(first, end) if group[i] == NO_BLOCK]
        begin = max(gaps) + 1 if gaps else first
        tracked.saved = end
        if begin == end:
            return
        parent = block_keys(tracked.request, begin - 1, begin)[0] if begin else None
        blocks = tuple(tuple(group[begin:end]) for group in tracked.blocks)
        plan.saves.append(Save(tuple(keys[begin - first:]), parent, blocks))
