"""The worker's client."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from . import _kvtier
from .blocks import Hit, Put
from .paged_kv import PagedKv
from .space import Space, SpaceSpec


@dataclass(frozen=True)
class Match:
    """Where the longest known prefix is: a guess, which onboard() turns into a promise."""

    blocks: int = 0  # Leading blocks, counting other nodes.
    local_blocks: int = 0  # The same, on this node.
    tiers: list[str] = field(default_factory=list)  # Best of each: "gpu", "host" or "disk".

    @property
    def remote_blocks(self) -> int:
        return self.blocks - self.local_blocks


class Client:
    """One worker's client of its node's agent. Thread-safe; the GIL is released in every wait.

    `keys` are engine keys, 8..64 bytes each, in prefix order, 8192 at most. A `timeout_s` of None
    means the client's own; a call never takes longer, and without an agent it returns at once.
    """

    def __init__(self, socket_dir: str = "/run/kvtier", tenant: str = "default",
                 tenant_secret: bytes = b"", timeout_s: float = 2.0,
                 connect_timeout_s: float = 1.0) -> None:
        """Waits for the first try to connect, and never raises because there is no agent.

        Raises ValueError for an option that cannot be. An empty secret is the open tenant's.
        """
        self._native = _kvtier.Client(socket_dir, tenant, tenant_secret, timeout_s,
                                      connect_timeout_s)
        self._next_ticket = 1

    def register_space(self, spec: SpaceSpec) -> Space:
        """Names a space; works without an agent. Raises ValueError naming field and value."""
        return Space(spec, self._native.register_space(spec._native()))

    def residences(self, space: Space, keys: Sequence[bytes]) -> list[str]:
        """What this node has of each key, in any order, by its table and without a call.

        The nearest tier ("gpu", "host" or "disk"), "absent", or "perhaps" where only the agent
        knows. A guess, which onboard() turns into a promise; without an agent all are "absent".
        """
        return self._native.residences(space._handle, list(keys))

    def resident_run(self, space: Space, keys: Sequence[bytes]) -> int:
        """How many leading keys are not "absent", as residences() says it."""
        return self._native.resident_run(space._handle, list(keys))

    def match(self, space: Space, keys: Sequence[bytes], timeout_s: float | None = None,
              local_only: bool = False) -> Match:
        """Where the longest prefix of `keys` is."""
        blocks, local_blocks, tiers = self._native.match(space._handle, list(keys), timeout_s,
                                                         local_only)
        return Match(blocks, local_blocks, tiers)

    def onboard(self, space: Space, keys: Sequence[bytes], timeout_s: float | None = None,
                target: str = "host", local_only: bool = False) -> Hit:
        """The leading run of `keys` that is in host memory (or the GPU pool) in time, leased.

        `timeout_s` should be no longer than recomputing would take.
        """
        return Hit(self._native.onboard(space._handle, list(keys), target, timeout_s, local_only))

    def reserve(self, space: Space, keys: Sequence[bytes], parent: bytes | None = None,
                target: str = "host", timeout_s: float | None = None) -> Put:
        """Room for the blocks of `keys`; `parent` is the key before them, None for a root."""
        return Put(self._native.reserve(space._handle, list(keys), parent, target, timeout_s))

    def paged_kv(self, space: Space, slots: int, swap_bytes: int = 1 << 30) -> PagedKv:
        """KV memory for blocks of `space` in the GPU pool: `slots` slots, or fewer.

        Raises ValueError when none can be had: no agent, or no pool for blocks of this size.
        """
        return PagedKv(self._native.paged_kv(space._handle, slots, space.spec.tokens_per_block,
                                             swap_bytes))

    def prefetch(self, space: Space, keys: Sequence[bytes], timeout_s: float | None = None,
                 local_only: bool = False) -> int:
        """Asks for blocks to be brought to host memory; how many are there or coming."""
        return self._native.prefetch(space._handle, list(keys), timeout_s, local_only)

    def submit_onboard(self, space: Space, keys: Sequence[bytes], timeout_s: float | None = None,
                       target: str = "host", local_only: bool = False) -> int:
        """onboard() without waiting: returns a ticket, which poll() returns with the hit.

        Raises BlockingIOError when 256 are outstanding: poll, then try again.
        """
        ticket = self._next_ticket
        self._next_ticket += 1
        self._native.submit_onboard(space._handle, list(keys), target, timeout_s, local_only,
                                    ticket)
        return ticket

    def poll(self, limit: int = 256) -> list[tuple[int, Hit]]:
        """The (ticket, hit) of submitted calls that have ended, oldest first; never waits."""
        return [(ticket, Hit(native)) for ticket, native in self._native.poll(limit)]

    def begin_step(self) -> int:
        """Before own threads touch slots of the GPU pool; the number is for end_step().

        What is released meanwhile is used again only when the step has ended. 0: the agent keeps
        no steps of ours, and nothing waits.
        """
        return self._native.begin_step()

    def end_step(self, step: int) -> None:
        """`step` and all before it have ended."""
        self._native.end_step(step)

    def event_fd(self) -> int:
        """Readable while poll() has something; for selectors and event loops. Do not read it."""
        return self._native.event_fd()

    def ping(self, timeout_s: float = 2.0) -> bool:
        """One empty call; whether the agent answered."""
        return self._native.ping(timeout_s)

    @property
    def connected(self) -> bool:
        """Whether the agent's socket stands at this moment."""
        return self._native.connected()

    def stats(self) -> dict[str, int | bool | str]:
        """What this client did, and `last_error`, the latest thing that went wrong."""
        return self._native.stats()

    def close(self) -> None:
        """Hangs up. Hits and puts may outlive it; valid() is False then. Idempotent."""
        self._native.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc_info) -> None:
        self.close()
