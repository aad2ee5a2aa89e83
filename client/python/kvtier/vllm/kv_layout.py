"""The engine's KV tensors as memory that lanes copy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import kvtier

_KV_AXIS = 2  # Length of the axis that holds K and V.
# Layout of stored blocks, outermost axis first, by the memory's axes and order.
_STORED = {("apart", "token_head"): "layer,kv,token,head,dim", ("apart", "head_token"): "layer,kv,head,token,dim",
           ("fused", "token_head"): "layer,token,head,kv,dim", ("fused", "head_token"): "layer,head,token,kv,dim",
           ("latent", "token_head"): "layer,token,row"}


@dataclass(frozen=True)
class KvLayout:
    """Layout of one KV group in memory."""

    memory: kvtier.KvMemory
    dtype: str  # Type of the stored values, such as "float32".
    stored: str  # The space's layout, such as "layer,head,token,kv,dim".
    block_bytes: int  # Bytes of one block, over all layers.
    device: str  # Device that has the tensors, as kvtier.Lanes names it: "host" or "cuda:N".


def lay_out(layers: Sequence[tuple[str, Any]], blocks: int, kv_heads: int, tokens: int) -> KvLayout:
    """Returns how `layers`, (name, tensor) in the model's order, hold `blocks` blocks of `tokens` tokens.

    Tensors are "latent" with axes (blocks, tokens, values); "fused" with (blocks, heads, tokens, values) or
    (blocks, tokens, heads, values), and K and V in each row; or "apart" with one more axis, of K and V, before or
    after that of the blocks. Layers that share a tensor count once. Raises ValueError, naming a tensor that is none
    of these, is not on the CPU or a CUDA GPU, is not dense inside a run, or differs from the first.
    """
    unique: dict[int, tuple[str, Any]] = {}
    for name, tensor in layers:
        _require(hasattr(tensor, "data_ptr"), name, f"is a {type(tensor).__name__}; must be one tensor")
        unique.setdefault(tensor.data_ptr(), (name, tensor))
    if not unique:
        raise ValueError("the KV group has 0 layers; must have at least 1")
    shapes = [_Shape(name, tensor, blocks, kv_heads, tokens) for name, tensor in unique.values()]
    first = shapes[0]
    for shape in shapes:
        _require(shape.facts() == first.facts(), shape.name,
                 f"has the layout {shape.facts()}, and {first.name} {first.facts()}; all must be equal")
    storages: dict[int, int] = {}
    bases: list[tuple[int, int]] = []
    sizes: list[tuple[int, int]] = []
    for shape in shapes:
        if shape.storage not in storages:
            storages[shape.storage] = len(sizes)
            sizes.append((shape.storage, shape.storage_bytes))
        bases.extend((storages[shape.storage], offset) for offset in shape.offsets)
    memory = kvtier.KvMemory(tensors=sizes, layers=len(shapes), axes=first.kind, order=first.order, blocks=blocks,
                             run_bytes=first.run_bytes, block_stride=first.block_stride, bases=bases)
    return KvLayout(memory, first.dtype, _STORED[first.kind, first.order], len(bases) * first.run_bytes,
                    first.device)


def refuse_aliases(layouts: Sequence[KvLayout]) -> None:
    """Raises ValueError, naming two KV groups, if blocks of different numbers share memory.

    The engine may lay groups over each other. It numbers their blocks together, and a number belongs to one group at
    a time. This keeps the groups apart only if block n of one shares memory with no block of the other but block n.
    """
    for first, one in enumerate(layouts):
        for second, other in enumerate(layouts[:first]):
            runs = [(start, start2) for start in _starts(one.memory) for start2 in _starts(other.memory)]
            for start, start2 in runs:
                if _alias(start, one.memory, start2, other.memory):
                    raise ValueError(
                        f"KV groups {second} and {first} share memory; blocks of different numbers must not overlap, "
                        f"and do at byte {max(start, start2)} (block_stride {other.memory.block_stride} and "
                        f"{one.memory.block_stride})")


def _starts(memory: kvtier.KvMemory) -> list[int]:
    """Returns the addresses of block 0's runs."""
    return [memory.tensors[tensor][0] + offset for tensor, offset in memory.bases]


def _alias(start: int, one: kvtier.KvMemory, start2: int, other: kvtier.KvMemory) -> bool:
    """Returns whether one's run at `start`, in some block, overlaps the other's in a block of another number."""
    end = start + (one.blocks - 1) * one.block_stride + one.run_bytes
    end2 = start2 + (other.blocks - 1) * other.block_stride + other.run_bytes
    if end <= start2 or end2 <= start:
        return False
    stride = one.block_stride
    if stride != other.block_stride:
        return True
    # Blocks n and n + k overlap if the two runs of block 0 do when one is moved by k strides.
    gap = start2 - start
    nearest = -gap // stride
    return any(k != 0 and -other.run_bytes < gap + k * stride < one.run_bytes for k in range(nearest - 1, nearest + 3))


class _Shape:
    """Shape of one layer's tensor."""

    def __init__(self, name: str, tensor: Any, blocks: int, kv_heads: int, tokens: int) -> None:
        self.name = name
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        device = getattr(tensor.device, "type", str(tensor.device))
        _require(device in ("cpu", "cuda"), name, f"is on {device!r}; only memory of the CPU or a CUDA GPU is copied")
        self.device = "host" if device == "cpu" else f"cuda:{tensor.device.index}"
        item = tensor.element_size()
        self.dtype = str(tensor.dtype).removeprefix("torch.")
        self.storage = tensor.untyped_storage().data_ptr()
        self.storage_bytes = tensor.untyped_storage().nbytes()
        offset = tensor.data_ptr() - self.storage
        block_axis, kv_axis = self._outer_axes(shape, blocks)
        inner = [axis for axis in range(len(shape)) if axis not in (block_axis, kv_axis)]
        self.order = self._token_order(shape, strides, inner, kv_heads, tokens)
        self._require_dense(shape, strides, inner)
        values = 1
        for axis in inner:
            values *= shape[axis]
        self.run_bytes = values * item
        self.block_stride = strides[block_axis] * item
        self.offsets = [offset]
        self.kind = "latent" if len(shape) == 3 else "fused"
        if kv_axis is not None:
            self.kind = "apart"
            self.offsets.append(offset + strides[kv_axis] * item)

    def facts(self) -> tuple[object, ...]:
        return self.kind, self.order, self.dtype, self.run_bytes, self.block_stride, self.device

    def _outer_axes(self, shape: tuple[int, ...], blocks: int) -> tuple[int, int | None]:
        """Returns the axis of the blocks and that of K and V; None: there is none."""
        if len(shape) in (3, 4) and shape[0] == blocks:
            return 0, None
        if len(shape) == 5 and shape[:2] == (blocks, _KV_AXIS):
            return 0, 1
        if len(shape) == 5 and shape[:2] == (_KV_AXIS, blocks):
            return 1, 0
        raise ValueError(f"KV tensor {self.name} has the shape {shape}; must be ({blocks}, ...) of 3 or 4 axes, "
                         f"({blocks}, {_KV_AXIS}, ...) or ({_KV_AXIS}, {blocks}, ...) of 5")

    def _token_order(self, shape: tuple[int, ...], strides: tuple[int, ...], inner: list[int], kv_heads: int,
                     tokens: int) -> str:
        """Returns "token_head" or "head_token", by which of the two axes is the outer one in memory."""
        if len(shape) == 3:
            _require(shape[1] == tokens, self.name, f"has {shape[1]} tokens a block; must have {tokens}")
            return "token_head"
        first, second, _ = inner
        pair = (shape[first], shape[second])
        _require(pair in ((kv_heads, tokens), (tokens, kv_heads)), self.name,
                 f"has axes of {pair}; must be {kv_heads} heads and {tokens} tokens")
        if kv_heads == tokens:
            return "token_head" if strides[first] > strides[second] else "head_token"  # Guessed: tokens first.
        heads, token = (first, second) if pair == (kv_heads, tokens) else (second, first)
        return "head_token" if strides[heads] > strides[token] else "token_head"

    def _require_dense(self, shape: tuple[int, ...], strides: tuple[int, ...], inner: list[int]) -> None:
        expected = 1
        for axis in sorted(inner, key=lambda axis: (strides[axis], shape[axis])):
            _require(shape[axis] == 1 or strides[axis] == expected, self.name,
                     f"has the strides {strides} for the shape {shape}; a block must have no gaps")
            expected *= shape[axis]


def _require(holds: bool, name: str, complaint: str) -> None:
    if not holds:
        raise ValueError(f"KV tensor {name} {complaint}")
