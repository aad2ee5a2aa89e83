"""The scenario of requests that ask not to be stored, or not to be loaded as far as they could."""

from dataclasses import dataclass

from awaited import until
from control import ANSWER_TOKENS, BLOCK_TOKENS
from observations import Window
from site_of_run import Site
from vllm_process import VllmProcess

_LIMIT_BLOCKS = 2


@dataclass(frozen=True)
class _Outcome:
    """Outcome of one request."""

    text: str
    blocks: int  # Blocks of the prompt that can be loaded.
    loaded: int  # Blocks that were loaded.
    saved: int


def request_options_are_followed(site: Site, engine: VllmProcess) -> None:
    """A prompt that was not to be stored is a miss afterwards, and no more is loaded than was asked for."""
    prompt = "This is for nobody else. " + max(site.control.prompts, key=len)
    with site.report.scenario("requests say what is stored and loaded for them") as seen:
        unstored = _ask(engine, prompt, {"kvtier.no_store": True})
        missed = _ask(engine, prompt, None)
        seen.expect(unstored.saved == 0, f"{unstored.saved} blocks were saved of what was not to be stored")
        seen.expect(missed.loaded == 0, f"{missed.loaded} blocks were loaded of what was not to be stored")
        hits = [missed]

        def is_hit() -> bool:
            hits.append(_ask(engine, prompt, None))
            return hits[-1].loaded == missed.blocks

        until(is_hit, "hit of what was stored then")
        unloaded = _ask(engine, prompt, {"kvtier.max_tokens": 0})
        limited = _ask(engine, prompt, {"kvtier.max_tokens": _LIMIT_BLOCKS * BLOCK_TOKENS + 1})
        seen.expect(unloaded.loaded == 0, f"{unloaded.loaded} blocks were loaded, and none was wanted")
        seen.expect(limited.loaded == _LIMIT_BLOCKS, f"{limited.loaded} blocks were loaded, not {_LIMIT_BLOCKS}")
        seen.note(blocks=missed.blocks, hit=hits[-1].loaded, limited=limited.loaded)
        answers = [unstored, *hits, unloaded, limited]
        seen.compared(len(answers), [f"{answer.text!r}, not {unstored.text!r}" for answer in answers
                                     if answer.text != unstored.text])


def _ask(engine: VllmProcess, prompt: str, parameters: dict | None) -> _Outcome:
    engine.forget_prefixes()
    window = Window.from_now(engine.observed)
    answer = engine.complete(prompt, ANSWER_TOKENS, parameters)
    return _Outcome(answer.text, (answer.prompt_tokens - 1) // BLOCK_TOKENS, len(window.lines("load")),
                  len(window.lines("save")))
