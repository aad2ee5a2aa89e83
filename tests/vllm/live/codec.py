"""The scenario of engines in bfloat16 whose blocks are stored by a codec."""

import os.path
from collections.abc import Iterable

from agent_process import AgentProcess
from report import Seen
from site_of_run import Site
from vllm_process import VllmProcess

# Options of the connector; the text of a hit is the computed one for the first two.
EXACT = ("", "lossless")
CODECS = (*EXACT, "fp8", "int8")
FLAGS = ("--dtype", "bfloat16")
NAME = "a hit of each codec gives the text that was computed"
_BLOCK = 32
_TOKENS = 48
_PROMPT = "".join(f"Third book, line {i}: the river number {i * 7} runs to the bay. " for i in range(48))


def start_engine(site: Site, agent: AgentProcess, codec: str) -> VllmProcess:
    """Starts an engine in bfloat16 with this codec."""
    return site.unobserved_engine(f"codec_{codec or 'none'}", agent, FLAGS, options={"codec": codec})


def hits_are_alike(site: Site, engines: Iterable[tuple[str, VllmProcess]]) -> None:
    """Each engine computes and saves a prompt, forgets it, and is asked again; engines end when they were asked.

    A codec that loses nothing gives the computed text; the text of another begins with half of it.
    """
    with site.report.scenario(NAME) as seen:
        for codec, engine in engines:
            engine.await_ready()
            _ask_twice(seen, codec, engine)
            engine.close()


def _ask_twice(seen: Seen, codec: str, engine: VllmProcess) -> None:
    computed = engine.complete(_PROMPT, _TOKENS)
    engine.forget_prefixes()
    hit = engine.complete(_PROMPT, _TOKENS)
    loaded = int(engine.counter("vllm:kvtier_loaded_blocks_total"))
    wanted = (computed.prompt_tokens - 1) // _BLOCK
    alike = len(os.path.commonprefix([computed.text, hit.text])) / len(computed.text)
    seen.note(**{f"{codec or 'none'}_text_alike": f"{alike:.2f}"})
    seen.expect(loaded == wanted, f"codec {codec!r}: {loaded} blocks were loaded, not {wanted}")
    seen.expect(alike >= (1 if codec in EXACT else 0.5),
                f"codec {codec!r}: {hit.text!r}, and {computed.text!r} was computed")
