"""The scenario of an engine whose connector is MultiConnector, as in setups with prefill nodes."""

from awaited import until
from control import ANSWER_TOKENS
from site_of_run import Site
from vllm_process import VllmProcess

NAME = "inside MultiConnector, beside another connector"
_SOME = 4  # Prompts.
_LOADED = "vllm:kvtier_loaded_blocks_total"


def connectors_share_an_engine(site: Site, engine: VllmProcess) -> None:
    """An engine loads what engines before it saved, and answers as they did, with its statistics in its metrics."""
    numbers = site.control.everything[-_SOME:]
    wanted = site.control.blocks(numbers)
    passes = []
    with site.report.scenario(NAME) as seen:
        def all_loaded() -> bool:
            before = engine.counter(_LOADED)
            engine.forget_prefixes()
            answers = [engine.complete(site.control.prompts[number], ANSWER_TOKENS) for number in numbers]
            seen.compared(len(numbers), site.control.wrong(numbers, answers))
            passes.append(int(engine.counter(_LOADED) - before))
            return passes[-1] >= wanted

        until(all_loaded, f"{wanted} blocks", 180)
        seen.note(loaded_by_pass=passes, of=wanted)
        until(lambda: bool(engine.log_lines("KV Transfer metrics", "KvtierConnector")), f"statistics in {engine.log}", 30)
        seen.expect(not engine.log_lines("kvtier:", "raised an exception"), f"the connector failed; see {engine.log}")
