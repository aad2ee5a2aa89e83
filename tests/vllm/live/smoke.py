"""Stock vLLM without and with kvtier: the same texts, and hits from memory, from a disk, and after failures.

    python3 smoke.py VENV MODEL [FOLDER]

Runs three engines one after the other, which takes some four minutes on two cores. Prints a line for each answer, and
"figure vllm.NAME VALUE" lines; the exit code is 0 only if every text is right and every hit is one. Environment:
KVTIER_BIN_DIR and KVTIER_PYTHON_DIR, where build/dev has them otherwise.
"""

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agent_process import AgentProcess
from locations import BIN, PYTHON, free_port
from vllm_process import Answer, VllmProcess

_BLOCK = 32
# Some 1,000 tokens each, in which the next line depends on those before; no two share a block.
_PROMPTS = ["".join(f"{book}, line {i}: the river number {i * factor} runs to the {sea}. " for i in range(48))
            for book, factor, sea in (("First book", 3, "north sea"), ("Second book", 5, "lake"), ("Third book", 7, "bay"))]


class Smoke:
    """One run: what was asked, and what went wrong."""

    def __init__(self, venv: Path, model: Path, folder: Path) -> None:
        self._venv, self._model, self._folder = venv, model, folder
        self._expected: list[str] = []
        self.complaints: list[str] = []

    def run(self) -> None:
        """Runs all scenarios."""
        agent = AgentProcess(BIN / "kvtier-agent", self._folder)
        try:
            with self._engine("plain", None) as engine:
                for prompt in range(len(_PROMPTS)):
                    answer = engine.complete(_PROMPTS[prompt])
                    self._expected.append(answer.text)
                    print(f"plain: {answer.prompt_tokens} tokens, {answer.seconds:.2f} s, {answer.text!r}")
                print(f"figure vllm.compute_s {answer.seconds:.2f}")
            agent.start()
            with self._engine("first", agent) as engine:
                self._ask(engine, "computed and saved", 0, hit=False)
                self._ask(engine, "not to be stored", 1, hit=False, parameters={"kvtier.no_store": True})
            with self._engine("second", agent) as engine:
                self._ask(engine, "memory, a second process", 0, hit=True, figure="host_s")
                self._ask(engine, "what was not stored", 1, hit=False)
                self._ask(engine, "not more than asked for", 0, hit=False, parameters={"kvtier.max_tokens": 0})
                agent.kill()
                self._ask(engine, "no agent", 0, hit=False)
                agent.start()
                self._ask(engine, "disk, after kill -9", 0, hit=True, figure="disk_s", tries=5)
                self._ask(engine, "computed and saved behind it", 2, hit=False)
                self._ask(engine, "memory again", 2, hit=True)
                agent.stop()
                self._ask(engine, "a stopped agent", 2, hit=False)
                agent.go_on()
                self._ask(engine, "it goes on", 2, hit=True, tries=10)
        finally:
            agent.kill()

    @contextlib.contextmanager
    def _engine(self, name: str, agent: AgentProcess | None) -> Iterator[VllmProcess]:
        with VllmProcess(self._venv, self._model, free_port(), self._folder / f"{name}.log", PYTHON,
                         None if agent is None else agent.socket_dir) as engine:
            engine.await_ready()
            yield engine

    def _ask(self, engine: VllmProcess, scenario: str, prompt: int, hit: bool, figure: str = "", tries: int = 1,
             parameters: dict | None = None) -> None:
        """Asks for a prompt that the engine itself has forgotten. A hit may take `tries`, while clients find an agent."""
        for _ in range(tries):
            engine.forget_prefixes()
            before = engine.counter("vllm:kvtier_loaded_blocks_total")
            late = engine.counter("vllm:kvtier_late_looks_total")
            answer = engine.complete(_PROMPTS[prompt], parameters=parameters)
            loaded = int(engine.counter("vllm:kvtier_loaded_blocks_total") - before)
            self._check_text(scenario, prompt, answer)
            wanted = (answer.prompt_tokens - 1) // _BLOCK if hit else 0
            if loaded == wanted:
                break
        late = int(engine.counter("vllm:kvtier_late_looks_total") - late)
        print(f"{scenario}: {answer.seconds:.2f} s, {loaded} blocks loaded, {late} late looks, {answer.cached_tokens} tokens cached")
        if loaded != wanted:
            self.complaints.append(f"{scenario}: {loaded} blocks were loaded, not {wanted}")
        if figure:
            print(f"figure vllm.{figure} {answer.seconds:.2f}")

    def _check_text(self, scenario: str, prompt: int, answer: Answer) -> None:
        if answer.text != self._expected[prompt]:
            self.complaints.append(f"{scenario}: {answer.text!r}, not {self._expected[prompt]!r}")


def main() -> int:
    """Runs it in FOLDER, or in one that goes away when all went well."""
    venv, model = Path(sys.argv[1]), Path(sys.argv[2])
    folder = Path(sys.argv[3]) if len(sys.argv) > 3 else Path(tempfile.mkdtemp(prefix="kvtier-vllm-"))
    folder.mkdir(parents=True, exist_ok=True)
    smoke = Smoke(venv, model, folder)
    smoke.run()
    for complaint in smoke.complaints:
        print(f"WRONG: {complaint}")
    print(f"figure vllm.wrong {len(smoke.complaints)}")
    print(f"logs: {folder}")
    return 1 if smoke.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
