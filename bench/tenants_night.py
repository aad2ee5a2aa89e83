"""One night of three tenants of an agent: a conversation of the first grows and grows, and the other two go on.

The conversation of 50,000 tokens that has 25 GB in print is here 1/50 of that: 3,125 blocks of 160 KiB, 16 tokens
each. The node has 768 MiB, 256 MiB for each tenant. In the evening the others use a fifth of theirs, so that the
first may borrow; in the morning they come back for all of it.
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

_BLOCK_BYTES = 160 << 10
_HOST_BYTES = "768MiB"
_SHARE_BLOCKS = 1600
_SLAB_BYTES = "8MiB"
_TIMEOUT_S = 10
_TOKENS_PER_BLOCK = 16
_BLOCKS_PER_TURN = 25
_THREAD_TENANT = "thread"
_OTHERS = ("morning", "noon")
_CONVERSATION_BLOCKS = 20
_ASLEEP = 16  # Conversations of each of the others in the evening.
_AWAKE = 72  # And in the morning.
_WAKE_TURN = 90
_WARM_TURNS = 40  # After which the others have asked for nearly all of their conversations.
_TURNS = 190  # Up to 76,000 tokens.
_GETS_PER_TURN = 8
_SEED = 3
SCHEMA = 1


@dataclass
class Tenant:
    """What one tenant lived through, by turn."""

    name: str
    asked: list[int] = field(default_factory=list)  # Blocks.
    hits: list[int] = field(default_factory=list)
    milliseconds: list[list[float]] = field(default_factory=list)  # Of each get.

    def morning_ratio(self) -> float:
        """Returns the hits of the blocks that were asked for in the morning."""
        return sum(self.hits[_WAKE_TURN + _WARM_TURNS:]) / sum(self.asked[_WAKE_TURN + _WARM_TURNS:])

    def morning_times(self) -> list[float]:
        """Returns the times of the gets in the morning, in ms."""
        return [ms for turn in self.milliseconds[_WAKE_TURN + _WARM_TURNS:] for ms in turn]


def secret_of(tenant: str) -> bytes:
    """Returns the secret of a tenant, which has 16 bytes or more."""
    return f"the secret of {tenant}".encode()


class _Worker:
    """A worker that asks for prefixes, and puts what is not there."""

    def __init__(self, socket_dir: str, tenant: str) -> None:
        self._client = kvtier.Client(socket_dir, tenant=tenant, tenant_secret=secret_of(tenant), timeout_s=_TIMEOUT_S)
        self._space = self._client.register_space(kvtier.SpaceSpec(
            model="bench_tenants_night", weights_digest="0", dtype="float16", layout="layer,head,token,kv,dim",
            layers=20, kv_heads=1, head_dim=128, tokens_per_block=_TOKENS_PER_BLOCK, block_bytes=_BLOCK_BYTES))
        self._payload = bytes(range(256)) * (_BLOCK_BYTES // 256)

    def get(self, name: str, blocks: int) -> tuple[int, float]:
        """Asks for a prefix; returns how many blocks were there, and what the answer took in ms."""
        keys = [f"{name}/{i:05d}".encode() for i in range(blocks)]
        began = time.perf_counter()
        with self._client.onboard(self._space, keys, _TIMEOUT_S, local_only=True) as hit:
            took = 1e3 * (time.perf_counter() - began)
            hits = len(hit)
        if hits < blocks:
            with self._client.reserve(self._space, keys[hits:], keys[hits - 1] if hits else None) as put:
                for i, state in enumerate(put.states):
                    if state == "reserved":
                        put.copy_in(i, self._payload)
                put.commit()
        return hits, took


def _live_as_thread(socket_dir: str, tenant: str, most_blocks: int, pace: "_Pace", answer) -> None:
    """The first tenant: each turn it asks for all of its conversation, which has grown."""
    worker, lived = _Worker(socket_dir, tenant), Tenant(_THREAD_TENANT)
    for turn in range(_TURNS):
        pace.wait(turn)
        blocks = min(_BLOCKS_PER_TURN * (turn + 1), most_blocks)
        hits, took = worker.get("thread", blocks)
        lived.asked.append(blocks)
        lived.hits.append(hits)
        lived.milliseconds.append([took])
    answer.put(asdict(lived))


def _live_as_other(socket_dir: str, tenant: str, name: str, pace: "_Pace", answer) -> None:
    """Another tenant: each turn it asks for some of its conversations."""
    worker, lived, draws = _Worker(socket_dir, tenant), Tenant(name), random.Random(f"{_SEED} {name}")
    for turn in range(_TURNS):
        pace.wait(turn)
        conversations = _AWAKE if turn >= _WAKE_TURN else _ASLEEP
        gets = [worker.get(f"{name}/{draws.randrange(conversations)}", _CONVERSATION_BLOCKS)
                for _ in range(_GETS_PER_TURN)]
        lived.asked.append(_CONVERSATION_BLOCKS * len(gets))
        lived.hits.append(sum(hits for hits, _ in gets))
        lived.milliseconds.append([took for _, took in gets])
    answer.put(asdict(lived))


@dataclass(frozen=True)
class _Pace:
    """Keeps the processes at the same turn."""

    start: float
    turn_seconds: float

    def wait(self, turn: int) -> None:
        """Waits until a turn begins."""
        time.sleep(max(0, self.start + turn * self.turn_seconds - time.monotonic()))


def _run(kind: str, turn_seconds: float) -> list[Tenant]:
    """Runs one night: "control", in which the thread stays small, "shares", or "no_shares", as one tenant."""
    with tempfile.TemporaryDirectory(prefix="bench-night-") as folder:
        secrets = Path(folder) / "tenants"
        secrets.mkdir()
        tenants = (_THREAD_TENANT, *_OTHERS) if kind != "no_shares" else ("all",)
        for tenant in tenants:
            (secrets / tenant).write_bytes(secret_of(tenant))
            (secrets / tenant).chmod(0o600)
        flags = (f"--tenants_dir={secrets}", f"--slab_bytes={_SLAB_BYTES}", "--host_eviction=lru")
        with Node("night", Path(folder), _HOST_BYTES, more=flags) as node:
            answer = multiprocessing.Queue()
            pace = _Pace(time.monotonic() + 2, turn_seconds)
            most = _SHARE_BLOCKS // 2 if kind == "control" else _BLOCKS_PER_TURN * _TURNS
            own = {name: name if kind != "no_shares" else "all" for name in (_THREAD_TENANT, *_OTHERS)}
            socket_dir = str(node.socket_dir)
            processes = [multiprocessing.Process(target=_live_as_thread, args=(
                socket_dir, own[_THREAD_TENANT], most, pace, answer), daemon=True)]
            processes += [multiprocessing.Process(target=_live_as_other, args=(
                socket_dir, own[name], name, pace, answer), daemon=True) for name in _OTHERS]
            for process in processes:
                process.start()
            lived = [Tenant(**answer.get(timeout=_TURNS * turn_seconds + 60)) for _ in processes]
            for process in processes:
                process.join()
    return sorted(lived, key=lambda tenant: (_THREAD_TENANT, *_OTHERS).index(tenant.name))


def measure_night(turn_seconds: float, json_path: str) -> None:
    """Runs three nights, prints what the others kept of their hits and how long they waited, and writes all of it."""
    nights = {}
    for kind in ("control", "shares", "no_shares"):
        print(f"night with {kind.replace('_', ' ')}: {_TURNS} turns of {turn_seconds:g} s", flush=True)
        nights[kind] = _run(kind, turn_seconds)
    for kind in ("shares", "no_shares"):
        for tenant, control in zip(nights[kind][1:], nights["control"][1:], strict=True):
            hits, reference = 100 * tenant.morning_ratio(), 100 * control.morning_ratio()
            name = f"tenants.night.{kind}.{tenant.name}"
            print(f"{name}: {hits:.2f} % of its blocks found in the morning, control {reference:.2f} %")
            print_figure(f"{name}.hits", hits, "percent", hits / reference, "thread_inside_its_share")
            for share in (0.5, 0.99):
                value, control_value = (percentile_of(of.morning_times(), share) for of in (tenant, control))
                print_figure(f"{name}.p{100 * share:.0f}", value, "ms", value / control_value,
                             "thread_inside_its_share")
    if json_path:
        written = {"schema": SCHEMA, "tokens_per_turn": _BLOCKS_PER_TURN * _TOKENS_PER_BLOCK, "wake_turn": _WAKE_TURN,
                   "nights": {kind: [asdict(tenant) for tenant in lived] for kind, lived in nights.items()}}
        Path(json_path).write_text(json.dumps(written))
