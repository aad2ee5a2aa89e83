#!/usr/bin/env python3
# bench: engines - time to first token of vLLM by where a prefix comes from, and what kvtier costs its steps
# check: --rounds=5 --arms=host,disk,peer,empty_step
# targets: kvtier-agent kvtier kvtier-coordinator
# engines
"""Live engines on the CPU, asked in turn over HTTP, with a prompt that is new in each round.

    scripts/bench engines [--rounds N] [--arms host,disk,...] [--parts first_token,steps,lanes] [--seed N]

In a round all engines compute one prompt, those with a cache save it, and then each finds it: in its own prefix
cache (the floor), in kvtier's host memory, on its disk, on another node, in files, in LMCache's server. In between
the plain client brings as many blocks of the same size from the same disk and the same peer, and memcpy moves them.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from http.client import HTTPException
from pathlib import Path

import kvtier
from engines_arm import Arm
from engines_fleet import BLOCKS, PROMPT_TOKENS, Fleet, Places
from engines_medians import median_of, print_figure
from engines_rounds import Rounds

_HERE = Path(__file__).resolve().parent
_BUILD = _HERE.parent / "build"
_ARMS = ("host", "disk", "disk_after_kill", "peer", "file", "lmcache", "empty_step")
_MOST_FAILED = 3  # Rounds that may be left out.
_PARTS = ("first_token", "steps", "lanes")


def first_token(places: Places, wanted: set[str], rounds: int, seed: int) -> None:
    """Measures the time to first token of all arms, and prints it."""
    began = time.monotonic()
    with Fleet(places, wanted) as fleet:
        print(f"all engines are ready after {time.monotonic() - began:.0f} s; {rounds} rounds begin", flush=True)
        measured = Rounds(fleet, seed)
        measured.run(counts=False)  # Warms up.
        failed = 0
        while (done := measured.done) < rounds:
            try:
                measured.run()
            except (RuntimeError, OSError, HTTPException) as error:
                failed += 1
                print(f"a round is left out: {error!r}", flush=True)
                if failed > _MOST_FAILED:
                    raise
                continue
            now = ", ".join(f"{arm.name} {1000 * arm.seconds[-1]:.0f}" for arm in measured.arms)
            print(f"round {done + 1} of {rounds} ({time.monotonic() - began:.0f} s), ms: {now}", flush=True)
        measured.close()
        print_table(measured)
        print_figures(measured)
        for engine, why in fleet.absent.items():
            print(f"not measured: {engine}: {why}")


def print_table(measured: Rounds) -> None:
    """Prints every arm's median, and how far it is from the floor of its own round."""
    floor = next(arm for arm in measured.arms if arm.name == "floor")
    print(f"\ntime to first token of {PROMPT_TOKENS} tokens, {BLOCKS} blocks of them reusable, in ms: median [95 %]")
    print(f"{'arm':24} {'first token':28} {'above the floor of its round':30} misses")
    for arm in measured.arms:
        above = median_of([1000 * (mine - base) for mine, base in zip(arm.seconds, floor.seconds)])
        print(f"{arm.name:24} {str(median_of(in_ms(arm.seconds))):28} {str(above):30} {arm.misses}")
    for name, values in vars(measured.costs).items():
        if values:
            print(f"{name:24} {str(median_of(in_ms(values))):28}")
    print(f"texts equal to the floor's: {measured.equal_texts} of {measured.texts}\n")


def print_figures(measured: Rounds) -> None:
    """Prints the lines for programs: each arm beside the floor, and kvtier's beside what they may take."""
    arms = {arm.name: arm for arm in measured.arms}
    costs = measured.costs
    floor = median_of(in_ms(arms["floor"].seconds)).value
    for arm in measured.arms:
        first = median_of(in_ms(arm.seconds)).value
        print_figure(f"engines.{arm.name}.first_token", first, "ms", first / floor, "floor")
    for name, values in vars(costs).items():
        if values:
            value = median_of(in_ms(values)).value
            print_figure(f"engines.{name}", value, "ms", value / floor, "floor")
    step = median_of(costs.empty_step).value if costs.empty_step else 0.0
    bounds = {"host": [1.5 * copy + 2 * step for copy in costs.memcpy],
              "disk": [1.3 * path for path in costs.disk_path], "peer": [1.3 * path for path in costs.peer_path],
              "disk_after_kill": [1.3 * path for path in costs.disk_path]}
    for name, allowed in bounds.items():
        if name in arms:
            print_bound(arms[name], arms["floor"], allowed)
    for name in ("lmcache", "lmcache_1007"):
        if name in arms and "host" in arms:
            ratio = median_of([theirs / ours for theirs, ours in zip(arms[name].seconds, arms["host"].seconds)])
            print(f"{name} to host: {ratio}")
            print_figure(f"engines.host.before.{name}", ratio.value, "times", ratio.value / 5, "promised_5")


def print_bound(arm: Arm, floor: Arm, allowed: list[float]) -> None:
    """Prints what the arm takes above the floor of its round, beside what it may take, in ms."""
    taken = [mine - base for mine, base in zip(arm.seconds, floor.seconds)]
    above, bound = median_of(in_ms(taken)), median_of(in_ms(allowed))
    total = median_of([mine / (base + more) for mine, base, more in zip(arm.seconds, floor.seconds, allowed)])
    print(f"{arm.name}: {above} ms above the floor, {bound} allowed; the whole is {total} of the bound")
    print_figure(f"engines.{arm.name}.above_floor", above.value, "ms", above.value / bound.value, "allowed")
    print_figure(f"engines.{arm.name}.of_bound", total.value, "times", total.value, "floor_and_allowed")


def in_ms(seconds: list[float]) -> list[float]:
    """Returns the same in milliseconds."""
    return [1000 * value for value in seconds]


def chosen(text: str, known: tuple[str, ...]) -> set[str]:
    """Returns the names in a list with commas. ArgumentTypeError: one is not known."""
    names = {name for name in text.split(",") if name}
    if names - set(known):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(names - set(known)))}; known: {', '.join(known)}")
    return names


def main() -> None:
    """Runs the parts that are wanted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arms", type=lambda text: chosen(text, _ARMS), default=set(_ARMS))
    parser.add_argument("--parts", type=lambda text: chosen(text, _PARTS), default=set(_PARTS))
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    home = Path(os.environ.get("KVTIER_VLLM_DIR", _BUILD / "vllm"))
    lmcache = _BUILD / "lmcache/venv"
    folder = Path(tempfile.mkdtemp(prefix="bench-engines-", dir=_BUILD))
    places = Places(home / "venv", home / "model", lmcache if (lmcache / "complete").exists() else None, folder)
    print(f"logs: {folder}", flush=True)
    kvtier.set_logger(lambda level, line: None)  # Agents are killed on purpose, which needs no lines.
    if "first_token" in options.parts:
        first_token(places, options.arms, options.rounds, options.seed)
    python = places.venv / "bin/python"
    if "lanes" in options.parts:
        subprocess.run([python, _HERE / "engines_lanes.py", folder], check=True)
    if "steps" in options.parts:
        subprocess.run([python, _HERE / "engines_steps.py", folder, places.model], check=True)


if __name__ == "__main__":
    sys.exit(main())
