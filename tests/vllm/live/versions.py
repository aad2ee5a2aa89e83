"""Scenarios with an agent or a package that was built from an older commit of this repository."""

import subprocess
from pathlib import Path

from agent_process import AgentProcess
from awaited import until
from locations import PYTHON
from passes import ask, ask_until_hit, check_texts
from site_of_run import Site
from vllm_process import VllmProcess

_SOME = 6  # Prompts.
_WORKER = Path(__file__).parent / "plain_worker.py"
_SAYS = "lays out"  # Words of the log line that tells of another layout of the wire.


def older_agent(site: Site, engine: VllmProcess, agent: AgentProcess, program: Path) -> None:
    """An agent of an older wire format, on the newer one's sockets, causes misses and a line in the engine's log."""
    numbers = site.control.everything[:_SOME]
    with site.report.scenario("a newer wheel with an older agent") as seen:
        older = AgentProcess(program, site.folder / "older", node="older", sockets=agent.socket_dir)
        agent.kill()
        lines = len(engine.log_lines("kvtier", _SAYS))
        older.start()
        try:
            for _ in range(2):
                done = ask(site, engine, numbers)
                check_texts(site, seen, numbers, done.answers)
                seen.expect(done.loaded == 0, f"{done.loaded} blocks were loaded from an agent of another wire")
            until(lambda: len(engine.log_lines("kvtier", _SAYS)) > lines, "line in the engine's log", 60)
        finally:
            older.kill()
        said = engine.log_lines("kvtier", _SAYS)[lines:]
        seen.note(lines=len(said), said=_from_kvtier(said[0]))
        agent.start()
        ask_until_hit(site, seen, engine, numbers)


def older_wheel(site: Site, engine: VllmProcess) -> None:
    """An engine with an older package hits if the wire format is the same; otherwise it logs why and computes."""
    numbers = site.control.everything[:_SOME]
    with site.report.scenario("an engine with an older wheel") as seen:
        wanted, keys = site.control.blocks(numbers), set()

        def refused_or_hit() -> bool:
            """Asks for a prompt; the engine computes a late block, and finds its own saves the next time."""
            done = ask(site, engine, numbers)
            check_texts(site, seen, numbers, done.answers)
            keys.update(done.window.loaded_keys())
            return bool(engine.log_lines("kvtier", _SAYS)) or len(keys) == wanted

        until(refused_or_hit, "hits, or a line that says why not", 60)
        said = engine.log_lines("kvtier", _SAYS)
        seen.note(loaded=f"{len(keys)} of {wanted}", lines_of_another_wire=len(said))
        seen.expect(not said or not keys, f"{len(keys)} blocks were loaded, and the log says {said}")


def older_worker(site: Site, agent: AgentProcess, package: Path) -> None:
    """A worker whose package speaks an older wire format has misses and prints a line that says why."""
    with site.report.scenario("a worker of an older wire") as seen:
        said = _plain_worker(site, agent, package)
        seen.note(said=_from_kvtier(said))
        seen.expect("0 blocks" in said, "it had a hit")
        seen.expect(_SAYS in said, "no line says why")


def visit(site: Site, agent: AgentProcess) -> None:
    """Lets a worker of the current package come and go. Raises RuntimeError if it has no hit."""
    said = _plain_worker(site, agent, PYTHON)
    if "1 blocks" not in said:
        raise RuntimeError(f"a worker of this build has no hit: {said}")


def _plain_worker(site: Site, agent: AgentProcess, package: Path) -> str:
    """Returns what a plain worker prints with this package."""
    ran = subprocess.run([site.venv / "bin/python", _WORKER, agent.socket_dir], env={"PYTHONPATH": str(package)},
                         capture_output=True, text=True, timeout=120)
    if ran.returncode != 0:
        raise RuntimeError(f"the worker ended with {ran.returncode}: {ran.stderr[-500:]}")
    return ran.stdout.strip()


def _from_kvtier(text: str) -> str:
    """Returns the first line that kvtier wrote, without what a log puts in front of it."""
    return text[text.index("kvtier:"):].splitlines()[0]
