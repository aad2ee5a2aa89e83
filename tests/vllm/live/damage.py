"""Scenarios in which bytes are not what they were: in the disk's files, in the arena, and in the engine itself."""

import mmap
import os
from pathlib import Path

from agent_process import AgentProcess
from control import ANSWER_TOKENS
from observations import Window, compare, read_lines
from passes import ask, ask_until_hit, check_observed, check_texts
from site_of_run import Site
from vllm_process import VllmProcess

_STRIDE_BYTES = 32 * 1024  # Length of a stretch of a file. One byte of each stretch is flipped: some forty a block.
_PLACE = 20_011
_EVERY = 3  # Every third prompt is asked, since all blocks are computed again.


def flip_bytes(file: Path) -> int:
    """Flips one byte in each stretch of a file, unless the bytes there are zero. Returns how many."""
    flipped = 0
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as content:
        for place in range(_PLACE, len(content), _STRIDE_BYTES):
            if any(content[place - 64:place + 64]):
                content[place] ^= 0x55
                flipped += 1
        content.flush()
        os.fsync(opened.fileno())
    return flipped


def planted_difference_is_found(site: Site, engine: VllmProcess) -> None:
    """When loaded blocks are overwritten in the engine's memory, the comparison names them, and the text differs.

    It shows that what the other scenarios compare can differ.
    """
    number = max(site.control.equal, key=lambda place: len(site.control.tokens[place]))
    with site.report.scenario("a planted difference is found") as seen:
        engine.forget_prefixes()
        window = Window.from_now(engine.observed)
        (engine.observed / "plant").touch()
        # Others must not get blocks that were computed from overwritten ones.
        text = engine.complete(site.control.prompts[number], ANSWER_TOKENS, {"kvtier.no_store": True}).text
        planted = [line for line in window.lines("load") if line["planted"]]
        found = {line["key"] for line in compare(read_lines(site.observed)).wrong}
        seen.note(planted=len(planted), found=len(found), text_differs=text != site.control.texts[number])
        seen.expect(len(planted) > 0, "nothing was planted")
        seen.expect(found == {line["key"] for line in planted}, f"{len(found)} of {len(planted)} were found")
        seen.expect(text != site.control.texts[number], "the text is that of right bytes")
        engine.forget_prefixes()


def damaged_segments(site: Site, engine: VllmProcess, agent: AgentProcess) -> None:
    """Blocks whose bytes were flipped on the disk are computed again, and then hit."""
    numbers = site.control.everything[::_EVERY]
    with site.report.scenario("bytes flipped in segment files") as seen:
        agent.await_on_disk(site.control.blocks(site.control.everything))
        agent.empty_host_memory()
        before = agent.tier("disk")["verify_failures"]
        flipped = sum(flip_bytes(file) for file in agent.segments())
        done = ask(site, engine, numbers)
        check_texts(site, seen, numbers, done.answers)
        check_observed(seen, done)
        failures = agent.tier("disk")["verify_failures"] - before
        seen.note(flipped=flipped, loaded=done.loaded, verify_failures=failures, failed=done.failed)
        seen.expect(flipped > 0 and done.loaded == 0, f"{done.loaded} damaged blocks were loaded")
        seen.expect(failures > 0, "the agent counts no damaged block")
        seen.expect("quarantined" in agent.status()["health"], f"the agent's health is {agent.status()['health']!r}")
        ask_until_hit(site, seen, engine, numbers)


def damaged_arena(site: Site, engine: VllmProcess, agent: AgentProcess) -> None:
    """Blocks whose bytes were flipped in host memory are never loaded, and hit again later."""
    numbers = site.control.everything[::_EVERY]
    with site.report.scenario("bytes flipped in the arena") as seen:
        ask_until_hit(site, seen, engine, numbers)  # The blocks are all in host memory now.
        before = agent.status()["altered_blocks"]
        flipped = flip_bytes(agent.arena())
        done = ask(site, engine, numbers)
        check_texts(site, seen, numbers, done.answers)
        check_observed(seen, done)
        altered = agent.status()["altered_blocks"] - before
        seen.note(flipped=flipped, failed=done.failed, altered_blocks=altered)
        seen.expect(flipped > 0 and done.failed > 0, f"{flipped} bytes were flipped, and {done.failed} loads failed")
        seen.expect(altered > 0, "the agent counts no altered block")
        ask_until_hit(site, seen, engine, numbers)
