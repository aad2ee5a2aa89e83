"""Ten times the callers that a node has memory for: what the agent takes of memory, and how fast it refuses.

The disks are promised all blocks that they may be, so that puts wait. Puts of 8,192 keys fill the budget for calls
in progress until less is left than such a put takes, and puts of one key fill the rest. Nine times as many clients ask
for more and are refused, again and again. Meanwhile one more client's call for one key is refused, and timed beside an
empty call.
"""

import itertools
import math
import multiprocessing
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import kvtier
from engines_medians import percentile_of, print_figure
from engines_node import Node
from own_session import OwnSession
from tenants_worker import KEYS, TIMEOUT_S, Worker, keys_of, tenants_node

_TENANT = "crowd"
_HOST_BYTES = 512 << 20
_DISK_BYTES = 1 << 30
_MIB = 1 << 20
# Limit of memory beside the arenas, as docs/OPERATING.md#memory states it.
_BESIDE_BYTES = 1024 * _MIB
_TENANT_BYTES = 3 * _MIB
_DISK_BESIDE_BYTES = 32 * _MIB
_BLOCK_BESIDE_BYTES = 1024
# Bytes that a call takes of the budget for calls, from agent/limits.h.
_BUDGET_BYTES = 256 * _MIB
_CALL_BYTES = 16 << 10
_BYTES_PER_REQUEST_BYTE = 4
_KEY_BYTES = 64  # The longest keys that there are.
_FIELDS_BYTES = 64  # Bytes of a request besides its keys, about.

_PUTS_PER_CLIENT = 16  # Puts that may wait.
_TIMES = 10
_PROCESSES = 16
_RETRY_S = 4.0  # Wait of a client whose put was refused.
_SETTLED_S = 3.0
MOST_SECONDS = 20  # Longest measurement, in seconds: reservations last as long.
_SAMPLE_S = 0.02
_PAUSE_S = 0.002
_ENOUGH_REFUSED = 100
_MOST_EMPTY_CALLS = 3


@dataclass(frozen=True)
class _Client:
    """One client: keys of each of its puts, how many it keeps waiting, and when it begins."""

    keys: int
    puts: int
    begins_s: float


def _clients_of(keys: int, puts: int, begins_s: float) -> list[_Client]:
    """Returns the clients for so many puts."""
    return [_Client(keys, min(_PUTS_PER_CLIENT, puts - first), begins_s)
            for first in range(0, puts, _PUTS_PER_CLIENT)]


def _all_clients() -> tuple[int, list[_Client]]:
    """Returns how many clients fill the budget, and all clients: these first, then nine times as many."""
    large = _CALL_BYTES + _BYTES_PER_REQUEST_BYTE * (KEYS * _KEY_BYTES + _FIELDS_BYTES)
    large_puts = _BUDGET_BYTES // large
    small_puts = (_BUDGET_BYTES - large_puts * large) // _CALL_BYTES + _PUTS_PER_CLIENT
    fill = _clients_of(KEYS, large_puts, 0) + _clients_of(1, small_puts, _SETTLED_S / 2)
    more = _clients_of(KEYS, large_puts, _SETTLED_S) + _clients_of(1, small_puts, _SETTLED_S)
    return len(fill), fill + (_TIMES - 1) * more


class _Crowd:
    """The clients, in processes of one session of their own. Those that fill the budget with large puts begin first."""

    def __init__(self, socket_dir: str) -> None:
        self._socket_dir = socket_dir
        self.fill, self.clients = _all_clients()
        self._ready = multiprocessing.Semaphore(0)
        self._began = multiprocessing.Value("d", math.inf)
        self._processes = OwnSession(_PROCESSES, self._run)
        for _ in range(_PROCESSES):
            if not self._ready.acquire(timeout=TIMEOUT_S):
                raise RuntimeError("the clients are not ready")

    def begin(self) -> None:
        """Lets the clients begin, and returns when all of them have."""
        self._began.value = time.monotonic()
        time.sleep(2 * _SETTLED_S)

    def end(self) -> None:
        """Ends the processes."""
        self._processes.end()

    def _run(self, number: int) -> None:
        kvtier.set_logger(lambda level, line: None)
        mine = self.clients[number::_PROCESSES]
        workers = [Worker(self._socket_dir, _TENANT, 0) for _ in mine]
        keys = {count: [f"{number:03d}-{i:060d}".encode() for i in range(count)] for count in (1, KEYS)}
        calls: dict[tuple[int, int], tuple[float, kvtier.Call | None]] = {
            (at, put): (client.begins_s, None) for at, client in enumerate(mine) for put in range(client.puts)}
        self._ready.release()
        while True:
            now = time.monotonic() - self._began.value
            for place, (due, call) in list(calls.items()):
                worker = workers[place[0]]
                if call is None and now >= due:
                    sequence = kvtier.Sequence(worker.space, keys[mine[place[0]].keys])
                    calls[place] = (now, worker.client.submit_reserve([sequence], timeout_s=TIMEOUT_S))
                elif call is not None and call.done():
                    calls[place] = (now + _RETRY_S, None)
            time.sleep(_SAMPLE_S)


@contextmanager
def _promised(socket_dir: str) -> Iterator[Worker]:
    """Returns a worker whose puts of two full calls wait to be written, which is all that the disks may be promised."""
    worker = Worker(socket_dir, _TENANT, 1)
    worker.put_all()
    puts = [worker.client.reserve(worker.space, keys_of(f"held{i}-", 0, KEYS), timeout_s=TIMEOUT_S) for i in range(2)]
    yield worker
    for put in puts:
        put.release()
    worker.client.close()


class _Memory:
    """The most memory that the agent had, sampled all the time."""

    def __init__(self, node: Node) -> None:
        self._node, self._over = node, threading.Event()
        self.all, self.beside = 0, 0
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def stop(self) -> None:
        """Ends the sampling."""
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(_SAMPLE_S):
            memory = self._node.memory()
            self.all = max(self.all, sum(memory.values()))
            self.beside = max(self.beside, memory["RssAnon"] + memory["RssFile"])


def _limit_beside(node: Node) -> int:
    """Returns what the agent may take beside its arena, with all the blocks that it has now."""
    blocks = sum(tier["blocks"] for tier in node.status()["tiers"])
    return _BESIDE_BYTES + _TENANT_BYTES + _DISK_BESIDE_BYTES + blocks * _BLOCK_BESIDE_BYTES


def _refusals_and_empty_calls(worker: Worker, seconds: float) -> tuple[list[float], list[float], int]:
    """Returns the times of refused calls and of empty ones, in ms, by turns, and how many calls were not refused."""
    refused, empty, let_in = [], [], 0
    end = time.monotonic() + seconds
    for turn in itertools.count():
        if time.monotonic() >= end:
            return refused, empty, let_in
        before = worker.client.stats()["calls_refused"]
        began = time.perf_counter()
        if turn % 2 == 0:
            if worker.client.ping(TIMEOUT_S):
                empty.append(1e3 * (time.perf_counter() - began))
        else:
            worker.finds_first()
            took = 1e3 * (time.perf_counter() - began)
            if worker.client.stats()["calls_refused"] > before:
                refused.append(took)
            else:
                let_in += 1
        time.sleep(_PAUSE_S)


def measure_overload(seconds: float) -> bool:
    """Prints what the agent takes of memory and how fast it refuses; returns whether that is within what is stated."""
    with tenants_node("overload", (_TENANT,), str(_HOST_BYTES), str(_DISK_BYTES)) as node:
        memory = _Memory(node)
        crowd = _Crowd(str(node.socket_dir))
        try:
            with _promised(str(node.socket_dir)) as worker:
                crowd.begin()
                refused, empty, let_in = _refusals_and_empty_calls(worker, seconds)
                sessions = node.status()["sessions"]
                crowd.end()
            limit_beside = _limit_beside(node)
        finally:
            crowd.end()
            memory.stop()
    print(f"{len(crowd.clients)} clients, {sessions} sessions; {crowd.fill} of them fill the budget. Calls of one key: "
          f"{len(refused)} refused, {let_in} let in")
    limit = _HOST_BYTES + limit_beside
    for name, value, of in (("all", memory.all, limit), ("beside_arena", memory.beside, limit_beside)):
        print(f"tenants.overload.memory_{name}: {value / _MIB:.0f} MiB, {of / _MIB:.0f} stated")
        print_figure(f"tenants.overload.memory_{name}", value / _MIB, "MiB", value / of, "stated_total")
    holds = memory.all <= limit and memory.beside <= limit_beside and len(refused) >= _ENOUGH_REFUSED
    if refused and empty:
        for share in (0.5, 0.99):
            value, reference = percentile_of(refused, share), percentile_of(empty, share)
            print_figure(f"tenants.overload.refusal.p{100 * share:.0f}", value, "ms", value / reference, "empty_call")
        holds = holds and value <= _MOST_EMPTY_CALLS * reference
        print(f"tenants.overload.refusal: p99 {value:.3g} ms, of an empty call {reference:.3g} ms")
    print(f"overload: {'holds' if holds else 'FAILS'}: memory within what is stated, {len(refused)} calls refused (at "
          f"least {_ENOUGH_REFUSED}), p99 of a refusal at most {_MOST_EMPTY_CALLS} empty calls'")
    return holds
