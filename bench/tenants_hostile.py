"""Measures a quiet tenant's waits, and the blocks it keeps, while a hostile one does its worst from many sessions.

The hostile tenant's processes are in one session of their own and the agent is in another, so that the kernel shares
the processor between them as between two units or pods, and none is pinned to a core. The control is the same
processes, spinning without a call.
"""

import ctypes
import itertools
import multiprocessing
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import kvtier
from engines_medians import percentile_of, print_figure
from own_session import OwnSession
from tenants_worker import BLOCK_BYTES, KEYS, TIMEOUT_S, Worker, tenants_node

_QUIET, _HOSTILE = "quiet", "hostile"
_KINDS: dict[bytes, Callable[[Worker], None]] = {
    b"match": Worker.match, b"onboard": Worker.onboard, b"put": Worker.put, b"prefetch": Worker.prefetch,
    b"keep": Worker.keep}
_HOST_BYTES = "512MiB"
_GUARANTEED_BYTES = 256 << 20  # Guarantee of each of two tenants.
_PAUSE_S = 0.002  # Pause between two calls that are measured.
_SETTLED_S = 0.5
_MOST_OF_CONTROL = 2  # Most that the quiet tenant's p50 may be, as a multiple of the control's.


@dataclass(frozen=True)
class Shape:
    """How many processes the hostile tenant has, and how many sessions and calls in progress all of them together."""

    processes: int
    sessions: int
    outstanding: int


class Hostile:
    """The hostile tenant, whose threads call without a pause, or spin, as they are told."""

    def __init__(self, socket_dir: str, shape: Shape) -> None:
        self._socket_dir, self._shape = socket_dir, shape
        self._does = multiprocessing.Array("c", 16)
        self._ready = multiprocessing.Semaphore(0)
        self._calls = multiprocessing.Array(ctypes.c_uint64, shape.processes)
        self._processes = OwnSession(shape.processes, self._run)
        for _ in range(shape.processes):
            if not self._ready.acquire(timeout=_SETTLED_S * shape.sessions + TIMEOUT_S):
                raise RuntimeError("the hostile processes are not ready")

    def do(self, kind: str) -> None:
        """Makes the threads spin ("spin"), make calls of a kind, or of all kinds by turns ("all"), from now on."""
        self._does.value = kind.encode()
        time.sleep(_SETTLED_S)

    @property
    def calls(self) -> int:
        """Returns how many calls the tenant has made."""
        return sum(self._calls)

    def end(self) -> None:
        """Ends the processes."""
        self._processes.end()

    def _share(self, number: int, of_all: int) -> int:
        return of_all // self._shape.processes + (number < of_all % self._shape.processes)

    def _run(self, number: int) -> None:
        kvtier.set_logger(lambda level, line: None)  # Most of them say that there are too many.
        sessions = self._share(number, self._shape.sessions)
        workers = [Worker(self._socket_dir, _HOSTILE, KEYS) for _ in range(sessions)]
        if number == 0:
            workers[0].put_all()

        def go_on(thread: int) -> None:
            for turn in itertools.count():
                does = self._does.value
                call = _KINDS.get(does) or (list(_KINDS.values())[turn % len(_KINDS)] if does == b"all" else None)
                if call is not None:
                    call(workers[(thread + turn * threads) % sessions])
                    self._calls[number] += 1

        threads = self._share(number, self._shape.outstanding)
        for thread in range(threads):
            threading.Thread(target=go_on, args=(thread,), daemon=True).start()
        self._ready.release()
        threading.Event().wait()


def milliseconds_of(call: Callable[[], None], seconds: float) -> list[float]:
    """Returns the times of calls, one behind the other, with a pause after each."""
    times = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - began))
        time.sleep(_PAUSE_S)
    return times


def _print_waits(name: str, times: list[float], control: list[float]) -> float:
    """Prints the p50 and p99 beside the control's; returns the p50 in times of the control's."""
    for share in (0.99, 0.5):
        value, reference = percentile_of(times, share), percentile_of(control, share)
        print(f"{name}.p{100 * share:.0f}: {value:.3g} ms, control {reference:.3g} ms; {len(times)} calls")
        print_figure(f"{name}.p{100 * share:.0f}", value, "ms", value / reference, "spinning_control")
    return value / reference


def measure_calls(shape: Shape, seconds: float) -> bool:
    """Prints what one key of the quiet tenant waits for beside the largest calls of each kind."""
    with tenants_node("tenants", (_QUIET, _HOSTILE), _HOST_BYTES) as node:
        hostile = Hostile(str(node.socket_dir), shape)
        try:
            quiet = Worker(str(node.socket_dir), _QUIET, 1)
            quiet.put_all()
            hostile.do("spin")
            control = milliseconds_of(quiet.match_one, seconds)
            for kind in _KINDS:
                hostile.do(kind.decode())
                _print_waits(f"tenants.one_key_beside_{kind.decode()}", milliseconds_of(quiet.match_one, seconds),
                             control)
            quiet.client.close()
        finally:
            hostile.end()
    return True


def measure_starvation(shape: Shape, seconds: float) -> bool:
    """Prints what the quiet tenant waits for and keeps beside all kinds of calls by turns; returns whether it holds."""
    blocks = _GUARANTEED_BYTES // BLOCK_BYTES
    with tenants_node("starve", (_QUIET, _HOSTILE), _HOST_BYTES) as node:
        hostile = Hostile(str(node.socket_dir), shape)
        try:
            quiet = Worker(str(node.socket_dir), _QUIET, blocks)
            quiet.put_all()
            before = quiet.blocks_here()
            hostile.do("spin")
            sessions = node.status()["sessions"] - 1
            print(f"the hostile tenant got {sessions} of {shape.sessions} sessions", flush=True)
            control = milliseconds_of(quiet.match_one, seconds)
            made = hostile.calls
            hostile.do("all")
            times = milliseconds_of(quiet.match_one, seconds)
            made = hostile.calls - made
            hostile.do("spin")
            kept = quiet.blocks_here()
            quiet.client.close()
        finally:
            hostile.end()
    print(f"it made {made} calls of {KEYS} keys in {seconds:g} s")
    print_figure("tenants.starvation.sessions", sessions, "sessions", sessions / shape.sessions, "sessions_tried")
    of_control = _print_waits("tenants.starvation.one_key", times, control)
    print(f"tenants.starvation.kept: {kept} of the {before} blocks that were there before, {blocks} are guaranteed")
    print_figure("tenants.starvation.kept", kept, "blocks", kept / blocks, "guaranteed_blocks")
    holds = of_control <= _MOST_OF_CONTROL and kept == before == blocks and made > 0
    print(f"starvation: {'holds' if holds else 'FAILS'}: p50 {of_control:.2f}x of the control's (at most "
          f"{_MOST_OF_CONTROL}x), {blocks - kept} of {blocks} guaranteed blocks gone (none)")
    return holds
