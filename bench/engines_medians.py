"""Medians with the confidence that so few rounds give, and the lines that programs read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Median:
    """A median, and an interval that has the true one with _CONFIDENCE or more."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


def median_of(values: Sequence[float]) -> Median:
    """Returns the median of independent values. The interval is of order statistics: it supposes no distribution."""
    ordered = sorted(values)
    return Median(median(ordered), ordered[_rank(len(ordered))], ordered[-1 - _rank(len(ordered))])


def percentile_of(values: Sequence[float], share: float) -> float:
    """Returns the smallest value that `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def print_figure(name: str, value: float, unit: str, ratio: float, reference: str) -> None:
    """Prints the median's line for programs."""
    print(f"figure {name} {value:.4g} {unit} {ratio:.4g} {reference}", flush=True)


def _rank(count: int) -> int:
    """Returns how many of `count` ordered values may be left out on each side: 0 where the count is too small."""
    left, rank = 0.0, 0
    while rank < count // 2:
        left += math.comb(count, rank) / 2**count
        if 2 * left > 1 - _CONFIDENCE:
            break
        rank += 1
    return max(rank - 1, 0)
