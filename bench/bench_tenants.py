#!/usr/bin/env python3
# bench: tenants - what one tenant's calls wait for while another keeps large calls under way
# targets: kvtier-agent
"""Two tenants of one agent: a worker of the one asks for one key, again and again, while a worker of the other keeps
calls of 8,192 keys under way.

    scripts/bench tenants [--outstanding 16] [--seconds 5]

The reference of each figure is a control in the same run, in which the threads of the other worker spin without
calling, so that it takes as much of the processor.
"""

import argparse
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import kvtier
from engines_medians import percentile_of, print_figure
from engines_node import Node

_KEYS = 8192
_PAUSE_S = 0.002  # Between two calls that are measured.
_SETTLED_S = 0.5
_TIMEOUT_S = 60
_BLOCK_BYTES = 4096
_TENANTS = ("quiet", "hostile")
_KINDS = ("match", "onboard")


def secret_of(tenant: str) -> bytes:
    """Returns the secret of a tenant, which has 16 bytes or more."""
    return f"the secret of {tenant}".encode()


class Worker:
    """A worker of a tenant, with `count` blocks of it in host memory."""

    def __init__(self, socket_dir: str, tenant: str, count: int) -> None:
        self._client = kvtier.Client(socket_dir, tenant=tenant, tenant_secret=secret_of(tenant), timeout_s=_TIMEOUT_S)
        self._space = self._client.register_space(kvtier.SpaceSpec(
            model=f"bench_tenants_{tenant}", weights_digest="0", dtype="float32", layout="layer,head,token,kv,dim",
            layers=1, kv_heads=1, head_dim=64, tokens_per_block=8, block_bytes=_BLOCK_BYTES))
        self._keys = [b"block%011d" % i for i in range(count)]
        with self._client.reserve(self._space, self._keys) as put:
            for i in range(count):
                put.copy_in(i, bytes(_BLOCK_BYTES))
            put.commit()

    def match(self) -> None:
        """Asks where the blocks are. RuntimeError: not here."""
        if self._client.match(self._space, self._keys, _TIMEOUT_S, local_only=True).local_blocks != len(self._keys):
            raise RuntimeError("blocks are missing")

    def onboard(self) -> None:
        """Leases the blocks and gives them back."""
        self._client.onboard(self._space, self._keys, _TIMEOUT_S).release()


class Hostile:
    """A process with a worker whose threads call without a pause, or spin, while they are told to."""

    def __init__(self, socket_dir: str, outstanding: int) -> None:
        self._does = multiprocessing.Array("c", 16)
        self._ready = multiprocessing.Event()
        self._process = multiprocessing.Process(target=self._run, args=(socket_dir, outstanding), daemon=True)
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

    def _run(self, socket_dir: str, outstanding: int) -> None:
        worker = Worker(socket_dir, "hostile", _KEYS)
        calls: dict[bytes, Callable[[], None]] = {b"match": worker.match, b"onboard": worker.onboard}

        def go_on() -> None:
            while True:
                calls.get(self._does.value, lambda: None)()

        for _ in range(outstanding):
            threading.Thread(target=go_on, daemon=True).start()
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


def measure(quiet: Worker, hostile: Hostile, seconds: float) -> None:
    """Prints what the quiet tenant waits for, by what the hostile one does."""
    hostile.do("spin")
    control = milliseconds_of(quiet.match, seconds)
    for kind in _KINDS:
        hostile.do(kind)
        times = milliseconds_of(quiet.match, seconds)
        for share in (0.5, 0.99):
            value, reference = percentile_of(times, share), percentile_of(control, share)
            name = f"tenants.one_key_beside_{kind}.p{100 * share:.0f}"
            print(f"{name}: {value:.3g} ms, control {reference:.3g} ms; {len(times)} calls")
            print_figure(name, value, "ms", value / reference, "spinning_control")


def main() -> None:
    """Runs it, with an agent of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outstanding", type=int, default=16, help="calls that the hostile worker keeps under way")
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement")
    options = parser.parse_args()
    if options.outstanding < 1 or options.seconds <= 0:
        parser.error("--outstanding is 1 or more, and --seconds above 0")
    with tempfile.TemporaryDirectory(prefix="bench-tenants-") as folder:
        secrets = Path(folder) / "tenants"
        secrets.mkdir()
        for tenant in _TENANTS:
            (secrets / tenant).write_bytes(secret_of(tenant))
            (secrets / tenant).chmod(0o600)
        with Node("tenants", Path(folder), "512MiB", more=(f"--tenants_dir={secrets}",)) as node:
            hostile = Hostile(str(node.socket_dir), options.outstanding)
            measure(Worker(str(node.socket_dir), "quiet", 1), hostile, options.seconds)
            hostile.end()


if __name__ == "__main__":
    main()
