"""bf16 as numpy has none: the upper halves of float32, kept as uint16."""

import numpy as np


def from_float32(values):
    """Returns the nearest bf16 of each value as uint16, ties to even; a NaN stays one."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    nan = np.isnan(values)
    if nan.any():
        rounded[nan] = 0x7FC0
    return rounded.astype(np.uint16)


def to_float32(bits):
    """Returns the values of `bits`, exactly."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
