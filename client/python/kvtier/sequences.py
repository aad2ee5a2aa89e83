"""The sequences of blocks that a call asks about, and the answers."""

from collections import abc
from dataclasses import dataclass, field

from . import _kvtier
from .arguments import listed, shown, typed
from .space import Space


@dataclass(frozen=True)
class ReuseHint:
    """Knowledge of an engine about the next use of some blocks. A wrong hint costs hits only."""

    conversation: str | bytes | None = None  # Engine's id of it, 1..256 bytes; only a hash is sent.
    turn: int | None = None  # Requests of the conversation before this one.
    priority: int | None = None  # 0, which leaves memory first, to 100; None: 50.
    will_not_return: bool = False  # True: nobody will ask for these blocks again.
    finish: str | None = None  # Reason of the request's end: "stop", "tool_calls", "length", "cancelled".

    def _native(self) -> "_kvtier._Hint | None":
        if self == ReuseHint():
            return None
        conversation = self.conversation
        if isinstance(conversation, str):
            conversation = conversation.encode()
        if conversation is not None and not isinstance(conversation, bytes):
            raise ValueError(
                f"conversation is a {type(conversation).__name__}; must be str or bytes")
        _check_int("turn", self.turn, 2**32 - 1)
        _check_int("priority", self.priority, 100)
        if not isinstance(self.will_not_return, bool):
            raise ValueError(f"will_not_return is {shown(self.will_not_return)}; must be a bool")
        if self.finish is not None and not isinstance(self.finish, str):
            raise ValueError(f"finish is {shown(self.finish)}; must be a str")
        return conversation, self.turn, self.priority, self.will_not_return, self.finish


@dataclass(frozen=True)
class Sequence:
    """The blocks that one request of an engine asks about; one call may carry several.

    A run is a prefix: `keys` are in prefix order, and blocks after a hole are of no use. A set has
    no order and no parents, and may have holes.
    """

    space: Space  # A space of the client that is asked; a call may mix spaces.
    keys: abc.Sequence[bytes]  # Engine keys, 8..64 bytes each.
    parent: bytes | None = None  # Key of the block before a run that is reserved; None: a root.
    is_set: bool = False
    # Most tokens to look up or bring: only as many leading keys are used as hold no more than this.
    # Calls that reserve or delete ignore it. None: no limit.
    max_tokens: int | None = None
    # True: no block of this request is to be stored; a reserve gives its keys the state "no_store".
    no_store: bool = False
    # Bytes of the block of each key, 1 to the space's block_bytes, where they are reserved in a space
    # with any_length; None in other spaces. Calls that reserve nothing ignore it.
    lengths: abc.Sequence[int] | None = None
    # Hint about the next use of the blocks, as ReuseHint has them, for calls that onboard, prefetch,
    # reserve or advise.
    conversation: str | bytes | None = None
    turn: int | None = None
    priority: int | None = None
    will_not_return: bool = False
    finish: str | None = None

    def _native(self) -> "_kvtier._Sequence":
        return (typed("space", self.space, Space)._handle, listed("keys", self.keys), self.parent, self.is_set, self.max_tokens,
                self.no_store, self._lengths(),
                ReuseHint(self.conversation, self.turn, self.priority, self.will_not_return, self.finish)._native())

    def _lengths(self) -> list[int]:
        lengths = [] if self.lengths is None else listed("lengths", self.lengths)
        for i, length in enumerate(lengths):
            if isinstance(length, bool) or not isinstance(length, int) or not 0 < length < 2**64:
                raise ValueError(f"lengths[{i}] is {shown(length)}; must be an int of 1 or more")
        return lengths


def _check_int(name: str, value: object, most: int) -> None:
    """Raises ValueError unless `value` is None or an int of 0 to `most`."""
    if value is None or (type(value) is int and 0 <= value <= most):
        return
    raise ValueError(f"{name} is {shown(value)}; must be an int of 0 to {most}")


@dataclass(frozen=True)
class Match:
    """Place of the blocks of one sequence: a guess, since blocks may leave; only onboarding makes sure."""

    blocks: int = 0  # Blocks known on this node or others; of a run the leading ones.
    local_blocks: int = 0  # Blocks of these that are on this node.
    # Best tier of each key: "gpu", "host" or "disk". Of a run the list ends with the last leading
    # block; of a set it is as long as the keys, with None for each that no node has. Empty if no
    # agent answered.
    tiers: list[str | None] = field(default_factory=list)

    @property
    def remote_blocks(self) -> int:
        """Number of `blocks` that only other nodes have."""
        return self.blocks - self.local_blocks


@dataclass(frozen=True)
class Arrived:
    """Outcome of one sequence, over all parts of a submit_onboard_parts()."""

    blocks: int  # Blocks that came; of a run the leading ones.
    missed: str | None  # Reason why the first block that is missing did not come, as in Hit.missed.


@dataclass(frozen=True)
class Ticket:
    """Blocks that are held for other processes. A ticket must be redeemed before they are read."""

    id: bytes | None  # 16 bytes, to be handed to the workers; None: nothing is held.
    # Places of the keys whose blocks are held, for each sequence; for a run 0, 1, ...
    held: list[list[int]]


@dataclass(frozen=True)
class PutCounts:
    """Numbers of blocks of a put_all(), by their outcome."""

    stored: int  # Blocks that this call published.
    present: int  # Blocks that the node has already, or that another worker is putting.
    missed: int  # Blocks that were not put, because there was no slot for them or no agent.
