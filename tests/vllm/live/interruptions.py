"""Scenarios in which the agent goes away in the middle of requests, and comes back to the same engine."""

from collections.abc import Callable

from agent_process import AgentProcess
from awaited import until
from observations import Window
from passes import ask, ask_and_compute, ask_until_hit, check_calls, check_observed, check_texts
from report import Seen
from site_of_run import Site
from vllm_process import AT_ONCE, VllmProcess

_STRIDE = 2  # Every second prompt is asked while the agent goes away.
_RETURNED = 6  # Prompts that are asked when it is back.


def agent_killed(site: Site, engine: VllmProcess, agent: AgentProcess) -> None:
    """An agent that is killed in the middle costs hits and nothing else, and hits return with it."""
    with site.report.scenario("the agent is killed in the middle of requests") as seen:
        _interrupted(site, seen, engine, agent.kill)
        ask_and_compute(site, seen, engine, site.control.everything[:_RETURNED])
        agent.start()
        ask_until_hit(site, seen, engine, site.control.everything[:_RETURNED])


def agent_stopped(site: Site, engine: VllmProcess, agent: AgentProcess) -> None:
    """An agent that stops answering in the middle stalls nobody, and hits return when it goes on."""
    with site.report.scenario("the agent is stopped in the middle of requests") as seen:
        try:
            _interrupted(site, seen, engine, agent.stop)
            ask_and_compute(site, seen, engine, site.control.everything[:_RETURNED])
        finally:
            agent.go_on()
        ask_until_hit(site, seen, engine, site.control.everything[:_RETURNED])


def agent_restarted(site: Site, engine: VllmProcess, agent: AgentProcess) -> None:
    """An agent that is killed and started again while requests run serves the same engine again."""
    def restart() -> None:
        agent.kill()
        agent.start()

    with site.report.scenario("the agent is restarted in the middle of requests") as seen:
        _interrupted(site, seen, engine, restart)
        ask_until_hit(site, seen, engine, site.control.everything[:_RETURNED])


def _interrupted(site: Site, seen: Seen, engine: VllmProcess, act: Callable[[], None]) -> None:
    """Asks for prompts, acts when the first of them has loaded a block and others wait, and checks the answers."""
    numbers = site.control.everything[::_STRIDE]
    loaded_before = 0

    def act_in_the_middle(window: Window) -> None:
        nonlocal loaded_before
        until(lambda: bool(window.lines("load")), "loaded block")
        loaded_before = len(window.loaded_keys())
        act()

    done = ask(site, engine, numbers, act_in_the_middle)
    check_texts(site, seen, numbers, done.answers)
    check_observed(seen, done)
    check_calls(seen, done.window)
    wanted = site.control.blocks(numbers)
    slowest = max(answer.seconds for answer in done.answers)
    seen.note(slowest=f"{slowest:.1f} s", blocks_before_it=f"{loaded_before} of {wanted}",
              blocks_in_all=len(done.window.loaded_keys()), loads_failed=done.failed)
    seen.expect(len(numbers) > AT_ONCE, "no request was still to come")
    seen.expect(loaded_before < wanted, "all was loaded before anything happened")
