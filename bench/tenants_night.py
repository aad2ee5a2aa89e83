"""One night of three tenants of an agent: a conversation of the first grows and grows, and the other two go on.

The scale is 1/50: a block of 16 tokens has 160 KiB instead of 8 MiB, so that the conversation of 50,000 tokens that
has 25 GB in print has half a GB, in 3,125 blocks. It does not stop there: it grows to 124,000 tokens. The node has
768 MiB, 256 MiB guaranteed to each tenant. In the evening the others use a fifth of theirs, so that the first may
borrow; in the morning they come back for most of it, and from then on they are measured.

There are four nights. In "control" the conversation stops growing where it fills what its tenant is guaranteed; in
"busy_control" its worker uses as much of the processor in each turn, besides, as it does in "shares". In "shares" it
grows, and each tenant has its share; in "no_shares" it grows, and all three are one tenant. It is judged that "shares"
is no worse for the others than "control". Host memory is in the order of eviction that is asked for.
"""

import json
import multiprocessing
import random
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import kvtier
from engines_medians import percentile_of, print_figure
from engines_node import Node

_MIB = 1 << 20
_BLOCK_BYTES = 160 << 10
_PRINTED_BLOCK_BYTES = 8 * _MIB  # Bytes of 16 tokens of 32 layers of 4,096 in fp16.
_HOST_BYTES = 768 * _MIB
_SLAB_BYTES = 8 * _MIB
_TIMEOUT_S = 10
_TOKENS_PER_BLOCK = 16
_BLOCKS_PER_TURN = 25
_BLOCKS_PER_PUT = 128  # 2,048 tokens: an engine's step of a long prefill.
_THREAD_TENANT = "thread"
_OTHERS = ("morning", "noon")
_SHARE_BLOCKS = _HOST_BYTES // 3 // _SLAB_BYTES * (_SLAB_BYTES // _BLOCK_BYTES)  # Bytes that each tenant is guaranteed.
_CONVERSATION_BLOCKS = 20
_ASLEEP = 16  # Conversations of each of the others in the evening.
_AWAKE = 72  # Conversations of each of the others in the morning.
_WAKE_TURN = 90
_WARM_TURNS = 40  # Turns after which the others have asked for all of their conversations.
_TURNS = 310
_GETS_PER_TURN = 16  # Gets of each turn: so many that the p99 of each of the others is taken from 2,880 times.
_SEED = 3
_NIGHTS = ("control", "shares", "busy_control", "no_shares")
_MOST_POINTS = 1.0  # Percentage points of hits that the others may lose.
_MOST_RATIO = 1.25  # Largest ratio of their p99.
_MOST_LATE = 1.05  # Times its planned duration that a night may take.
SCHEMA = 2
ORDERS = ("learnt", "lru")  # The agent's default order of eviction comes first.


@dataclass
class Tenant:
    """The measurements of one tenant, by turn."""

    name: str
    asked: list[int] = field(default_factory=list)  # Blocks.
    hits: list[int] = field(default_factory=list)
    milliseconds: list[list[float]] = field(default_factory=list)  # Milliseconds of each get.
    processor_s: list[float] = field(default_factory=list)  # Processor seconds of the worker's process.

    def morning_ratio(self) -> float:
        """Returns the hits of the blocks that were asked for in the morning."""
        return sum(self.hits[_WAKE_TURN + _WARM_TURNS:]) / sum(self.asked[_WAKE_TURN + _WARM_TURNS:])

    def morning_times(self) -> list[float]:
        """Returns the times of the gets in the morning, in ms."""
        return [ms for turn in self.milliseconds[_WAKE_TURN + _WARM_TURNS:] for ms in turn]


def secret_of(tenant: str) -> bytes:
    """Returns the secret of a tenant, which has 16 bytes or more."""
    return f"the secret of {tenant}".encode()


def _keys_of(name: str, blocks: int) -> list[bytes]:
    return [f"{name}/{i:05d}".encode() for i in range(blocks)]


class _Worker:
    """A worker that asks for prefixes, and puts what is not there."""

    def __init__(self, socket_dir: str, tenant: str) -> None:
        self._client = kvtier.Client(socket_dir, tenant=tenant, tenant_secret=secret_of(tenant), timeout_s=_TIMEOUT_S)
        self._space = self._client.register_space(kvtier.SpaceSpec(
            model="bench_tenants_night", weights_digest="0", dtype="float16", layout="layer,head,token,kv,dim",
            layers=20, kv_heads=1, head_dim=128, tokens_per_block=_TOKENS_PER_BLOCK, block_bytes=_BLOCK_BYTES))
        self._payload = bytes(range(256)) * (_BLOCK_BYTES // 256)
        self._scratch = bytearray(_BLOCK_BYTES)

    def get(self, keys: list[bytes]) -> tuple[int, float]:
        """Asks for a prefix; returns how many blocks were there, and what the answer took in ms."""
        began = time.perf_counter()
        with self._client.onboard(self._space, keys, _TIMEOUT_S, local_only=True) as hit:
            took = 1e3 * (time.perf_counter() - began)
            hits = len(hit)
        self._put(keys, hits)
        return hits, took

    def _put(self, keys: list[bytes], first: int) -> None:
        """Puts the blocks from `first` on, a step at a time, up to the first for which there is no room."""
        for begin in range(first, len(keys), _BLOCKS_PER_PUT):
            some = keys[begin:begin + _BLOCKS_PER_PUT]
            with self._client.reserve(self._space, some, keys[begin - 1] if begin else None) as put:
                for i, state in enumerate(put.states):
                    if state == "reserved":
                        put.copy_in(i, self._payload)
                is_full = "no_room" in put.states
                put.commit()
            if is_full:
                return

    def spin(self, until: float) -> None:
        """Copies blocks in its own memory until its process has used so much of the processor."""
        while time.process_time() < until:
            self._scratch[:] = self._payload


@dataclass(frozen=True)
class _Pace:
    """Keeps the processes at the same turn."""

    start: float
    turn_seconds: float

    def wait(self, turn: int) -> None:
        """Waits until a turn begins."""
        time.sleep(max(0, self.start + turn * self.turn_seconds - time.monotonic()))


@dataclass(frozen=True)
class Evening:
    """Options that all nights of a run have in common."""

    turn_seconds: float
    order: str  # One of ORDERS.


@dataclass(frozen=True)
class _Thread:
    """Parameters of the first tenant, whose conversation grows."""

    most_blocks: int
    processor_s: list[float]  # Least processor seconds that its worker uses, by turn; empty: no least.


def _live_as_thread(socket_dir: str, tenant: str, thread: _Thread, pace: _Pace, answer) -> None:
    """Lives as the first tenant, which asks each turn for all of its conversation, which has grown."""
    worker, lived, keys = _Worker(socket_dir, tenant), Tenant(_THREAD_TENANT), _keys_of("thread", thread.most_blocks)
    for turn in range(_TURNS):
        pace.wait(turn)
        began = time.process_time()
        blocks = min(_BLOCKS_PER_TURN * (turn + 1), thread.most_blocks)
        hits, took = worker.get(keys[:blocks])
        if thread.processor_s:
            worker.spin(began + thread.processor_s[turn])
        lived.asked.append(blocks)
        lived.hits.append(hits)
        lived.milliseconds.append([took])
        lived.processor_s.append(time.process_time() - began)
    answer.put(asdict(lived))


def _live_as_other(socket_dir: str, tenant: str, name: str, pace: _Pace, answer) -> None:
    """Lives as another tenant, which asks each turn for some of its conversations."""
    worker, lived, draws = _Worker(socket_dir, tenant), Tenant(name), random.Random(f"{_SEED} {name}")
    keys = [_keys_of(f"{name}/{conversation}", _CONVERSATION_BLOCKS) for conversation in range(_AWAKE)]
    for turn in range(_TURNS):
        pace.wait(turn)
        began = time.process_time()
        conversations = _AWAKE if turn >= _WAKE_TURN else _ASLEEP
        gets = [worker.get(keys[draws.randrange(conversations)]) for _ in range(_GETS_PER_TURN)]
        lived.asked.append(_CONVERSATION_BLOCKS * len(gets))
        lived.hits.append(sum(hits for hits, _ in gets))
        lived.milliseconds.append([took for _, took in gets])
        lived.processor_s.append(time.process_time() - began)
    answer.put(asdict(lived))


def _run(kind: str, evening: Evening, nights: dict[str, list[Tenant]]) -> list[Tenant]:
    """Runs one night, after those in `nights`; returns what each tenant lived through, the thread's first."""
    own = {name: name if kind != "no_shares" else "all" for name in (_THREAD_TENANT, *_OTHERS)}
    thread = _Thread(most_blocks=_SHARE_BLOCKS if "control" in kind else _BLOCKS_PER_TURN * _TURNS,
                     processor_s=nights["shares"][0].processor_s if kind == "busy_control" else [])
    with tempfile.TemporaryDirectory(prefix="bench-night-") as folder:
        secrets = Path(folder) / "tenants"
        secrets.mkdir()
        for tenant in set(own.values()):
            (secrets / tenant).write_bytes(secret_of(tenant))
            (secrets / tenant).chmod(0o600)
        flags = (f"--tenants_dir={secrets}", f"--slab_bytes={_SLAB_BYTES // _MIB}MiB",
                 f"--host_eviction={evening.order}")
        with Node("night", Path(folder), f"{_HOST_BYTES // _MIB}MiB", more=flags) as node:
            answer = multiprocessing.Queue()
            pace = _Pace(time.monotonic() + 2, evening.turn_seconds)
            socket_dir = str(node.socket_dir)
            processes = [multiprocessing.Process(target=_live_as_thread, args=(
                socket_dir, own[_THREAD_TENANT], thread, pace, answer), daemon=True)]
            processes += [multiprocessing.Process(target=_live_as_other, args=(
                socket_dir, own[name], name, pace, answer), daemon=True) for name in _OTHERS]
            for process in processes:
                process.start()
            planned_s = _TURNS * evening.turn_seconds
            lived = [Tenant(**answer.get(timeout=10 * planned_s + 60)) for _ in processes]
            took_s = time.monotonic() - pace.start
            if took_s > _MOST_LATE * planned_s:
                print(f"night {kind} took {took_s:.0f} s instead of {planned_s:.0f} s: the machine does not keep up, and "
                      "figures say little")
            for process in processes:
                process.join()
    return sorted(lived, key=lambda tenant: (_THREAD_TENANT, *_OTHERS).index(tenant.name))


def _print_figures(nights: dict[str, list[Tenant]]) -> None:
    """Prints what the others found in the morning and how long they waited, in each night beside the control."""
    for kind in _NIGHTS:
        for tenant, control in zip(nights[kind][1:], nights["control"][1:], strict=True):
            hits, reference = 100 * tenant.morning_ratio(), 100 * control.morning_ratio()
            name = f"tenants.night.{kind}.{tenant.name}"
            print_figure(f"{name}.hits", hits, "percent", hits / reference, "thread_inside_its_share")
            for share in (0.5, 0.99):
                value, control_value = (percentile_of(of.morning_times(), share) for of in (tenant, control))
                print_figure(f"{name}.p{100 * share:.0f}", value, "ms", value / control_value,
                             "thread_inside_its_share")
        found = 100 * nights[kind][0].morning_ratio()
        print_figure(f"tenants.night.{kind}.{_THREAD_TENANT}.hits", found, "percent",
                     found / (100 * nights["control"][0].morning_ratio()), "thread_inside_its_share")


def _judge(nights: dict[str, list[Tenant]]) -> list[str]:
    """Returns a sentence for each thing that the others lose in "shares" beside "control", beyond what they may."""
    lost = []
    for tenant, control in zip(nights["shares"][1:], nights["control"][1:], strict=True):
        hits, reference = 100 * tenant.morning_ratio(), 100 * control.morning_ratio()
        if abs(hits - reference) > _MOST_POINTS:
            lost.append(f"tenant {tenant.name} found {hits:.2f} % of its blocks and {reference:.2f} % in the control; "
                        f"the difference may be {_MOST_POINTS:g} point")
        p99, control_p99 = (percentile_of(of.morning_times(), 0.99) for of in (tenant, control))
        if p99 > _MOST_RATIO * control_p99:
            lost.append(f"tenant {tenant.name} has a p99 of {p99:.3g} ms and of {control_p99:.3g} ms in the control, "
                        f"which is {p99 / control_p99:.2f} times as much; it may be {_MOST_RATIO:g} times")
    return lost


def measure_night(evening: Evening, json_path: str) -> bool:
    """Runs the nights, prints their figures and writes all of it; returns whether the others lost no more than they
    may to the conversation that grows."""
    print(f"scale: blocks of {_TOKENS_PER_BLOCK} tokens of {_BLOCK_BYTES >> 10} KiB instead of "
          f"{_PRINTED_BLOCK_BYTES >> 10} KiB, some 1/50; the conversation grows to "
          f"{_TURNS * _BLOCKS_PER_TURN * _TOKENS_PER_BLOCK} tokens, its tenant is guaranteed room for "
          f"{_SHARE_BLOCKS * _TOKENS_PER_BLOCK}; host memory is in the order {evening.order}")
    nights: dict[str, list[Tenant]] = {}
    for kind in _NIGHTS:
        print(f"night {kind}: {_TURNS} turns of {evening.turn_seconds:g} s", flush=True)
        nights[kind] = _run(kind, evening, nights)
    _print_figures(nights)
    if json_path:
        written = {"schema": SCHEMA, "tokens_per_turn": _BLOCKS_PER_TURN * _TOKENS_PER_BLOCK, "wake_turn": _WAKE_TURN,
                   "measured_turn": _WAKE_TURN + _WARM_TURNS, "turn_seconds": evening.turn_seconds,
                   "order": evening.order,
                   "share_tokens": _SHARE_BLOCKS * _TOKENS_PER_BLOCK,
                   "nights": {kind: [asdict(tenant) for tenant in lived] for kind, lived in nights.items()}}
        Path(json_path).write_text(json.dumps(written))
    lost = _judge(nights)
    for sentence in lost:
        print(f"NOT HELD: {sentence}")
    if not lost:
        print(f"held: both other tenants keep their hits within {_MOST_POINTS:g} point and their p99 within "
              f"{_MOST_RATIO:g} times the control")
    return not lost
