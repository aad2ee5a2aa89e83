"""The metadata that the scheduler sends to the workers with each step."""

from dataclasses import dataclass, field

import kvtier


@dataclass(frozen=True)
class Load:
    """Blocks of one request that the workers bring. Each load is answered once, also if it fails."""

    request_id: str
    keys: tuple[bytes, ...]
    blocks: tuple[tuple[int, ...], ...]  # For each KV group, the engine's block of each key; NO_BLOCK: not needed.
    timeout_s: float
    hint: kvtier.ReuseHint = kvtier.ReuseHint()


@dataclass(frozen=True)
class Save:
    """Blocks that are computed when this step's forward pass has ended."""

    keys: tuple[bytes, ...]
    parent: bytes | None  # Key of the block before them; None: they begin the prompt.
    blocks: tuple[tuple[int, ...], ...]  # For each KV group, the engine's block of each key.
    hint: kvtier.ReuseHint = kvtier.ReuseHint()


@dataclass
class StepPlan:
    """Work of one step."""

    # Digest of the weights in the spaces, a new one with each reset. None: unchanged, or not known yet.
    weights_digest: str | None = None
    asks_spaces: bool = False  # Whether the workers are to answer with their spaces.
    computes: bool = True  # Whether the step runs the model. Only a step that does not may wait for a load.
    loads: list[Load] = field(default_factory=list)
    saves: list[Save] = field(default_factory=list)
    written: set[int] = field(default_factory=set)  # Engine's blocks that this step and its loads will write.
    measured: int = 0  # Number of a step whose time is measured, which the workers return; 0: it is not.
    writes_unknown: bool = False  # `written` is not known: any block may be overwritten.


NO_BLOCK = 0  # The engine's null block: the group has no block there, for example outside its window.
