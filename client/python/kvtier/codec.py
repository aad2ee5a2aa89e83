"""Blocks of a space with a codec: encoded into slots, decoded out of hits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _kvtier
from .arguments import typed
from .space import SpaceSpec

if TYPE_CHECKING:
    from typing_extensions import Buffer


class BlockCodec:
    """The codec of one space, on the CPU. Thread-safe; the GIL is released while it works.

    A raw block is bf16 in the order of the space's layout: any contiguous buffer of `raw_bytes`,
    such as a numpy array of uint16. `block` is a slot of a put, or a block of a hit.
    """

    def __init__(self, spec: SpaceSpec) -> None:
        """Opens the codec. Raises ValueError, naming the field and the value, or if the codec is "raw"."""
        native = typed("spec", spec, SpaceSpec)._native()
        self._native = _kvtier.BlockCodec(native)
        self.block_bytes: int = native.block_bytes
        self.raw_bytes, _, _ = _kvtier.codec_sizes(native)

    def encode(self, raw: Buffer, block: Buffer) -> str | None:
        """Fills `block` and returns the form in which it is stored, the codec's name or "raw".

        None: the raw block has a NaN, an infinity or exponents that do not pack, and `block` has no
        room for it raw; then Put.give_back() its slot. Raises ValueError for other sizes than
        raw_bytes and block_bytes, and for a buffer that does not begin at a multiple of 16.
        """
        return self._native.encode(raw, block)

    def decode(self, block: Buffer, raw: Buffer) -> bool:
        """Fills `raw`; returns False if `block` is no encoding of this space. Ask Hit.valid()
        afterwards, as after any copy. Raises ValueError as encode() does."""
        return self._native.decode(block, raw)
