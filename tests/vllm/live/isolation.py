"""Scenarios of engines and requests that must never share a block."""

import subprocess
from pathlib import Path

from awaited import until
from control import ANSWER_TOKENS
from observations import Window
from report import Seen
from site_of_run import Site
from vllm_process import Answer, VllmProcess

_SOME = 8  # Prompts.
_ADAPTERS = ("first", "second")


def salts_never_share(site: Site, engine: VllmProcess) -> None:
    """Requests with a cache salt load their own blocks and nobody else's."""
    numbers = site.control.everything[:_SOME]
    with site.report.scenario("cache salts never share") as seen:
        for salt in ("north", "south"):
            answers, keys = _asked(site, engine, cache_salt=salt)
            seen.compared(len(answers), site.control.wrong(numbers, answers))
            seen.expect(not keys, f"{len(keys)} blocks were loaded for the new salt {salt}")
        for salt in ("north", "south"):
            _expect_own(site, seen, engine, numbers, cache_salt=salt)


def weights_never_share(site: Site, engine: VllmProcess) -> None:
    """An engine of other weights loads its own blocks and none of the first model's."""
    with site.report.scenario("engines of different weights never share") as seen:
        answers, keys = _asked(site, engine)
        other = sum(answer.text != site.control.texts[number] for number, answer in enumerate(answers))
        seen.note(loaded=len(keys), texts_that_differ=f"{other} of {len(answers)}")
        seen.expect(not keys, f"{len(keys)} blocks of other weights were loaded")
        seen.expect(other > 0, "the weights make no difference")
        _expect_own(site, seen, engine, site.control.everything[:_SOME], [answer.text for answer in answers])


def adapters_never_share(site: Site, engine: VllmProcess) -> None:
    """Requests with a LoRA adapter load neither the model's blocks nor another adapter's."""
    with site.report.scenario("LoRA adapters never share") as seen:
        texts = {}
        for adapter in _ADAPTERS:
            answers, keys = _asked(site, engine, model=adapter)
            texts[adapter] = [answer.text for answer in answers]
            seen.expect(not keys, f"{len(keys)} blocks were loaded for the new adapter {adapter}")
        differ = sum(one != other for one, other in zip(*texts.values()))
        seen.note(texts_that_differ=f"{differ} of {_SOME}")
        seen.expect(differ > 0, "the adapters make no difference")
        for adapter in _ADAPTERS:
            _expect_own(site, seen, engine, site.control.everything[:_SOME], texts[adapter], model=adapter)


def reset_begins_anew(site: Site, engine: VllmProcess) -> None:
    """After a reset of the cache, as for new weights, older blocks are not loaded, and newer ones are."""
    with site.report.scenario("after a reset nothing from before is loaded") as seen:
        before, _ = _asked(site, engine)
        engine.forget_prefixes(also_saved=True)
        answers, keys = _asked(site, engine)
        seen.note(loaded=len(keys))
        seen.expect(not keys, f"{len(keys)} blocks from before the reset were loaded")
        seen.compared(len(answers), [f"{after.text!r}, not {early.text!r}" for early, after in zip(before, answers)
                                     if after.text != early.text])
        _expect_own(site, seen, engine, site.control.everything[:_SOME], [answer.text for answer in answers])


def adapter_flags(folder: Path) -> tuple[str, ...]:
    """Returns the flags of an engine that has both adapters of make_variants()."""
    return ("--enable-lora", "--max-loras", str(len(_ADAPTERS)), "--max-lora-rank", "8", "--lora-modules",
            *(f"{name}={folder / name}" for name in _ADAPTERS))


def make_variants(site: Site) -> Path:
    """Makes the model with other weights, and two adapters. Returns their folder."""
    folder = site.folder / "variants"
    program = Path(__file__).parent / "model_variants.py"
    subprocess.run([site.venv / "bin/python", program, site.model, folder, *_ADAPTERS], check=True, timeout=600)
    return folder


def _asked(site: Site, engine: VllmProcess, **fields: object) -> tuple[list[Answer], set[str]]:
    """Returns the answers to some prompts, and the keys that were loaded for them."""
    engine.forget_prefixes()
    window = Window.from_now(engine.observed)
    answers = engine.complete_all(site.control.prompts[:_SOME], ANSWER_TOKENS, **fields)
    return answers, window.loaded_keys()


def _expect_own(site: Site, seen: Seen, engine: VllmProcess, numbers: range, texts: list[str] | None = None,
                **fields: object) -> None:
    """Expects that blocks computed before under the same fields are loaded now, and that the texts are the same."""
    wanted = site.control.blocks(numbers)
    keys: set[str] = set()

    def all_own() -> bool:
        answers, more = _asked(site, engine, **fields)
        keys.update(more)
        seen.compared(len(answers), site.control.wrong(numbers, answers) if texts is None else [
            f"{answer.text!r}, not {text!r}" for answer, text in zip(answers, texts) if answer.text != text])
        return len(keys) >= wanted

    until(all_own, f"{wanted} own blocks for {fields}")  # The last saves may still be on their way to the agent.
    seen.note(**{f"own_blocks_{'_'.join(map(str, fields.values())) or 'of_the_model'}": f"{len(keys)} of {wanted}"})
