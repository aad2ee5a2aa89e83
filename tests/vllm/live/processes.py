"""Scenarios of the engine's own processes: killed in the middle, and forking."""

import collections
import threading
import urllib.error

from agent_process import AgentProcess
from awaited import until
from control import ANSWER_TOKENS
from observations import Window
from passes import ask, ask_until_hit, check_texts
from shared_memory import kvtier_files
from site_of_run import Site
from vllm_process import AT_ONCE, VllmProcess

_HELD = ("sessions", "leases", "reservations", "tickets", "ticket_blocks")
_HELD_BYTES = ("pinned_bytes", "late_bytes")


def held_by(agent: AgentProcess) -> collections.Counter:
    """Returns what an agent holds for its workers: promises, bytes, and descriptors by what they are."""
    status, host = agent.status(), agent.tier("host")
    return collections.Counter({**{name: status[name] for name in _HELD}, **{name: host[name] for name in _HELD_BYTES},
                                "staging regions": status["staging"]["regions"], **agent.descriptors()})


def killed_engine_leaks_nothing(site: Site, engine: VllmProcess, agent: AgentProcess,
                                before: collections.Counter) -> None:
    """An engine that is killed with loads and calls in progress leaves nothing; `before` is held_by() without it.

    The agent is stopped when the first block was loaded, so that calls wait in its sockets, and goes on when the
    engine is gone.
    """
    with site.report.scenario("a killed engine leaks nothing") as seen:
        during = held_by(agent)
        window = Window.from_now(engine.observed)
        engine.forget_prefixes()
        asked = threading.Thread(target=_ask_in_vain, args=(site, engine))
        asked.start()
        try:
            until(lambda: bool(window.lines("load")), "loaded block")
            agent.stop()
            engine.kill()
        finally:
            agent.go_on()
        asked.join()
        seen.note(sessions_with_it=during["sessions"], loaded_before_it=len(window.lines("load")))
        seen.expect(during["sessions"] > before["sessions"], "the engine had no session")
        try:
            until(lambda: held_by(agent) <= before, "agent that holds no more than before", 60)
        except TimeoutError:
            seen.complaints.append(f"the agent holds {held_by(agent) - before} more than before")
        seen.note(held_because_of_it=sum((during - before).values()), left=sum((held_by(agent) - before).values()),
                  files_in_dev_shm=len(kvtier_files()))
        seen.expect(not kvtier_files(), f"/dev/shm has {kvtier_files()}")


def forking_engine_hits(site: Site, engine: VllmProcess) -> None:
    """When scheduler and worker fork, the children are served misses, and the parents hit as before."""
    numbers = site.control.everything[:AT_ONCE]
    with site.report.scenario("an engine that forks") as seen:
        orders = [engine.observed / f"fork-{side}" for side in ("scheduler", "worker")]
        for order in orders:
            order.touch()
        done = ask(site, engine, numbers)
        check_texts(site, seen, numbers, done.answers)
        children, forked = done.window.lines("child"), done.window.lines("forked")
        seen.note(children=len(children))
        seen.expect(not any(order.exists() for order in orders) and len(forked) == 2, "no process has forked")
        seen.expect(len(children) == 2 and all(line["exit_code"] == 0 for line in forked),
                    f"children ended with {[line['exit_code'] for line in forked]}")
        seen.expect("(0, False)" in {child["answer"] for child in children}, "the scheduler's child was told of a hit")
        ask_until_hit(site, seen, engine, numbers)


def _ask_in_vain(site: Site, engine: VllmProcess) -> None:
    """Asks for prompts of an engine that is killed meanwhile."""
    try:
        engine.complete_all(site.control.prompts, ANSWER_TOKENS)
    except (urllib.error.URLError, OSError):
        pass  # The engine is dead, as it should be.
