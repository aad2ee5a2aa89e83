"""Spaces: the properties that two blocks share if they are compatible."""

from dataclasses import dataclass

from . import _kvtier
from .arguments import shown

_U32 = 2**32
_U64 = 2**64


@dataclass(frozen=True, kw_only=True)
class SpaceSpec:
    """The description of a space; a change of any field is a miss, never a wrong block.

    Texts are 1..256 bytes of UTF-8 (`lora` may be empty). Counts are those of this worker's shard.
    """

    model: str
    weights_digest: str | bytes  # Digest of the weights; bytes are turned into hexadecimal.
    lora: str = ""
    dtype: str  # Type of the stored values, for example "bfloat16".
    layout: str  # Order of the axes inside a block, outermost first.
    layers: int
    kv_heads: int
    head_dim: int
    tokens_per_block: int
    tp_rank: int = 0
    tp_size: int = 1
    pp_rank: int = 0
    pp_size: int = 1
    # Size of one stored block, 1..64 MiB. With a codec, None means the size of an encoding; with
    # max_encoded_bytes(), blocks that the codec cannot make smaller are stored raw.
    block_bytes: int | None = None
    # "raw"; or "fp8_e4m3", "int8" or "packed_exponents" (lossless), which are for dtype
    # "bfloat16" and layout "layer,kv,token,head,dim" or "layer,token,head,dim": see BlockCodec.
    codec: str = "raw"
    # True: each block has a length of its own, 1 to block_bytes, given when it is reserved
    # (Sequence.lengths); for codec "raw" and target "host". False: all have block_bytes.
    any_length: bool = False

    def __post_init__(self) -> None:
        if self.block_bytes is None and self.codec != "raw":
            object.__setattr__(self, "block_bytes", 0)  # codec_sizes() does not read it.
            object.__setattr__(self, "block_bytes", _kvtier.codec_sizes(self._native())[1])

    def max_encoded_bytes(self) -> int:
        """Returns the block_bytes that has room for every block. Raises ValueError for codec "raw"."""
        return _kvtier.codec_sizes(self._native())[2]

    def _native(self) -> _kvtier.SpaceSpec:
        """Returns the extension's form. Raises ValueError, naming the field and the value."""
        spec = _kvtier.SpaceSpec()
        digest = self.weights_digest
        spec.weights_digest = digest.hex() if isinstance(digest, bytes) else self._text(
            "weights_digest")
        for name in ("model", "lora", "dtype", "layout", "codec"):
            setattr(spec, name, self._text(name))
        for name in ("layers", "kv_heads", "head_dim", "tokens_per_block"):
            setattr(spec, name, self._count(name, _U32))
        spec.tensor_rank = self._count("tp_rank", _U32)
        spec.tensor_size = self._count("tp_size", _U32)
        spec.pipeline_rank = self._count("pp_rank", _U32)
        spec.pipeline_size = self._count("pp_size", _U32)
        spec.block_bytes = self._count("block_bytes", _U64)
        if not isinstance(self.any_length, bool):
            raise ValueError(f"any_length is {shown(self.any_length)}; must be a bool")
        spec.any_length = self.any_length
        return spec

    def _text(self, name: str) -> str:
        value: object = getattr(self, name)
        if not isinstance(value, str):
            raise ValueError(f"{name} is {shown(value)}; must be a str")
        return value

    def _count(self, name: str, limit: int) -> int:
        value: object = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < limit:
            raise ValueError(f"{name} is {shown(value)}; must be an int from 0 to {limit - 1}")
        return value


@dataclass(frozen=True)
class Space:
    """A space of one client, as register_space() returned it."""

    spec: SpaceSpec
    _handle: int


@dataclass(frozen=True)
class Limits:
    """Numbers of blocks of a space for which the agent has room, so that a put need not try."""

    usable: bool  # Whether the agent takes the space's blocks now.
    why_not: str  # Reason why the agent does not take them; empty if it does.
    slab_bytes: int  # Largest block of this agent. 0, like the rest, if the space is not usable.
    slot_bytes: int  # Bytes that the longest block of the space takes.
    host_slots: int  # Slots of that size that fit in the tenant's host memory.
    # Blocks of the space that can be reserved and not yet committed, where workers write to a region
    # of their own (the agent's --worker_memory=staged); 0: the tenant's memory is the limit.
    staging_slots: int
