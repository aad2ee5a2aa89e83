"""The two-sample Kolmogorov-Smirnov test: whether two lists of times may be of one distribution.

Pure, and tested by its examples (scripts/test layers).
"""

import math
from collections.abc import Sequence


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Returns the largest distance between the two empirical distribution functions, 0 to 1.

    >>> distance([1, 2, 3, 4], [1, 2, 3, 4])
    0.0
    >>> distance([1, 2, 3], [4, 5, 6])
    1.0
    >>> distance([1, 2, 3, 4], [3, 4, 5, 6])
    0.5
    >>> round(distance([1, 1, 1, 2], [1, 2, 2]), 4)  # Equal values count on both sides at once.
    0.4167
    """
    left, right = sorted(one), sorted(other)
    i = j = 0
    farthest = 0.0
    while i < len(left) and j < len(right):
        value = min(left[i], right[j])
        while i < len(left) and left[i] == value:
            i += 1
        while j < len(right) and right[j] == value:
            j += 1
        farthest = max(farthest, abs(i / len(left) - j / len(right)))
    return farthest


def p_value(farthest: float, count: int, other_count: int) -> float:
    """Returns how likely two samples of one distribution are at least so far apart: asymptotic, for 100 or more of each.

    The critical values of Kolmogorov's distribution are in every table: 1.2238, 1.3581, 1.6276 and 1.9495 for 10, 5, 1
    and 0.1 percent, of the distance times the square root of n m / (n + m).

    >>> [round(p_value(value / math.sqrt(5000), 10_000, 10_000), 4) for value in (1.2238, 1.3581, 1.6276, 1.9495)]
    [0.1, 0.05, 0.01, 0.001]
    >>> p_value(0, 100, 100), round(p_value(1, 100, 100), 12)
    (1.0, 0.0)
    """
    scaled = farthest * math.sqrt(count * other_count / (count + other_count))
    if scaled < 0.2:
        return 1.0  # The series below converges too slowly, and to 1 within 1e-12.
    terms = ((-1) ** (k - 1) * math.exp(-2 * (k * scaled) ** 2) for k in range(1, 101))
    return min(1.0, max(0.0, 2 * sum(terms)))


def two_sample_p(one: Sequence[float], other: Sequence[float]) -> float:
    """Returns the p-value of both samples' being of one distribution.

    About one in twenty of 400 pairs of one distribution is below 0.05; a shift of a twentieth of the spread is seen.

    >>> import random
    >>> draws = random.Random(1)
    >>> def sample(shift, count=500): return [shift + draws.gauss(0, 20) for _ in range(count)]
    >>> 8 <= sum(two_sample_p(sample(0), sample(0)) < 0.05 for _ in range(400)) <= 32
    True
    >>> two_sample_p(sample(0, 10_000), sample(1, 10_000)) > 1e-12 > two_sample_p(sample(0, 10_000), sample(5, 10_000))
    True
    """
    return p_value(distance(one, other), len(one), len(other))
