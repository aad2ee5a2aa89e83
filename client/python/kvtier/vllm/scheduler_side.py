"""The connector in the engine's scheduler: decides which blocks are loaded and which are saved."""

import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import kvtier

from .adapters import AdapterDigests
from .block_keys import block_keys
from .metadata import NO_BLOCK, Load, Save, StepPlan
from .never_raises import log_failure
from .offers import Offers, hinted
from .options import Options
from .prefill_rate import PrefillRate
from .request_options import read_request_options
from .space import digest_of_epoch, space_of_weights
from .stats import Counts
from .tracked_request import TrackedRequest
from .weights import UNKNOWN_WEIGHTS

_log = logging.getLogger("vllm.kvtier")  # A child of the engine's own logger.
_STEP_BUDGET_S = 0.002  # Time that all looks of one step may take; the last one may go beyond it.
_MAX_KEYS = 8192  # Most keys in one call of the client.
_MAX_ENDED = 256  # Requests whose end the agent is told of later; the oldest are forgotten.


class SchedulerSide:
    """Answers the scheduler without waiting. Only the scheduler's thread uses it.

    `block_tokens` is the number of tokens of a block. With `held`, only blocks are offered that a ticket holds, so
    that they stay as long as the agent runs. Until all ranks have told their spaces and the digest of their weights, no
    block is looked up or saved. Until the first has, and for max_wait_s at most, requests are told to ask again.
    """

    def __init__(self, client: kvtier.Client, options: Options, block_tokens: int, held: bool,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._options = options
        self._block_tokens = block_tokens
        self._held = held
        self._clock = clock
        self.counts = Counts()
        self._told: dict[tuple[int, int], Sequence[kvtier.SpaceSpec]] = {}  # Arguments of accept_spaces() so far.
        self._specs: tuple[kvtier.SpaceSpec, ...] = ()  # The spaces of all ranks, each once, when their digests are known.
        self._weights = UNKNOWN_WEIGHTS  # Digest of the weights that all ranks run.
        self._digest: str | None = None  # Digest in the registered spaces, which the workers are told.
        self._adapters = AdapterDigests()
        self._spaces: list[kvtier.Space] = []
        self._offers: Offers | None = None
        self._requests: dict[str, TrackedRequest] = {}
        self._loading: dict[str, TrackedRequest] = {}  # Requests whose load is in progress.
        self._unnamed: set[str] = set()  # Requests with computed blocks that are not saved: their keys or all were not known.
        self._loads: list[Load] = []
        # Requests, and blocks of the engine, that connectors beside this one may load since the last plan.
        self._others_requests: set[str] = set()
        self._others_blocks: set[int] = set()
        self._others_unknown = False  # Whether blocks of theirs are not known.
        self._ended: deque[tuple[Any, kvtier.ReuseHint]] = deque(maxlen=_MAX_ENDED)  # Requests to advise on, with hints.
        self._rate = PrefillRate(options.recompute_tokens_per_s, clock)
        self.counts.set("recompute_tokens_per_s", self._rate.tokens_per_s)
        self._epoch = ""
        self._running = False  # Whether a step was planned.
        self._spent_s = 0.0

    @property
    def asks_spaces(self) -> bool:
        """Whether the workers are to tell their spaces: those of some ranks, or their weights' digests, are not known."""
        return not self._specs

    def accept_spaces(self, ranks: Mapping[tuple[int, int], Sequence[kvtier.SpaceSpec]]) -> None:
        """Takes spaces by pipeline rank and tensor rank, each rank's in the order of the KV groups; some may be the same.

        They are registered when those of all ranks are there with the digest of the weights, and the next plan tells it
        to the workers. Blocks of running requests that were computed before are saved then. ValueError names a field.
        """
        self._told.update(ranks)
        told = tuple(dict.fromkeys(spec for _, specs in sorted(self._told.items()) for spec in specs))
        weights = sorted({str(spec.weights_digest) for spec in told})
        if not told or len(self._told) < told[0].tp_size * told[0].pp_size or UNKNOWN_WEIGHTS in weights:
            return
        self._specs = told
        if len(weights) > 1:
            _log.error("kvtier: the ranks found different weights, %s, and this engine shares no blocks: the files changed "
                       "while it started; start it again", ", ".join(weights))
            return
        [self._weights] = weights
        self._unnamed.update(self._requests)
        self._register()

    def matched_tokens(self, request: Any, computed_tokens: int) -> tuple[int | None, bool]:
        """Returns how many tokens beyond `computed_tokens` can be loaded (None: ask again), and whether that is done
        between steps."""
        tracked = self._track(request)
        tracked.local_blocks = computed_tokens // self._block_tokens
        tracked.asked = True
        if not self._may_load(tracked):
            return 0, False
        began = self._clock()
        if not self._told:
            return self._postponed(tracked, began), False
        if self._offers is None:
            return 0, False
        if self._spent_s >= _STEP_BUDGET_S:
            return self._postponed(tracked, began), False
        keys = self._keys(request, tracked.local_blocks, self._last_block(tracked))
        keys = keys[:self._max_keys()]
        blocks = self._offers.loadable_blocks(tracked, keys) if keys else 0
        self._spent_s += self._clock() - began
        return (None, False) if blocks is None else (blocks * self._block_tokens, blocks > 0)

    def allocated(self, request: Any, blocks: Sequence[Sequence[int]], external_tokens: int) -> None:
        """Notes the blocks that the request was given, for each KV group; the last of them are to be loaded.

        With no `external_tokens` this connector loads nothing, but another one beside it may load some of the blocks.
        """
        tracked = self._track(request)
        tracked.postponed_until = None
        asked, tracked.asked = tracked.asked, False
        if external_tokens == 0:
            if asked:  # Otherwise its load has ended, whoever made it.
                self._leave_to_others(tracked, blocks)
            return
        tracked.loads_here = True
        first, end = tracked.local_blocks, tracked.local_blocks + external_tokens // self._block_tokens
        wanted = tuple(tuple(group[first:end]) for group in blocks)
        try:
            keys = tuple(self._keys(request, first, end))
        except Exception:
            log_failure("naming blocks")
            keys = ()  # The load fails at once, and its answer is what the request waits for.
        tracked.loading = frozenset(block for group in wanted for block in group if block != NO_BLOCK)
        tracked.preemptions_at_load = getattr(request, "num_preemptions", 0)
        self._loading[request.request_id] = tracked
        self.counts.add("offered_tokens", external_tokens)
        timeout_s = self._offers.load_timeout_s(end - first) if self._offers is not None else 0.0
        self._loads.append(Load(request.request_id, keys, wanted, timeout_s, tracked.options.hint))

    def plan(self, scheduled: Any) -> StepPlan:
        """Returns the work of the step that `scheduled`, the engine's SchedulerOutput, describes.

        Allocated loads are in it even if `scheduled` cannot be read, because requests wait for their answers.
        """
        loads, self._loads = self._loads, []
        plan = StepPlan(weights_digest=self._digest, asks_spaces=self.asks_spaces, loads=loads, written=self._others_blocks,
                        writes_unknown=self._others_unknown)
        self._running = True
        try:
            self._plan_step(plan, scheduled)
        except Exception:
            log_failure("planning a step")
            plan.writes_unknown = True
            for tracked in self._requests.values():
                tracked.saves_stopped = True  # The blocks that it was given in this step may be unknown.
        self._others_requests, self._others_blocks, self._others_unknown = set(), set(), False
        self._advise_ended()
        self._spent_s = 0.0
        return plan

    def _plan_step(self, plan: StepPlan, scheduled: Any) -> None:
        plan.computes = scheduled.total_num_scheduled_tokens > 0
        # About one token of each request is decoded, and the others are prefilled.
        plan.measured = self._rate.planned(scheduled.total_num_scheduled_tokens - len(scheduled.num_scheduled_tokens))
        preempted = StepPlan()
        for request_id in getattr(scheduled, "preempted_req_ids", None) or ():
            self._plan_preempted(preempted, request_id)
        plan.written.update(block for load in plan.loads for group in load.blocks for block in group)
        for new in scheduled.scheduled_new_reqs:
            self._plan_request(plan, scheduled, new.req_id, new.num_computed_tokens, new.block_ids, from_start=True)
        cached = scheduled.scheduled_cached_reqs
        resumed, tokens, size = getattr(cached, "resumed_req_ids", ()), scheduled.num_scheduled_tokens, self._block_tokens
        for request_id, computed, blocks in zip(cached.req_ids, cached.num_computed_tokens, cached.new_block_ids):
            # Most steps of a request that decodes neither begin nor complete a block, and are skipped here.
            if (blocks is None and computed % size + tokens.get(request_id, 0) < size and request_id not in resumed
                    and request_id not in self._unnamed):
                continue
            self._plan_request(plan, scheduled, request_id, computed, blocks, from_start=request_id in resumed)
        plan.written.discard(NO_BLOCK)
        plan.saves.extend(save for save in preempted.saves
                          if plan.written.isdisjoint(block for group in save.blocks for block in group))

    def workers_answered(self, failed_blocks: frozenset[int], received: frozenset[str],
                         failed: frozenset[str]) -> None:
        """Notes which loads have ended, and which blocks did not come, or which requests failed."""
        for tracked in self._loading.values() if failed_blocks else ():
            # One rank may report a failed block some steps before the last rank has ended the load.
            if not tracked.loading.isdisjoint(failed_blocks):
                self._fail(tracked)
        for request_id in received | failed:
            known = self._loading.pop(request_id, None)
            answered = self._requests.get(request_id)
            if answered is None or not answered.loads_here:
                continue
            if request_id in failed or known is None:  # A load that could not be noted has failed.
                self._fail(answered)
            answered.loading = frozenset()
            self._forget_look(answered)

    def measured(self, step: int) -> None:
        """Notes that the workers answered the step that a plan gave this number."""
        if self._rate.answered(step):
            self.counts.set("recompute_tokens_per_s", self._rate.tokens_per_s)

    def finished(self, request_id: str, finish: str | None = None) -> None:
        """Forgets a request that has ended; the next plan() advises the agent of its end.

        Saves of its blocks go on, and a step that writes to the blocks waits for the copies first.
        """
        tracked = self._requests.pop(request_id, None)
        self._loading.pop(request_id, None)
        self._unnamed.discard(request_id)
        if tracked is None:
            return
        self._forget_look(tracked)
        hint = replace(tracked.options.hint, finish=finish)
        if hint != kvtier.ReuseHint() and not tracked.options.no_store:
            self._ended.append((tracked.request, hint))

    def reset(self) -> None:
        """Begins a new epoch: no block that was put before, or is being loaded, is used any more.

        This holds even if the client refuses a space of the new epoch: then no block is offered.
        """
        self._epoch = uuid.uuid4().hex
        self._adapters.forget()
        self.counts.add("resets")
        for tracked in self._requests.values():
            self._forget_look(tracked)
            tracked.saves_stopped = True
        try:
            self._register()
        except Exception:
            log_failure("registering the spaces of a new epoch")

    def close(self) -> None:
        """Closes the client."""
        self._adapters.close()
        self._client.close()

    def _advise_ended(self) -> None:
        """Advises the agent of requests that have ended, within the step's time, without waiting for answers."""
        while self._ended and self._spaces and self._spent_s < _STEP_BUDGET_S:
            began = self._clock()
            request, hint = self._ended.popleft()
            try:
                # One call is about the last blocks of a long request, which are its conversation's own.
                end = len(request.block_hashes)
                keys = self._keys(request, max(0, end - self._max_keys()), end)
                if keys:
                    self._client.submit_advise([hinted(space, keys, hint) for space in self._spaces])
                    self.counts.add("advised_requests")
            except BlockingIOError:
                pass  # 256 calls are in progress. The blocks leave memory as if nothing were known.
            except Exception:
                log_failure("telling of a request's end")
            self._spent_s += self._clock() - began

    def _register(self) -> None:
        left, self._spaces, self._offers = self._spaces, [], None
        for space in left:
            self._client.unregister_space(space)
        if self._weights == UNKNOWN_WEIGHTS:
            return
        self._digest = digest_of_epoch(self._weights, self._epoch)
        wait_s = 0.0 if self._epoch or self._running else None  # Only the start waits for the agent.
        self._spaces = [self._client.register_space(space_of_weights(spec, self._digest), wait_s) for spec in self._specs]
        options = self._options
        self._offers = Offers(self._client, self._spaces, lambda: self._block_tokens / self._rate.tokens_per_s,
                              options.max_wait_s, options.peers, self._held, self.counts, self._clock)

    def _track(self, request: Any) -> TrackedRequest:
        tracked = self._requests.get(request.request_id)
        if tracked is None:
            tracked = TrackedRequest(request, read_request_options(getattr(request, "kv_transfer_params", None)))
            if tracked.options.no_store:
                self.counts.add("unstored_requests")
            self._requests[request.request_id] = tracked
        return tracked

    def _leave_to_others(self, tracked: TrackedRequest, blocks: Sequence[Sequence[int]]) -> None:
        """Notes that connectors beside this one may load the request, into blocks that the engine does not have yet."""
        tracked.loads_here = False
        self._others_requests.add(tracked.request.request_id)
        self._others_blocks.update(block for group in blocks for block in group[tracked.local_blocks:])
        self._others_unknown |= not any(blocks)  # An older MultiConnector names them to the one that loads alone.

    def _postponed(self, tracked: TrackedRequest, now: float) -> int | None:
        """Returns the answer if there is no time for a look in this step, or no space yet: None (ask again); after its
        deadline 0."""
        if tracked.look is not None:
            return 0 if now >= tracked.look.deadline else None
        if tracked.postponed_until is None:
            blocks = self._last_block(tracked) - tracked.local_blocks
            wait_s = self._offers.wait_s(blocks) if self._offers is not None else self._options.max_wait_s
            tracked.postponed_until = now + wait_s
        return 0 if now >= tracked.postponed_until else None

    def _may_load(self, tracked: TrackedRequest) -> bool:
        """Returns whether a load may begin: at first and after each preemption, but never after a failed load."""
        if tracked.failed or tracked.loading:
            return False
        if getattr(tracked.request, "skip_reading_prefix_cache", False):
            return False
        before = tracked.preemptions_at_load
        return before is None or getattr(tracked.request, "num_preemptions", 0) > before

    def _last_block(self, tracked: TrackedRequest) -> int:
        """Returns how many leading blocks may be loaded; the engine always computes the last token."""
        tokens = int(tracked.request.num_tokens) - 1
        for limit in (self._options.max_tokens or None, tracked.options.max_tokens):
            if limit is not None:
                tokens = min(tokens, limit)
        return max(tokens, 0) // self._block_tokens

    def _fail(self, tracked: TrackedRequest) -> None:
        if not tracked.failed:
            tracked.failed = True
            self.counts.add("failed_loads")

    def _forget_look(self, tracked: TrackedRequest) -> None:
        try:
            if self._offers is not None:
                self._offers.forget(tracked)
        except Exception:
            log_failure("letting go of a ticket")

    def _plan_request(self, plan: StepPlan, scheduled: Any, request_id: str, computed_tokens: int,
                      new_blocks: Sequence[Sequence[int]] | None, from_start: bool) -> None:
        """Notes the request's blocks, and plans the saves of those that this step completes."""
        computed_blocks = computed_tokens // self._block_tokens
        groups = [list(group) for group in new_blocks or ()]
        plan.written.update(block for group in groups for block in group[computed_blocks if from_start else 0:])
        tracked = self._requests.get(request_id)
        if tracked is None:
            return
        try:
            if from_start:
                tracked.blocks = groups
                # Another connector loads within this step, and may fail: what is computed from its blocks is not saved.
                tracked.saves_stopped = (request_id in self._others_requests and computed_blocks > tracked.local_blocks)
                tracked.saved = self._known(tracked, computed_blocks)
            else:
                for known, more in zip(tracked.blocks, groups):
                    known.extend(more)
            tracked.computed = computed_tokens + scheduled.num_scheduled_tokens.get(request_id, 0)
            self._plan_saves(plan, tracked, tracked.computed)
        except Exception:
            tracked.saves_stopped = True  # Its blocks may be wrong, so none is saved. The step's other work goes on.
            log_failure("planning the saves of a request")

    def _plan_preempted(self, plan: StepPlan, request_id: str) -> None:
        """Plans the saves of blocks that a preempted request gives up and whose keys no earlier step knew.

        Its other full blocks are being saved since the steps that completed them. A block's key is known when its
        tokens are, which may be after the step that computed it; the request's last token is not computed yet.
        """
        tracked = self._requests.get(request_id)
        if tracked is not None:
            self._plan_saves(plan, tracked, min(tracked.computed, int(tracked.request.num_tokens) - 1))

    def _known(self, tracked: TrackedRequest, computed_blocks: int) -> int:
        """Returns how many leading blocks of a request that begins need no save, because the table has them."""
        if not self._spaces or not self._wants_saves(tracked):
            return 0
        if computed_blocks == 0 or self._spent_s >= _STEP_BUDGET_S:
            return computed_blocks  # Not looked up: lost blocks are saved once computed again.
        began = self._clock()
        known = computed_blocks
        keys = self._keys(tracked.request, 0, min(known, self._max_keys()))
        for space in self._spaces:
            known = min(known, self._client.resident_run(space, keys[:known]) if known else 0)
        self._spent_s += self._clock() - began
        return known

    def _keys(self, request: Any, first: int, end: int) -> list[bytes]:
        """Returns block_keys(); []: the files of the request's adapter are not hashed yet."""
        adapter = getattr(request, "lora_request", None)
        digest = "" if adapter is None else self._adapters.digest_of(str(getattr(adapter, "lora_path", "")))
        return [] if digest is None else block_keys(request, first, end, digest)

    def _max_keys(self) -> int:
        """Returns how many keys one call may name, which repeats them for each space."""
        return _MAX_KEYS // max(1, len(self._spaces))

    def _wants_saves(self, tracked: TrackedRequest) -> bool:
        return self._weights != UNKNOWN_WEIGHTS and self._options.store and not tracked.options.no_store

    def _plan_saves(self, plan: StepPlan, tracked: TrackedRequest, tokens: int) -> None:
        if not self._wants_saves(tracked) or tracked.saves_stopped:
            return
        end = min([tokens // self._block_tokens] + [len(group) for group in tracked.blocks])
        first = tracked.saved
        keys = self._keys(tracked.request, first, min(end, first + _MAX_KEYS))
        if first + len(keys) < end:
            self._unnamed.add(tracked.request.request_id)
        else:
            self._unnamed.discard(tracked.request.request_id)
        end = first + len(keys)
        if not keys or not tracked.blocks:
            return
        # Where a window has given up blocks, only the blocks after the last of these are saved, of all groups.
        gaps = [i for group in tracked.blocks for i in range(first, end) if group[i] == NO_BLOCK]
        begin = max(gaps) + 1 if gaps else first
        tracked.saved = end
        if begin == end:
            return
        parent = self._keys(tracked.request, begin - 1, begin)[0] if begin else None
        blocks = tuple(tuple(group[begin:end]) for group in tracked.blocks)
        plan.saves.append(Save(tuple(keys[begin - first:]), parent, blocks, tracked.options.hint))
