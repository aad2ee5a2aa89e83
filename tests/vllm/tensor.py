"""Tensors with torch's attributes and no memory."""

import itertools
from types import SimpleNamespace

_addresses = itertools.count(0x10_0000_0000, 0x10_0000_0000)
_ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1}


class Storage:
    def __init__(self, size):
        self._address, self._size = next(_addresses), size

    def data_ptr(self):
        return self._address

    def nbytes(self):
        return self._size


class Tensor:
    """A tensor of this shape; `offset` and `block_stride`, of the first axis, are in values."""

    def __init__(self, shape, storage=None, offset=0, block_stride=None, dtype="float32", device="cpu", strides=None):
        self.shape, self.dtype = tuple(shape), f"torch.{dtype}"
        self.device = SimpleNamespace(type=device.partition(":")[0], index=int(device.partition(":")[2] or 0))
        self._item, self._offset = _ITEM_BYTES[dtype], offset
        self._strides = list(strides or self._packed())
        if block_stride is not None:
            self._strides[0] = block_stride
        self._storage = storage or Storage(self._strides[0] * self.shape[0] * self._item)

    def stride(self):
        return tuple(self._strides)

    def element_size(self):
        return self._item

    def untyped_storage(self):
        return self._storage

    def data_ptr(self):
        return self._storage.data_ptr() + self._offset * self._item

    def permuted(self, *axes):
        """Returns a view with the axes in this order."""
        return Tensor([self.shape[a] for a in axes], self._storage, strides=[self._strides[a] for a in axes])

    def gapped(self):
        """Returns a view of the same shape with room after each value."""
        return Tensor(self.shape, strides=[stride * 2 for stride in self._strides])

    def _packed(self):
        strides, values = [], 1
        for length in reversed(self.shape):
            strides.insert(0, values)
            values *= length
        return strides
