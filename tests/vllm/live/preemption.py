"""The scenario of an engine that has fewer blocks than its requests want, so that it preempts them."""

from collections.abc import Sequence

from observations import Window
from site_of_run import Site
from vllm_process import VllmProcess

_REQUESTS = 6
_BLOCKS = 36  # Blocks of 32 tokens; six requests of some 350 tokens want 66.
_TOKENS = 100
FLAGS = ("--num-gpu-blocks-override", str(_BLOCKS), "--max-model-len", "512")


def expected_texts(engine: VllmProcess) -> list[str]:
    """Returns the texts of an engine that has room for all requests."""
    return [answer.text for answer in engine.complete_all(_prompts(), _TOKENS)]


def preempted_requests_load_again(site: Site, engine: VllmProcess, expected: Sequence[str]) -> None:
    """Preempted requests give up blocks that lanes may still read, load them again later, and say the same."""
    with site.report.scenario("preempted requests load their blocks again") as seen:
        window = Window.from_now(engine.observed)
        answers = engine.complete_all(_prompts(), _TOKENS)
        preemptions = int(engine.counter("vllm:num_preemptions_total"))
        loaded = int(engine.counter("vllm:kvtier_loaded_blocks_total"))
        waits = int(engine.counter("vllm:kvtier_preemption_waits_total"))
        seen.note(preemptions=preemptions, loaded=loaded, steps_that_waited_for_copies=waits)
        seen.expect(preemptions > 0, "nothing was preempted")
        seen.expect(loaded > 0 and len(window.lines("load")) == loaded,
                    f"{len(window.lines('load'))} loaded blocks were observed, and the engine counted {loaded}")
        seen.compared(_REQUESTS, [f"request {number}: {answer.text!r}, not {text!r}" for number, (answer, text) in
                                  enumerate(zip(answers, expected)) if answer.text != text])


def _prompts() -> list[str]:
    """Returns a prompt of some 250 tokens for each request; no two begin alike."""
    return ["".join(f"Keeper {number}, day {day}: the lamp burned {day * (number + 2)} hours. " for day in range(13))
            for number in range(_REQUESTS)]
