"""Arms of the bench: engines that are asked in turn, each in one situation."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from engines_stream import Stream

ANSWER_TOKENS = 4
_TRIES = 5
_WAKING_TOKENS = 8
_RETRY_S = 0.3  # Pause between tries: a cache that stores after the answer may not have finished.


@dataclass
class Arm:
    """An engine in one situation, and the seconds until its first token, one value a round."""

    name: str
    stream: Stream
    reused: Callable[[int], int]  # Tokens of a prompt of so many that must not be computed.
    prepare: Callable[[], None] = lambda: None  # Makes the situation before the question; not timed.
    source_bytes: Callable[[], int] | None = None  # Counter of what the disk or the peer has given; None: not looked at.
    wanted_bytes: int = 0  # Amount by which the counter must grow: all of a prompt's, or nothing.
    tokens: int | None = None  # Tokens of the prompt that are asked for; None: all.
    seconds: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    misses: int = 0  # Answers that did not come from the arm's source; their times are not in `seconds`.

    def ask(self, prompt: list[int], counts: bool = True) -> None:
        """Asks for `prompt` until the answer comes from the arm's source. Raises RuntimeError if it never does."""
        prompt = prompt[:self.tokens]
        wanted = self.reused(len(prompt))
        for _ in range(_TRIES):
            self.prepare()
            # An engine that was idle for some rounds' time is slower at first; so short a prompt is in no cache.
            self.stream.complete(prompt[-_WAKING_TOKENS:], 1)
            before = self.source_bytes() if self.source_bytes else 0
            answer = self.stream.complete(prompt, ANSWER_TOKENS)
            moved = (self.source_bytes() if self.source_bytes else self.wanted_bytes) - before
            if answer.cached_tokens == wanted and moved == self.wanted_bytes:
                break
            self.misses += 1
            complaint = (f"{self.name}: {answer.cached_tokens} tokens of {len(prompt)} were reused, not {wanted}; "
                         f"{moved} bytes came from its tier, not {self.wanted_bytes}; {1000 * answer.first_s:.0f} ms")
            print(complaint, flush=True)
            time.sleep(_RETRY_S)
        else:
            raise RuntimeError(complaint)
        if counts:
            self.seconds.append(answer.first_s)
            self.texts.append(answer.text)


def nothing(tokens: int) -> int:
    """Returns 0: all of the prompt is computed."""
    return 0


def whole(block_tokens: int) -> Callable[[int], int]:
    """Returns what is reused where the cache keeps blocks of so many tokens; the last token is always computed."""
    return lambda tokens: (tokens - 1) // block_tokens * block_tokens
