"""Stock vLLM with so few blocks that it preempts requests: the texts are those of an engine with enough.

    python3 preemption.py VENV MODEL [FOLDER]

Six requests at once in an engine with room for three, with kvtier, and in one with room for all, without. Preempted requests give
up blocks that lanes may still read, and load them again later. Prints as smoke.py does; KVTIER_BIN_DIR and KVTIER_PYTHON_DIR as there.
"""

import concurrent.futures
import sys
import tempfile
from pathlib import Path

from agent_process import AgentProcess
from locations import BIN, PYTHON, free_port
from vllm_process import VllmProcess

_REQUESTS = 6
_BLOCKS = 36  # Of 32 tokens; six requests of some 350 tokens want 66.
_TOKENS = 100


def prompt(number: int) -> str:
    """Returns some 250 tokens that begin otherwise for each request."""
    return "".join(f"Keeper {number}, day {day}: the lamp burned {day * (number + 2)} hours. " for day in range(13))


def answers_of(engine: VllmProcess) -> list[str]:
    """Returns the texts of all requests, which are asked at once."""
    engine.await_ready()
    with concurrent.futures.ThreadPoolExecutor(_REQUESTS) as pool:
        return list(pool.map(lambda number: engine.complete(prompt(number), _TOKENS).text, range(_REQUESTS)))


def run(venv: Path, model: Path, folder: Path) -> list[str]:
    """Runs both engines. Returns what is wrong."""
    with VllmProcess(venv, model, free_port(), folder / "plain.log", PYTHON) as engine:
        expected = answers_of(engine)
    agent = AgentProcess(BIN / "kvtier-agent", folder)
    agent.start()
    try:
        with VllmProcess(venv, model, free_port(), folder / "few_blocks.log", PYTHON, agent.socket_dir,
                         more=("--num-gpu-blocks-override", str(_BLOCKS), "--max-model-len", "512")) as engine:
            answers = answers_of(engine)
            preemptions = int(engine.counter("vllm:num_preemptions_total"))
            loaded = int(engine.counter("vllm:kvtier_loaded_blocks_total"))
            waits = int(engine.counter("vllm:kvtier_preemption_waits_total"))
    finally:
        agent.kill()
    print(f"{preemptions} preemptions, {loaded} blocks loaded, {waits} steps waited for copies")
    wrong = [f"request {number}: {answers[number]!r}, not {expected[number]!r}" for number in range(_REQUESTS)
             if answers[number] != expected[number]]
    return wrong + (["nothing was preempted"] if preemptions == 0 else [])


def main() -> int:
    """Runs it in FOLDER, or in one that is made."""
    folder = Path(sys.argv[3]) if len(sys.argv) > 3 else Path(tempfile.mkdtemp(prefix="kvtier-vllm-"))
    folder.mkdir(parents=True, exist_ok=True)
    wrong = run(Path(sys.argv[1]), Path(sys.argv[2]), folder)
    for complaint in wrong:
        print(f"WRONG: {complaint}")
    print(f"figure vllm.preemption_wrong {len(wrong)}")
    print(f"logs: {folder}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
