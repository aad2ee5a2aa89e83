"""Stock vLLM in bfloat16 with each codec: what a hit's text is beside the text that was computed.

    python3 codec.py VENV MODEL [FOLDER]

An engine for each codec. It computes and saves a prompt, forgets it, and is asked again. Prints a line for each, and
"figure vllm.codec.NAME VALUE" lines; the exit code is 0 only if all blocks were loaded, the lossless codec's text is the
computed one, and those of the others begin with half of it. Environment: KVTIER_BIN_DIR and KVTIER_PYTHON_DIR.
"""

import os.path
import sys
import tempfile
from pathlib import Path

from agent_process import AgentProcess
from locations import BIN, PYTHON, free_port
from vllm_process import VllmProcess

_BLOCK = 32
_TOKENS = 48
_PROMPT = "".join(f"Third book, line {i}: the river number {i * 7} runs to the bay. " for i in range(48))


def ask_twice(venv: Path, model: Path, folder: Path, agent: AgentProcess, codec: str) -> list[str]:
    """Returns what is wrong with the hit of an engine with this codec."""
    with VllmProcess(venv, model, free_port(), folder / f"{codec or 'none'}.log", PYTHON, agent.socket_dir,
                     more=("--dtype", "bfloat16"), options={"codec": codec}) as engine:
        engine.await_ready()
        computed = engine.complete(_PROMPT, _TOKENS)
        saved = engine.counter("vllm:kvtier_saved_blocks_total")
        engine.forget_prefixes()
        hit = engine.complete(_PROMPT, _TOKENS)
        loaded = int(engine.counter("vllm:kvtier_loaded_blocks_total"))
    alike = len(os.path.commonprefix([computed.text, hit.text])) / len(computed.text)
    print(f"codec {codec!r}: {int(saved)} blocks saved, {loaded} loaded; {hit.seconds:.2f} s, computed in "
          f"{computed.seconds:.2f} s; {hit.text!r}")
    print(f"figure vllm.codec.{codec or 'none'}.text_alike {alike:.2f}")
    wanted = (computed.prompt_tokens - 1) // _BLOCK
    wrong = []
    if loaded != wanted:
        wrong.append(f"codec {codec!r}: {loaded} blocks were loaded, not {wanted}")
    if alike < (1 if codec in ("", "lossless") else 0.5):
        wrong.append(f"codec {codec!r}: {hit.text!r}, computed was {computed.text!r}")
    return wrong


def main() -> int:
    """Runs it in FOLDER, or in a new one."""
    venv, model = Path(sys.argv[1]), Path(sys.argv[2])
    folder = Path(sys.argv[3]) if len(sys.argv) > 3 else Path(tempfile.mkdtemp(prefix="kvtier-vllm-"))
    folder.mkdir(parents=True, exist_ok=True)
    agent = AgentProcess(BIN / "kvtier-agent", folder)
    agent.start()
    complaints = []
    try:
        for codec in ("", "lossless", "fp8", "int8"):
            complaints += ask_twice(venv, model, folder, agent, codec)
    finally:
        agent.kill()
    for complaint in complaints:
        print(f"WRONG: {complaint}")
    print(f"figure vllm.codec.wrong {len(complaints)}")
    print(f"logs: {folder}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
