"""What a node keeps for its tenant: prompt caches with a time to live."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kept:
    """What became of one Client.keep()."""

    id: int | None  # Of the tenant's on this node while the agent runs; None: nothing is kept.
    # Of each sequence, the places of the keys whose blocks are kept; of a run 0, 1, ...
    blocks: list[list[int]]
    # Why blocks that the node has are not kept: "tenant_bytes", "tenant_blocks", "tenant_prefixes",
    # "node_blocks" or "node_prefixes"; None: nothing was refused.
    limit: str | None
    ttl_s: float  # What is left; more than was asked for where it was kept for longer already.


@dataclass(frozen=True)
class KeptPrefix:
    """One prefix that the node keeps."""

    id: int
    blocks: int  # That are there.
    bytes: int  # Of host memory that they take.
    ttl_s: float  # What is left of its time to live.


@dataclass(frozen=True)
class KeptUse:
    """What the tenant keeps on the node, or may keep."""

    prefixes: int
    blocks: int  # A block counts once for each prefix that it is of.
    bytes: int  # Of host memory; once for all.


@dataclass(frozen=True)
class KeptList:
    """What the tenant keeps on the node, whoever of it asked for it."""

    prefixes: list[KeptPrefix]  # By id.
    used: KeptUse
    quota: KeptUse


@dataclass(frozen=True)
class Dropped:
    """What became of the blocks of a Client.drop_prefix()."""

    blocks: int  # In no tier of the node any more.
    held: int  # Leased or being copied: they stay.
    more: bool  # Not all that descends was looked at in time: ask again.
