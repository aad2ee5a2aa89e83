"""Scenarios in which an engine loads what one before it saved: from memory, from a disk, from another node."""

import time

from agent_process import AgentProcess
from awaited import until
from observations import Window, compare, read_lines
from passes import ask, ask_and_compute, ask_until_hit, check_texts
from report import Seen
from site_of_run import Site
from vllm_process import AT_ONCE, VllmProcess

_BLOCK_BYTES = 30 * 2 * 3 * 32 * 64 * 4  # Layers, K and V, heads, tokens, values, bytes of a value.


def engine_saves(site: Site, engine: VllmProcess, agent: AgentProcess) -> None:
    """An engine that finds nothing saves all that it computes."""
    with site.report.scenario("the first engine computes and saves") as seen:
        wanted = site.control.blocks(site.control.everything)
        done = ask_and_compute(site, seen, engine, site.control.everything)
        until(lambda: agent.tier("host")["inserts"] >= wanted, f"{wanted} blocks in host memory")
        saved = {line["key"] for line in done.window.lines("save")}
        seen.note(different_blocks_saved=len(saved), of_prompts=wanted)
        seen.expect(len(saved) >= wanted, f"{len(saved)} blocks were saved, and the prompts have {wanted}")


def second_process_hits(site: Site, engine: VllmProcess, agent: AgentProcess) -> None:
    """Another engine process on the node loads all blocks from host memory."""
    with site.report.scenario("a second engine process on the node hits") as seen:
        before = agent.tier("host")["hits"]
        ask_until_hit(site, seen, engine, site.control.everything)
        hits = agent.tier("host")["hits"] - before
        seen.note(hits_of_the_agent=hits)
        seen.expect(hits > 0, "the agent counts no hit in host memory")


def two_processes_hit(site: Site, engine: VllmProcess, agent: AgentProcess) -> None:
    """Scheduler and worker hit, though they are two processes with a session each."""
    numbers = site.control.everything[:AT_ONCE]
    with site.report.scenario("scheduler and worker are two processes") as seen:
        window = Window(engine.observed, 0)
        ask_until_hit(site, seen, engine, numbers)
        workers = {line["pid"] for line in window.lines("load")}
        schedulers = {int(file.stem.split("-")[1]) for file in engine.observed.glob("scheduler-*.jsonl")}
        sessions = agent.status()["sessions"]
        seen.note(processes=len(workers | schedulers), sessions=sessions)
        seen.expect(len(workers) == len(schedulers) == 1 and not workers & schedulers,
                    f"the scheduler runs in {schedulers}, the worker in {workers}")
        seen.expect(sessions >= 2, f"the agent has {sessions} sessions")


def _held(agent: AgentProcess) -> dict[str, int]:
    """Returns what an agent holds for engines, by kind."""
    status = agent.status()
    return {name: status[name] for name in ("leases", "reservations", "tickets")}


def _expect_read(seen: Seen, read: int, wanted: int, window: Window) -> None:
    """Expects that the disk was read for each of the blocks but those that the engine computed, which are saved again."""
    computed = len({line["key"] for line in window.lines("save")} & window.loaded_keys())
    seen.note(read_from_disk=f"{read / 2**20:.0f} MiB", computed_first=computed)
    seen.expect(computed <= wanted // 2, f"{computed} blocks were computed, of {wanted}")
    seen.expect(read >= (wanted - computed) * _BLOCK_BYTES,
                f"{read} bytes were read from the disk, for {wanted} blocks less {computed}")


def many_at_once_hit(site: Site, engine: VllmProcess, agent: AgentProcess) -> None:
    """As many requests as the engine takes at once, with shared stems, all hit."""
    numbers = site.control.everything[-AT_ONCE:]
    with site.report.scenario("12 requests at once") as seen:
        ask_until_hit(site, seen, engine, numbers)
        # The client sends released leases with its next call, or soon after without one.
        until(lambda: not any(_held(agent).values()), "end of what the agent held for the requests", 10)
        held = _held(agent)
        seen.note(**held)
        seen.expect(not any(held.values()), f"the agent still holds {held}")


def other_node_hits(site: Site, engine: VllmProcess, agent: AgentProcess, holder: AgentProcess) -> None:
    """An engine on a node that has nothing loads what another node holds."""
    with site.report.scenario("an engine on another node fetches from its peer") as seen:
        served = holder.status()["peers"]["served_blocks"]
        ask_until_hit(site, seen, engine, site.control.everything)
        fetched = agent.status()["peers"]["fetched_blocks"]
        served = holder.status()["peers"]["served_blocks"] - served
        wanted = site.control.blocks(site.control.everything)
        seen.note(fetched_from_peer=fetched, served_by_it=served)
        # A block that came too late was computed instead, and has arrived by now.
        seen.expect(fetched >= wanted // 2 and served >= fetched,
                    f"{fetched} blocks were fetched and {served} served, of {wanted}")


def disk_hits(site: Site, engine: VllmProcess, agent: AgentProcess) -> None:
    """When host memory has dropped everything, all blocks come from the disk."""
    with site.report.scenario("after eviction from host memory it hits from disk") as seen:
        wanted = site.control.blocks(site.control.everything)
        agent.await_on_disk(wanted)
        agent.empty_host_memory()
        before = agent.tier("disk")["bytes_out"]
        window = Window.from_now(engine.observed)
        ask_until_hit(site, seen, engine, site.control.everything)
        _expect_read(seen, agent.tier("disk")["bytes_out"] - before, wanted, window)


def killed_agent_hits_again(site: Site, engine: VllmProcess, agent: AgentProcess) -> None:
    """An agent that was killed and is started again serves what its disk has, to the same engine."""
    with site.report.scenario("after kill -9 of the agent it hits again") as seen:
        wanted = site.control.blocks(site.control.everything)
        agent.await_on_disk(wanted)
        agent.kill()
        began = time.monotonic()
        agent.start()
        started = time.monotonic() - began
        recovered = agent.status()["disk_recovery"]["recovered_blocks"]
        window = Window.from_now(engine.observed)
        ask_until_hit(site, seen, engine, site.control.everything)
        seen.note(recovered=recovered, started_in=f"{started:.1f} s")
        seen.expect(recovered >= wanted, f"{recovered} blocks were recovered, of {wanted}")
        _expect_read(seen, agent.tier("disk")["bytes_out"], wanted, window)


def small_host_memory_hits(site: Site, engine: VllmProcess, agent: AgentProcess) -> None:
    """An agent whose host memory has room for only a part of a prompt's blocks serves all of them in the end."""
    longest = max(site.control.everything, key=lambda number: len(site.control.tokens[number]))
    blocks = site.control.blocks([longest])
    with site.report.scenario("host memory smaller than one prefix") as seen:
        agent.kill()
        roomy, agent.host_bytes = agent.host_bytes, "16MiB"
        agent.start(slab_bytes="2MiB")
        room = agent.tier("host")["capacity_bytes"] // _BLOCK_BYTES
        seen.note(room_for_blocks=room, blocks_of_the_prompt=blocks)
        seen.expect(0 < room < blocks, "the prompt has no more blocks than there is room for")
        loaded = 0

        def all_loaded() -> bool:
            nonlocal loaded
            done = ask(site, engine, [longest])
            check_texts(site, seen, [longest], done.answers)
            loaded = done.loaded
            return loaded == blocks

        try:
            until(all_loaded, f"{blocks} blocks of the prompt")
            seen.note(loaded=loaded, read_from_disk=f"{agent.tier('disk')['bytes_out'] / 2**20:.0f} MiB")
        finally:
            agent.kill()
            agent.host_bytes = roomy
            agent.start()


def all_bytes_compare(site: Site) -> None:
    """Each block that any engine loaded has bytes that an engine had saved under its key."""
    with site.report.scenario("the bytes of all loaded blocks are those saved") as seen:
        comparison = compare(line for line in read_lines(site.observed) if not line.get("planted"))
        seen.note(loaded_blocks_compared=comparison.compared, keys_computed_differently=comparison.variants)
        seen.expect(comparison.compared > 0, "nothing was compared")
        seen.expect(not comparison.wrong, f"{len(comparison.wrong)} blocks are wrong, such as {comparison.wrong[:3]}")
