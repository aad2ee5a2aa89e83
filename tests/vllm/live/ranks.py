"""The scenario of an engine whose heads are on several workers, each with a space of its own."""

from control import ANSWER_TOKENS
from observations import Window
from site_of_run import Site
from vllm_process import VllmProcess

_RANKS = 3  # SmolLM2 has 9 heads and 3 KV heads, and stock vLLM 0.32 cannot split layers (pipeline ranks) on the CPU.
_SOME = 4  # Prompts.
FLAGS = ("--tensor-parallel-size", str(_RANKS))


def all_ranks_load(site: Site, engine: VllmProcess) -> None:
    """The engine loads the blocks that all ranks have, and the texts are those that the same engine computed."""
    numbers = site.control.everything[-_SOME:]
    prompts = [site.control.prompts[number] for number in numbers]
    with site.report.scenario("tensor ranks load what all of them have") as seen:
        computed = engine.complete_all(prompts, ANSWER_TOKENS)
        engine.forget_prefixes()
        window = Window.from_now(engine.observed)
        loaded = engine.complete_all(prompts, ANSWER_TOKENS)
        wanted = site.control.blocks(numbers)
        lines = window.lines("load")
        by_rank = {pid: len({line["key"] for line in lines if line["pid"] == pid})
                   for pid in {line["pid"] for line in lines}}
        seen.note(blocks_by_rank=sorted(by_rank.values()), of=wanted)
        seen.expect(sorted(by_rank.values()) == [wanted] * _RANKS, f"the ranks loaded {by_rank}, of {wanted}")
        seen.expect(len({(line["space"]) for line in lines}) == _RANKS, "ranks share a space")
        seen.compared(_SOME, [f"{after.text!r}, not {before.text!r}" for before, after in zip(computed, loaded)
                              if after.text != before.text])
