"""The state of one request on the scheduler's side."""

from dataclasses import dataclass, field
from typing import Any

import kvtier

from .wishes import Wishes


@dataclass
class Look:
    """A request's question for blocks, from the first time that it is asked until its final answer."""

    deadline: float  # By the injected clock; from then on the blocks that are here are the answer.
    first_block: int  # First block of the request that was asked for.
    call: kvtier.Call[Any] | None = None  # The prefetch or the ticket under way.
    ticket: bytes | None = None  # That holds what is offered.
    ticket_ends: float = 0.0


@dataclass
class TrackedRequest:
    """One request, from its arrival until it is finished."""

    request: Any  # The engine's; its block_hashes grow with its tokens.
    wishes: Wishes
    look: Look | None = None
    asked_until: float | None = None  # By the injected clock: its wait for a step with time for it ends. None: none was.
    local_blocks: int = 0  # That the engine had when it was last asked.
    loading: frozenset[int] = frozenset()  # Engine's blocks of a load under way; empty: there is none.
    offered: int | None = None  # Count of preemptions when a load was last begun; None: none was.
    failed: bool = False  # A load of it did not come whole: it is never asked for again.
    blocks: list[list[int]] = field(default_factory=list)  # For each KV group, the engine's blocks, in order.
    computed: int = 0  # Tokens that are computed when the steps so far have ended, drafts that may be rejected included.
    saved: int = 0  # Leading blocks that need no save.
    outlived: bool = False  # A reset, or an error: nothing of it is saved until it begins again.
