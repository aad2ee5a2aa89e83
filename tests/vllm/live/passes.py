"""One pass: prompts asked of an engine that has forgotten its own prefixes, beside the control."""

import concurrent.futures
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from awaited import until
from control import ANSWER_TOKENS
from observations import Window
from report import Seen
from site_of_run import Site
from vllm_process import Answer, VllmProcess

_HITS_RETURN_S = 180
_LONG_CALL_S = 1.0  # No call of the connector takes so long, whatever the agent does: a call's budget is 2 ms.


@dataclass(frozen=True)
class Pass:
    """Results of one pass."""

    answers: list[Answer]
    window: Window
    loaded: int  # Blocks that were loaded, by the engine's counter.
    failed: int  # Blocks that were to be loaded and did not come.


def ask(site: Site, engine: VllmProcess, numbers: Sequence[int],
        during: Callable[[Window], None] | None = None) -> Pass:
    """Asks for these prompts, and calls `during` meanwhile, which may do something to the agent."""
    engine.forget_prefixes()
    window = Window.from_now(engine.observed)
    before = [engine.counter(f"vllm:kvtier_{name}_total") for name in ("loaded_blocks", "load_failed_blocks")]
    prompts = [site.control.prompts[number] for number in numbers]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answers = pool.submit(engine.complete_all, prompts, ANSWER_TOKENS)
        if during is not None:
            during(window)
        answers = answers.result()
    loaded, failed = (int(engine.counter(f"vllm:kvtier_{name}_total") - start) for name, start in
                      zip(("loaded_blocks", "load_failed_blocks"), before))
    return Pass(answers, window, loaded, failed)


def check_texts(site: Site, seen: Seen, numbers: Sequence[int], answers: Sequence[Answer]) -> None:
    """Expects the control's texts, and no answer that stalled."""
    compared = sum(number in site.control.equal for number in numbers)
    seen.compared(compared, site.control.wrong(numbers, answers))
    slowest = max(answer.seconds for answer in answers)
    stall = site.control.stall_s
    seen.expect(slowest < stall, f"an answer took {slowest:.1f} s; {stall:.1f} is a stall")


def check_observed(seen: Seen, done: Pass) -> None:
    """Expects that each block that the engine counted as loaded was observed."""
    observed = len(done.window.lines("load"))
    seen.expect(observed == done.loaded, f"{observed} loads were observed, and the engine counted {done.loaded}")


def check_calls(seen: Seen, window: Window) -> None:
    """Expects that no call of the connector has waited for the agent."""
    longest = window.longest_call_s()
    seen.note(longest_call=f"{longest * 1000:.0f} ms" if longest else "under 20 ms")
    seen.expect(longest < _LONG_CALL_S, f"a call of the connector took {longest:.2f} s")


def ask_and_compute(site: Site, seen: Seen, engine: VllmProcess, numbers: Sequence[int]) -> Pass:
    """Asks for prompts of which nothing may be loaded."""
    done = ask(site, engine, numbers)
    check_texts(site, seen, numbers, done.answers)
    seen.expect(done.loaded == 0 and not done.window.lines("load"), f"{done.loaded} blocks were loaded")
    return done


def ask_until_hit(site: Site, seen: Seen, engine: VllmProcess, numbers: Sequence[int],
                  returns_s: float = _HITS_RETURN_S) -> None:
    """Asks, again if need be, until each block of the prompts was loaded, and compares the texts each time.

    The engine computes a block that comes too late, which is correct but no hit: a loaded machine needs several rounds.
    """
    wanted = site.control.blocks(numbers)
    keys: set[str] = set()
    totals = {"rounds": 0, "loaded": 0, "late_or_failed": 0}

    def all_hit() -> bool:
        done = ask(site, engine, numbers)
        check_texts(site, seen, numbers, done.answers)
        check_observed(seen, done)
        keys.update(done.window.loaded_keys())
        totals["rounds"] += 1
        totals["loaded"] += done.loaded
        totals["late_or_failed"] += done.failed
        return len(keys) >= wanted

    try:
        until(all_hit, "hits", returns_s)
    except TimeoutError:
        seen.complaints.append(f"{len(keys)} of {wanted} blocks were loaded within {returns_s:.0f} s")
    seen.note(blocks=f"{len(keys)} of {wanted}", **totals)
