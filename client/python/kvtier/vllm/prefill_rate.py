"""The rate at which the engine prefills, which bounds every wait."""

import logging
import time
from collections import deque
from collections.abc import Callable

_log = logging.getLogger("vllm.kvtier")  # A child of the engine's own logger.

START_TOKENS_PER_S = 4000.0  # Figure until a step was measured.
ENOUGH_TOKENS = 64  # Least tokens that a measured step prefills: the time of a shorter one does not depend on them.
SAMPLES = 15  # Number of steps of which the median is taken.
_MAX_STEPS = 16  # Most measured steps in progress at once; an engine has a few.


class PrefillRate:
    """Measures tokens per second by the steps that prefill, from plan to answer. Only the scheduler's thread uses it.

    The figure is the median of the last steps, each weighted by its tokens, so that one slow step
    changes nothing. If `fixed` is above 0, it is the figure, and nothing is measured.
    """

    def __init__(self, fixed: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._fixed = fixed
        self._clock = clock
        self._tokens_per_s = fixed or START_TOKENS_PER_S
        self._last_step = 0
        self._steps: dict[int, tuple[float, int]] = {}  # (time of the plan, tokens) of steps in progress, by number.
        self._answered_at = 0.0
        self._samples: deque[tuple[float, int]] = deque(maxlen=SAMPLES)  # (tokens per second, tokens).

    @property
    def tokens_per_s(self) -> float:
        """Returns the current figure."""
        return self._tokens_per_s

    def planned(self, tokens: int) -> int:
        """Notes that a step which prefills `tokens` tokens goes to the workers. Returns its number; 0: it is not measured."""
        if self._fixed or tokens < ENOUGH_TOKENS:
            return 0
        if len(self._steps) == _MAX_STEPS:
            self._steps.clear()  # Their answers were lost.
        self._last_step += 1
        self._steps[self._last_step] = (self._clock(), tokens)
        return self._last_step

    def answered(self, step: int) -> bool:
        """Notes that the workers answered this step. Returns whether the figure changed."""
        if step not in self._steps:
            return False
        planned_at, tokens = self._steps.pop(step)
        now = self._clock()
        took_s = now - max(planned_at, self._answered_at)  # Time in which steps overlap counts once.
        self._answered_at = now
        if took_s <= 0:
            return False
        if not self._samples:
            _log.info("kvtier: the engine prefills %.0f tokens in a second, as its first step shows; no wait for blocks "
                      "is longer than computing them would be", tokens / took_s)
        self._samples.append((tokens / took_s, tokens))
        before, self._tokens_per_s = self._tokens_per_s, self._median()
        return before != self._tokens_per_s

    def _median(self) -> float:
        half = sum(tokens for _, tokens in self._samples) / 2
        seen = 0
        for rate, tokens in sorted(self._samples):
            seen += tokens
            if seen >= half:
                return rate
        return self._tokens_per_s
