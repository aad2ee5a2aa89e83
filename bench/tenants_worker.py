"""A node with tenants for a bench, and a worker of one of them."""

import functools
import itertools
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import kvtier
from engines_node import Node
from tenants_night import secret_of

KEYS = 8192  # Most keys that one call may have.
BLOCK_BYTES = 4096
TIMEOUT_S = 60
_WRITTEN_BLOCKS = 64  # Blocks of a put that are written; the others are reserved and given back.
_TTL_S = 3600
_SLAB_BYTES = "8MiB"
_TRIES = 30
_MOVES_S = 0.5  # Time in which some slabs move to the tenant.


@contextmanager
def tenants_node(name: str, tenants: tuple[str, ...], host_bytes: str, disk_bytes: str = "") -> Iterator[Node]:
    """Runs an agent for these tenants, in a session of its own: to the kernel's scheduler, too, it is one unit."""
    with tempfile.TemporaryDirectory(prefix=f"bench-{name}-") as folder:
        secrets = Path(folder) / "tenants"
        secrets.mkdir()
        for tenant in tenants:
            (secrets / tenant).write_bytes(secret_of(tenant))
            (secrets / tenant).chmod(0o600)
        flags = (f"--tenants_dir={secrets}", f"--slab_bytes={_SLAB_BYTES}")
        with Node(name, Path(folder), host_bytes, disk_bytes, more=flags, own_session=True) as node:
            yield node


class Worker:
    """A worker of a tenant that knows `count` blocks of it, as one run for each 8,192."""

    def __init__(self, socket_dir: str, tenant: str, count: int) -> None:
        self.client = kvtier.Client(socket_dir, tenant=tenant, tenant_secret=secret_of(tenant), timeout_s=TIMEOUT_S)
        self.space = self.client.register_space(kvtier.SpaceSpec(
            model="bench_tenants", weights_digest="0", dtype="float32", layout="layer,head,token,kv,dim",
            layers=1, kv_heads=1, head_dim=64, tokens_per_block=8, block_bytes=BLOCK_BYTES))
        self._runs = _runs_of(count)
        self._puts = itertools.count(1)

    def put_all(self) -> None:
        """Puts all of its blocks, and tries again while memory is on its way to the tenant. Raises RuntimeError if
        the memory does not come."""
        for _ in range(_TRIES):
            for run in self._runs:
                self.put_run(run, len(run))
            if self.blocks_here() == sum(len(run) for run in self._runs):
                return
            time.sleep(_MOVES_S)
        raise RuntimeError(f"the tenant has room for {self.blocks_here()} blocks only")

    def put_run(self, keys: list[bytes], written: int) -> None:
        """Reserves room for the blocks, writes the first ones, commits them and gives the others back."""
        with self.client.reserve(self.space, keys) as put:
            for i, state in enumerate(put.states[:written]):
                if state == "reserved":
                    put.copy_in(i, bytes(BLOCK_BYTES))
            put.commit()

    def match_one(self) -> None:
        """Asks where the first block is. Raises RuntimeError if it is not on the node."""
        if not self.finds_first():
            raise RuntimeError("the block is missing")

    def finds_first(self) -> bool:
        """Asks where the first block is. Returns False if it is not on the node or the call was refused."""
        return self.client.match(self.space, self._runs[0][:1], TIMEOUT_S, local_only=True).local_blocks == 1

    def blocks_here(self) -> int:
        """Returns how many of the blocks are still here, of each run up to the first that is not."""
        return sum(self.client.match(self.space, run, TIMEOUT_S, local_only=True).local_blocks for run in self._runs)

    def match(self) -> None:
        """Asks where the first 8,192 blocks are."""
        self.client.match(self.space, self._runs[0], TIMEOUT_S, local_only=True)

    def onboard(self) -> None:
        """Leases the first 8,192 blocks and gives them back."""
        self.client.onboard(self.space, self._runs[0], TIMEOUT_S).release()

    def put(self) -> None:
        """Reserves 8,192 new blocks, writes the first 64 and gives the others back."""
        self.put_run(keys_of("put%05d-" % next(self._puts), 0, KEYS), _WRITTEN_BLOCKS)

    def prefetch(self) -> None:
        """Asks for the first 8,192 blocks to be brought to host memory."""
        self.client.prefetch(self.space, self._runs[0], TIMEOUT_S, local_only=True)

    def keep(self) -> None:
        """Keeps the first 8,192 blocks, as far as the tenant's quota goes, for the longest time to live."""
        self.client.keep([kvtier.Sequence(self.space, self._runs[0])], _TTL_S, TIMEOUT_S)


def keys_of(name: str, first: int, count: int) -> list[bytes]:
    """Returns engine keys by a name of 9 bytes at most and a number."""
    return [f"{name}{first + i:011d}".encode() for i in range(count)]


@functools.cache
def _runs_of(count: int) -> tuple[list[bytes], ...]:
    return tuple(keys_of("block", first, min(KEYS, count - first)) for first in range(0, count, KEYS))
