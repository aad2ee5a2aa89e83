#!/usr/bin/env python3
# bench: tenants - what one tenant's calls wait for while another keeps large calls under way
# targets: kvtier-agent
"""Two tenants of one agent: a worker of the one asks for one key, again and again, while a worker of the other keeps
calls of 8,192 keys under way: matches, onboards, puts, prefetches, and for --starve_seconds all of them by turns,
from --sessions sessions. Then the blocks of the first are counted.

    scripts/bench tenants [--outstanding 16] [--seconds 5] [--starve_seconds 60] [--sessions 64]
                          [--turn_seconds 0.2] [--night_json NIGHT.json] [--only calls|night]

The reference of each figure is a control in the same run, in which the threads of the other worker spin without
calling, so that it takes as much of the processor.

Then a night of three tenants (bench/tenants_night.py): what two of them keep of their hits and their p99 while a
conversation of the third grows to 124,000 tokens, beside a night in which it stays inside its share. It ends with 1
where they lose more than a point or wait more than 1.25 times as long. bench/plot_night.py draws it.
"""

import argparse
import itertools
import multiprocessing
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import kvtier
from engines_medians import percentile_of, print_figure
from engines_node import Node
from tenants_night import measure_night, secret_of

_KEYS = 8192
_PAUSE_S = 0.002  # Between two calls that are measured.
_SETTLED_S = 0.5
_TIMEOUT_S = 60
_BLOCK_BYTES = 4096
_TENANTS = ("quiet", "hostile")
_KINDS = ("match", "onboard", "put", "prefetch")
_KEPT_BLOCKS = 4096  # Of the tenant that is measured.
_WRITTEN_BLOCKS = 64  # Of a put; the others are reserved and given back.


class Worker:
    """A worker of a tenant, with `count` blocks of it in host memory."""

    def __init__(self, socket_dir: str, tenant: str, count: int) -> None:
        self._client = kvtier.Client(socket_dir, tenant=tenant, tenant_secret=secret_of(tenant), timeout_s=_TIMEOUT_S)
        self._space = self._client.register_space(kvtier.SpaceSpec(
            model=f"bench_tenants_{tenant}", weights_digest="0", dtype="float32", layout="layer,head,token,kv,dim",
            layers=1, kv_heads=1, head_dim=64, tokens_per_block=8, block_bytes=_BLOCK_BYTES))
        self._keys = [b"block%011d" % i for i in range(count)]
        self._puts = itertools.count(1)
        self._put(self._keys, count)

    def _put(self, keys: list[bytes], written: int) -> None:
        with self._client.reserve(self._space, keys) as put:
            for i, state in enumerate(put.states[:written]):
                if state == "reserved":
                    put.copy_in(i, bytes(_BLOCK_BYTES))
            put.commit()

    def match_one(self) -> None:
        """Asks where the first block is. RuntimeError: not here."""
        if self._client.match(self._space, self._keys[:1], _TIMEOUT_S, local_only=True).local_blocks != 1:
            raise RuntimeError("the block is missing")

    def blocks_here(self) -> int:
        """Returns how many of the blocks are still here, up to the first that is not."""
        return self._client.match(self._space, self._keys, _TIMEOUT_S, local_only=True).local_blocks

    def match(self) -> None:
        """Asks where the blocks are."""
        self.blocks_here()

    def onboard(self) -> None:
        """Leases the blocks and gives them back."""
        self._client.onboard(self._space, self._keys, _TIMEOUT_S).release()

    def put(self) -> None:
        """Reserves as many new blocks, writes some and gives the others back."""
        number = next(self._puts)
        self._put([b"put%05d-%07d" % (number, i) for i in range(len(self._keys))], _WRITTEN_BLOCKS)

    def prefetch(self) -> None:
        """Asks for the blocks to be brought to host memory."""
        self._client.prefetch(self._space, self._keys, _TIMEOUT_S, local_only=True)

    def all_by_turns(self) -> None:
        """Makes one call of each kind."""
        for call in (self.match, self.onboard, self.put, self.prefetch):
            call()


class Hostile:
    """A process with a worker whose threads call without a pause, or spin, while they are told to."""

    def __init__(self, socket_dir: str, outstanding: int, sessions: int) -> None:
        self._does = multiprocessing.Array("c", 16)
        self._ready = multiprocessing.Event()
        self._process = multiprocessing.Process(target=self._run, args=(socket_dir, outstanding, sessions), daemon=True)
        self._process.start()
        if not self._ready.wait(_TIMEOUT_S):
            raise RuntimeError("the hostile worker is not ready")

    def do(self, kind: str) -> None:
        """Makes the threads spin ("spin"), or make calls of a kind, from now on."""
        self._does.value = kind.encode()
        time.sleep(_SETTLED_S)

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.join()

    def _run(self, socket_dir: str, outstanding: int, sessions: int) -> None:
        workers = [Worker(socket_dir, "hostile", _KEYS) for _ in range(sessions)]
        calls: dict[bytes, Callable[[Worker], None]] = {
            b"match": Worker.match, b"onboard": Worker.onboard, b"put": Worker.put, b"prefetch": Worker.prefetch,
            b"all": Worker.all_by_turns}

        def go_on(number: int) -> None:
            for turn in itertools.count():
                calls.get(self._does.value, lambda worker: None)(workers[(number + turn * outstanding) % sessions])

        for number in range(outstanding):
            threading.Thread(target=go_on, args=(number,), daemon=True).start()
        self._ready.set()
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


def measure(quiet: Worker, hostile: Hostile, seconds: float, starve_seconds: float) -> None:
    """Prints what the quiet tenant waits for, by what the hostile one does, and what is left of its blocks."""
    hostile.do("spin")
    control = milliseconds_of(quiet.match_one, seconds)
    for kind in (*_KINDS, "all"):
        hostile.do(kind)
        times = milliseconds_of(quiet.match_one, starve_seconds if kind == "all" else seconds)
        for share in (0.5, 0.99):
            value, reference = percentile_of(times, share), percentile_of(control, share)
            name = f"tenants.one_key_beside_{kind}.p{100 * share:.0f}"
            print(f"{name}: {value:.3g} ms, control {reference:.3g} ms; {len(times)} calls")
            print_figure(name, value, "ms", value / reference, "spinning_control")
    kept = quiet.blocks_here()
    print_figure("tenants.kept_blocks", kept, "blocks", kept / _KEPT_BLOCKS, "blocks_put_before")


def measure_calls(options: argparse.Namespace) -> None:
    """Runs an agent for the quiet tenant and the hostile one."""
    with tempfile.TemporaryDirectory(prefix="bench-tenants-") as folder:
        secrets = Path(folder) / "tenants"
        secrets.mkdir()
        for tenant in _TENANTS:
            (secrets / tenant).write_bytes(secret_of(tenant))
            (secrets / tenant).chmod(0o600)
        with Node("tenants", Path(folder), "512MiB", more=(f"--tenants_dir={secrets}",)) as node:
            hostile = Hostile(str(node.socket_dir), options.outstanding, options.sessions)
            measure(Worker(str(node.socket_dir), "quiet", _KEPT_BLOCKS), hostile, options.seconds,
                    options.starve_seconds)
            hostile.end()


def main() -> None:
    """Runs it, with an agent of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outstanding", type=int, default=16, help="calls that the hostile worker keeps under way")
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement")
    parser.add_argument("--starve_seconds", type=float, default=60, help="of the measurement beside all kinds of calls")
    parser.add_argument("--sessions", type=int, default=64, help="of the hostile tenant")
    parser.add_argument("--turn_seconds", type=float, default=0.2, help="length of each of the 310 turns of a night")
    parser.add_argument("--night_json", default="", help="file that the nights are written to; empty: none")
    parser.add_argument("--only", choices=("calls", "night"), default="", help="measures only this")
    options = parser.parse_args()
    if min(options.outstanding, options.sessions) < 1 or min(options.seconds, options.starve_seconds) <= 0:
        parser.error("--outstanding and --sessions are 1 or more, --seconds and --starve_seconds above 0")
    if options.only != "night":
        measure_calls(options)
    if options.only != "calls" and not measure_night(options.turn_seconds, options.night_json):
        sys.exit(1)


if __name__ == "__main__":
    main()
