"""Stock vLLM with its heads on three workers, each with a space of its own: what is loaded is what all have.

    python3 ranks.py VENV MODEL [FOLDER]

Prints as smoke.py does; KVTIER_BIN_DIR and KVTIER_PYTHON_DIR as there.
"""

import sys
import tempfile
from pathlib import Path

from agent_process import AgentProcess
from locations import BIN, PYTHON, free_port
from vllm_process import VllmProcess

_RANKS = 3  # SmolLM2 has 9 heads and 3 of KV; and stock vLLM 0.32 cannot split layers (pipeline ranks) on the CPU.
_PROMPT = "".join(f"Keeper {day}: the lamp burned {day * 3} hours. " for day in range(20))


def run(venv: Path, model: Path, folder: Path) -> list[str]:
    """Runs an engine of several ranks. Returns what is wrong."""
    agent = AgentProcess(BIN / "kvtier-agent", folder)
    agent.start()
    wrong = []
    try:
        with VllmProcess(venv, model, free_port(), folder / "ranks.log", PYTHON, agent.socket_dir,
                         more=("--tensor-parallel-size", str(_RANKS))) as engine:
            engine.await_ready()
            computed = engine.complete(_PROMPT)
            engine.forget_prefixes()
            loaded = engine.complete(_PROMPT)
            blocks = int(engine.counter("vllm:kvtier_loaded_blocks_total"))
    finally:
        agent.kill()
    print(f"computed {computed.seconds:.2f} s, loaded {loaded.seconds:.2f} s, {blocks} blocks, {loaded.text!r}")
    if loaded.text != computed.text:
        wrong.append(f"{loaded.text!r}, not {computed.text!r}")
    if blocks != _RANKS * ((computed.prompt_tokens - 1) // 32):
        wrong.append(f"{blocks} blocks of {computed.prompt_tokens} tokens were loaded by {_RANKS} ranks")
    return wrong


def main() -> int:
    """Runs it in FOLDER, or in one that is made."""
    folder = Path(sys.argv[3]) if len(sys.argv) > 3 else Path(tempfile.mkdtemp(prefix="kvtier-vllm-"))
    folder.mkdir(parents=True, exist_ok=True)
    wrong = run(Path(sys.argv[1]), Path(sys.argv[2]), folder)
    for complaint in wrong:
        print(f"WRONG: {complaint}")
    print(f"figure vllm.ranks_wrong {len(wrong)}")
    print(f"logs: {folder}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
