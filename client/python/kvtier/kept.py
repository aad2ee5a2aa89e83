"""Kept prefixes: prompt caches that a node keeps for a tenant for a time to live."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kept:
    """Result of one Client.keep()."""

    id: int | None  # Id among the tenant's kept prefixes on this node; None: nothing is kept.
    # Places of the keys whose blocks are kept, for each sequence; for a run 0, 1, ...
    blocks: list[list[int]]
    # Why blocks that the node has are not kept: "tenant_bytes", "tenant_blocks", "tenant_prefixes",
    # "node_blocks" or "node_prefixes"; None: nothing was refused.
    limit: str | None
    ttl_s: float  # Time left, in seconds; more than asked for if it was kept for longer already.


@dataclass(frozen=True)
class KeptPrefix:
    """One prefix that the node keeps."""

    id: int
    blocks: int  # Blocks of it that are in host memory.
    bytes: int  # Bytes of host memory that they take.
    ttl_s: float  # Time left, in seconds.


@dataclass(frozen=True)
class KeptUse:
    """Amounts that the tenant keeps on the node, or may keep."""

    prefixes: int
    blocks: int  # A block counts once for each prefix that it belongs to.
    bytes: int  # Bytes of host memory; each block counts once.


@dataclass(frozen=True)
class KeptList:
    """All prefixes that the tenant keeps on the node, whichever worker asked for them."""

    prefixes: list[KeptPrefix]  # Ordered by id.
    used: KeptUse
    quota: KeptUse


@dataclass(frozen=True)
class Dropped:
    """Result of one Client.drop_prefix()."""

    blocks: int  # Blocks that are in no tier of the node any more.
    held: int  # Blocks that stay, because they are leased or being copied.
    more: bool  # Whether time ran out before all descendants were looked at; then call again.
