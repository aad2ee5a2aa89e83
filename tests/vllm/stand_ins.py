"""Stand-ins for what a connector meets: the client, the lanes, and the engine's objects.

They record what they are asked, and wait for nothing: time is a Clock that tests set.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace

import kvtier

BLOCK_TOKENS = 32


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class SubmittedCall:
    """A call that ends when a test says so."""

    def __init__(self):
        self._ended, self._result, self._callbacks = False, None, []

    def done(self):
        return self._ended

    def result(self, timeout_s=None):
        if not self._ended:
            raise TimeoutError("the test has not ended it")
        return self._result

    def add_done_callback(self, callback):
        if self._ended:
            callback(self)
        else:
            self._callbacks.append(callback)

    def end(self, result):
        self._ended, self._result = True, result
        for callback in self._callbacks:
            callback(self)


class TableClient:
    """A client whose table is a dict by (space, key), and whose calls tests end."""

    def __init__(self):
        self.tiers = {}
        self.prefetches = []  # (sequences, timeout_s, call)
        self.tickets = []  # (sequences, timeout_s, call)
        self.advices = []  # (sequences, timeout_s, call)
        self.released = []
        self.busy = False
        self.looks = 0
        self.closed = False
        self.connected = True
        self.last_error = ""
        self.registered = []
        self.waits = []  # Timeout of each register_space().
        self.clock_cost = None  # (clock, seconds that each look at the table takes)

    def put(self, space, keys, tier="host"):
        for key in keys:
            self.tiers[space._handle, bytes(key)] = tier

    def register_space(self, spec, timeout_s=None):
        space = kvtier.Space(spec, len(self.registered))
        self.waits.append(timeout_s)
        self.registered.append(space)
        return space

    def unregister_space(self, space):
        assert space in self.registered

    def residences(self, space, keys):
        self._look()
        return [self.tiers.get((space._handle, key), "absent") for key in keys]

    def resident_run(self, space, keys):
        tiers = self.residences(space, keys)
        return next((i for i, tier in enumerate(tiers) if tier == "absent"), len(tiers))

    def submit_prefetch(self, sequences, timeout_s=None):
        return self._submit(self.prefetches, sequences, timeout_s)

    def submit_take_ticket(self, sequences, timeout_s=None, lifetime_s=None):
        return self._submit(self.tickets, sequences, timeout_s)

    def submit_advise(self, sequences, timeout_s=None):
        return self._submit(self.advices, sequences, timeout_s)

    def release_ticket(self, ticket):
        self.released.append(ticket)

    def stats(self):
        return {"last_error": self.last_error}

    def close(self):
        self.closed = True

    def _look(self):
        self.looks += 1
        if self.clock_cost:
            clock, seconds = self.clock_cost
            clock.now += seconds

    def _submit(self, calls, sequences, timeout_s):
        if self.busy:
            raise BlockingIOError("256 calls are in progress")
        call = SubmittedCall()
        calls.append((list(sequences), timeout_s, call))
        return call


class Job:
    """A kvtier.LaneJob that ends when a test says so."""

    def __init__(self, keys, blocks, parent=None, timeout_s=None):
        self.keys, self.blocks, self.parent, self.timeout_s = list(keys), list(blocks), parent, timeout_s
        self.done, self.copied, self.error = False, False, None
        self._results = None
        self.waits = []  # Seconds of each wait() for it.

    @property
    def results(self):
        assert self.done, "results REQUIRES done"
        return self._results

    def wait(self, timeout_s):
        self.waits.append(timeout_s)
        return self.done

    def end(self, results=None):
        self.done, self.copied = True, True
        self._results = [True] * len(self.blocks) if results is None else list(results)


class RecordedLanes:
    """kvtier.Lanes that copy nothing."""

    def __init__(self):
        self.offloads, self.onboards, self.awaited = [], [], []
        self.streams = []  # Streams that the jobs wait for, in the order of the calls.
        self.hints = []  # Hints of the jobs, in the order of the calls.
        self.full = False
        self.ends_in_time = True  # Result of await_copied(). If False, it counts all of its blocks as given up.
        self.given_up = 0
        self.closed = False

    def offload(self, keys, blocks, parent=None, after_stream=None, hint=None):
        self.streams.append(after_stream)
        self.hints.append(hint)
        return self._add(self.offloads, Job(keys, blocks, parent=parent))

    def onboard(self, keys, blocks, timeout_s=None, after_stream=None, hint=None):
        self.streams.append(after_stream)
        self.hints.append(hint)
        return self._add(self.onboards, Job(keys, blocks, timeout_s=timeout_s))

    def poll(self):
        return []

    def await_copied(self, blocks, timeout_s):
        self.awaited.append((list(blocks), timeout_s))
        self.given_up += 0 if self.ends_in_time else len(blocks)
        return self.ends_in_time

    def stats(self):
        return {"offload_given_up_blocks": self.given_up}

    def close(self):
        self.closed = True
        for job in self.offloads + self.onboards:
            if not job.done:
                job.end([False] * len(job.blocks))

    def _add(self, jobs, job):
        if self.full:
            raise BlockingIOError("the queue is full")
        jobs.append(job)
        return job


@dataclass
class Request:
    """The fields of the engine's Request that the connector reads."""

    request_id: str
    num_tokens: int
    block_hashes: list
    lora_request: object = None
    kv_transfer_params: object = None
    num_preemptions: int = 0
    skip_reading_prefix_cache: bool = False


def make_request(name, tokens, **more):
    """Returns a request whose block i has the key b"k" followed by i in 31 digits."""
    return Request(name, tokens, make_keys(tokens // BLOCK_TOKENS), **more)


def make_keys(count):
    return [b"k%031d" % i for i in range(count)]


@dataclass
class Step:
    """A SchedulerOutput under construction."""

    scheduled_new_reqs: list = field(default_factory=list)
    num_scheduled_tokens: dict = field(default_factory=dict)
    scheduled_cached_reqs: object = field(default_factory=lambda: SimpleNamespace(
        req_ids=[], resumed_req_ids=set(), new_block_ids=[], num_computed_tokens=[]))
    preempted_req_ids: set = field(default_factory=set)

    @property
    def total_num_scheduled_tokens(self):
        return sum(self.num_scheduled_tokens.values())

    def new(self, name, computed, scheduled, *groups):
        self.scheduled_new_reqs.append(SimpleNamespace(req_id=name, num_computed_tokens=computed,
                                                       block_ids=tuple(groups)))
        self.num_scheduled_tokens[name] = scheduled
        return self

    def cached(self, name, computed, scheduled, *groups, resumed=False):
        cached = self.scheduled_cached_reqs
        cached.req_ids.append(name)
        cached.num_computed_tokens.append(computed)
        cached.new_block_ids.append(tuple(groups) if groups else None)
        if resumed:
            cached.resumed_req_ids.add(name)
        self.num_scheduled_tokens[name] = scheduled
        return self


def spec(**changes):
    """Returns a space of one rank."""
    fields = {"model": "m", "weights_digest": "w", "dtype": "float32", "layout": "l", "layers": 2, "kv_heads": 3,
              "head_dim": 64, "tokens_per_block": BLOCK_TOKENS, "block_bytes": 4096}
    return kvtier.SpaceSpec(**{**fields, **changes})
