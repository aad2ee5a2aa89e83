"""GgufFile reads the header and the tensor directory of a GGUF v2 or v3 model file.

The format (little endian) is: magic, version, tensor count, key-value count, the key-values, the
tensor directory, padding, tensor data. Strings are a u64 length and UTF-8 bytes. The general
reader of the `gguf` package keeps one array object per token string and takes seconds for a
vocabulary; this one takes a tenth of that, and leaves dequantising to that package.
"""

import hashlib
import mmap
import struct
from dataclasses import dataclass

import gguf
import numpy as np

_MAGIC = b"GGUF"
_STRING, _ARRAY = 8, 9
# Value type id -> struct code. 7 is a one-byte bool.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?",
            10: "Q", 11: "q", 12: "d"}
_MAX_DIMS = 4  # The format's own bound on a tensor's rank.


@dataclass(frozen=True)
class TensorEntry:
    """Where one tensor lies. `shape` is row-major (the file lists dimensions fastest first)."""

    shape: tuple
    quantisation: gguf.GGMLQuantizationType
    offset: int  # Bytes from the start of the tensor data.


class GgufFile:
    """One model file, mapped read-only for as long as the object lives.

    Raises ValueError when the file is not GGUF v2 or v3, or is cut short.
    """

    def __init__(self, path):
        with open(path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 0
        if self._map[:4] != _MAGIC:
            raise ValueError(f"{path}: not a GGUF file, it begins with {self._map[:4]!r}")
        self._at = 4
        version = self._scalar("I")
        if version not in (2, 3):
            raise ValueError(f"{path}: GGUF version {version}, this reader knows 2 and 3")
        tensor_count, metadata_count = self._scalar("Q"), self._scalar("Q")
        self.metadata = {}
        for _ in range(metadata_count):
            key = self._string()
            self.metadata[key] = self._value(self._scalar("I"))
        self.tensors = dict(self._tensor_entry() for _ in range(tensor_count))
        alignment = self.metadata.get("general.alignment", 32)
        self._data_start = -(-self._at // alignment) * alignment

    def read(self, name):
        """Returns tensor `name` as a new float32 array, dequantised. KeyError if there is none."""
        entry = self.tensors[name]
        block_values, block_bytes = gguf.GGML_QUANT_SIZES[entry.quantisation]
        count = int(np.prod(entry.shape, dtype=np.int64))
        raw = np.frombuffer(self._map, np.uint8, count // block_values * block_bytes,
                            self._data_start + entry.offset)
        row_bytes = entry.shape[-1] // block_values * block_bytes
        values = gguf.dequantize(raw.reshape(-1, row_bytes), entry.quantisation)
        return np.array(values, dtype=np.float32).reshape(entry.shape)

    def sha256(self):
        """Returns the SHA-256 of the whole file, 32 bytes."""
        return hashlib.sha256(self._map).digest()

    def _need(self, size):
        if size > len(self._map) - self._at:
            raise ValueError(f"GGUF header cut short: {size} bytes wanted at {self._at} of "
                             f"{len(self._map)}")

    def _scalar(self, code):
        size = struct.calcsize(code)
        self._need(size)
        (value,) = struct.unpack_from("<" + code, self._map, self._at)
        self._at += size
        return value

    def _string(self):
        size = self._scalar("Q")
        self._need(size)
        text = self._map[self._at:self._at + size]
        self._at += size
        return text.decode("utf-8", errors="replace")

    def _value(self, kind):
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._scalar(_SCALARS[kind])
        item, count = self._scalar("I"), self._scalar("Q")
        if item in (_STRING, _ARRAY):
            return [self._value(item) for _ in range(count)]
        code = f"<{count}{_SCALARS[item]}"
        self._need(struct.calcsize(code))
        values = struct.unpack_from(code, self._map, self._at)
        self._at += struct.calcsize(code)
        return list(values)

    def _tensor_entry(self):
        name, rank = self._string(), self._scalar("I")
        if not 1 <= rank <= _MAX_DIMS:
            raise ValueError(f"tensor {name}: rank {rank} is outside 1..{_MAX_DIMS}")
        shape = tuple(self._scalar("Q") for _ in range(rank))[::-1]
        quantisation = gguf.GGMLQuantizationType(self._scalar("I"))
        return name, TensorEntry(shape, quantisation, self._scalar("Q"))
