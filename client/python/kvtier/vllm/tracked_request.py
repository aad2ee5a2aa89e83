"""The state of one request on the scheduler's side."""

from dataclasses import dataclass, field
from typing import Any

import kvtier

from .request_options import RequestOptions


@dataclass
class Look:
    """A look for a request's blocks, from the engine's first question until the final answer."""

    deadline: float  # Time, by the injected clock, at which the look ends with the blocks that are here.
    first_block: int  # First block of the request that was asked for.
    call: kvtier.Call[Any] | None = None  # The prefetch or the ticket in progress.
    ticket: bytes | None = None  # Ticket that holds the offered blocks.
    ticket_ends: float = 0.0


@dataclass
class TrackedRequest:
    """One request, from its arrival until it is finished."""

    request: Any  # The engine's Request; its block_hashes grow with its tokens.
    options: RequestOptions
    look: Look | None = None
    postponed_until: float | None = None  # Time of the injected clock until which it is postponed; None: it was not.
    local_blocks: int = 0  # Blocks that the engine had when it was last asked.
    loading: frozenset[int] = frozenset()  # Engine's blocks of a load in progress; empty: there is none.
    preemptions_at_load: int | None = None  # Number of preemptions when a load was last begun; None: none was.
    asked: bool = False  # Whether the engine has asked how much can be loaded, and has not given blocks since.
    loads_here: bool = True  # False: its last load, if there was one, was another connector's.
    failed: bool = False  # Whether a load of it did not come whole; then no other load begins.
    blocks: list[list[int]] = field(default_factory=list)  # For each KV group, the engine's blocks, in order.
    computed: int = 0  # Tokens that are computed when the steps so far have ended, drafts that may be rejected included.
    saved: int = 0  # Leading blocks that need no save.
    saves_stopped: bool = False  # Whether there was a reset or an error; then no block is saved until it begins again.
