"""The run without kvtier, which says what texts must be."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from site_of_run import Site
    from vllm_process import Answer, VllmProcess

BLOCK_TOKENS = 32
_LEAST_EQUAL = 45  # Least number of equal texts of fifty prompts: with fewer, a comparison of texts proves nothing.
ANSWER_TOKENS = 12
_LONGEST_WAIT_S = 2.0  # The connector's max_wait_s.
_PATIENCE = 10  # A request is stalled if it takes this many times its longest time; no loaded machine is so slow.


@dataclass(frozen=True)
class Control:
    """The prompts, and the two texts of an engine without kvtier: computed, and with its own prefix hits."""

    prompts: list[str]
    tokens: list[list[int]]  # Tokens of each prompt.
    texts: list[str]
    equal: frozenset[int]  # Prompts whose text was the same both times: these must be equal with kvtier.
    slowest_s: float  # Time of the slowest computed answer.

    @property
    def everything(self) -> range:
        """Returns the numbers of all prompts."""
        return range(len(self.prompts))

    @property
    def stall_s(self) -> float:
        """Returns the seconds after which a request counts as stalled."""
        return _PATIENCE * (self.slowest_s + _LONGEST_WAIT_S)

    def blocks(self, numbers: Iterable[int]) -> int:
        """Returns how many different blocks of these prompts can be loaded: the last token is always computed."""
        return len({tuple(tokens[:end]) for tokens in (self.tokens[number] for number in numbers)
                    for end in range(BLOCK_TOKENS, len(tokens), BLOCK_TOKENS)})

    def wrong(self, numbers: Sequence[int], answers: "Sequence[Answer]") -> list[str]:
        """Returns a complaint for each prompt of `equal` whose answer is another text than the control's."""
        return [f"prompt {number}: {answer.text!r}, not {self.texts[number]!r}"
                for number, answer in zip(numbers, answers)
                if number in self.equal and answer.text != self.texts[number]]


def run_control(engine: "VllmProcess", prompts: list[str]) -> Control:
    """Asks an engine without kvtier for all prompts, as many at once as later, and again with its own prefix hits."""
    computed = engine.complete_all(prompts, ANSWER_TOKENS)
    hit = engine.complete_all(prompts, ANSWER_TOKENS)
    equal = frozenset(i for i, (one, other) in enumerate(zip(computed, hit)) if one.text == other.text)
    tokens = [engine.tokens(prompt) for prompt in prompts]
    cached = sum(answer.cached_tokens for answer in hit)
    if cached < sum((len(some) - 1) // BLOCK_TOKENS for some in tokens) * BLOCK_TOKENS:
        raise RuntimeError(f"the control's second answers had {cached} tokens of its own prefixes")
    return Control(prompts, tokens, [answer.text for answer in computed], equal,
                   max(answer.seconds for answer in computed))


def control_is_stable(site: "Site", engine: "VllmProcess", prompts: list[str]) -> None:
    """An engine without kvtier nearly always gives the same text, so that other texts can be compared with it."""
    with site.report.scenario("without kvtier the texts of 45 of 50 prompts are equal") as seen:
        site.control = run_control(engine, prompts)
        different = len(set(site.control.texts))
        seen.note(equal=f"{len(site.control.equal)} of {len(prompts)}", different_texts=different,
                  tokens=f"{min(map(len, site.control.tokens))} to {max(map(len, site.control.tokens))}",
                  blocks=site.control.blocks(site.control.everything), slowest=f"{site.control.slowest_s:.1f} s")
        seen.expect(len(site.control.equal) >= _LEAST_EQUAL, f"{len(site.control.equal)} texts were equal")
        seen.expect(different >= _LEAST_EQUAL, f"{different} texts are different: they hardly depend on the prompts")
