#!/usr/bin/env python3
# bench: tenants - what tenants of one node can do to each other: wait, starve, take memory, tell
# check: --only=calls --seconds=1
# targets: kvtier-agent kvtier
"""Measures what tenants of one agent can do to each other, each part with a control in the same run.

    scripts/bench tenants [--only calls|starvation|isolation|overload|night] [--help]

calls       one key that one tenant asks for while another keeps calls of 8,192 keys in progress, by kind of call
starvation  the same beside all kinds of calls from --sessions sessions, and what of the first tenant's blocks stays
isolation   whether a tenant can tell another's blocks from nobody's (bench/tenants_isolation.py)
overload    memory and refusals with ten times the callers that there is memory for (bench/tenants_overload.py)
night       hits and waits while a conversation of a third tenant grows to 124,000 tokens, in host memory of
            --night_order (bench/tenants_night.py, bench/plot_night.py)

Ends with exit code 1 where a part's claim does not hold; calls claims nothing.
"""

import argparse
import sys
from collections.abc import Callable

from tenants_hostile import Shape, measure_calls, measure_starvation
from tenants_isolation import measure_isolation
from tenants_night import ORDERS, Evening, measure_night
from tenants_overload import MOST_SECONDS, measure_overload


_PARTS: dict[str, Callable[[argparse.Namespace], bool]] = {
    "calls": lambda options: measure_calls(Shape(1, 64, options.outstanding), options.seconds),
    "starvation": lambda options: measure_starvation(
        Shape(options.processes, options.sessions, options.starve_outstanding), options.starve_seconds),
    "isolation": lambda options: measure_isolation(options.samples),
    "overload": lambda options: measure_overload(options.overload_seconds),
    "night": lambda options: measure_night(
        Evening(options.turn_seconds, options.night_order), options.night_json)}


def main() -> None:
    """Runs the parts, each with an agent of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=tuple(_PARTS), default="", help="measures only this")
    parser.add_argument("--outstanding", type=int, default=16, help="calls that the other tenant keeps in progress")
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement of calls")
    parser.add_argument("--processes", type=int, default=16, help="of the hostile tenant: starvation")
    parser.add_argument("--sessions", type=int, default=1024, help="that these try to open")
    parser.add_argument("--starve_outstanding", type=int, default=64, help="calls that these keep in progress")
    parser.add_argument("--starve_seconds", type=float, default=60, help="of starvation, and of its control")
    parser.add_argument("--samples", type=int, default=10_000, help="lookups of each kind by each call: isolation")
    parser.add_argument("--overload_seconds", type=float, default=15, help=f"of overload, {MOST_SECONDS} at most")
    parser.add_argument("--turn_seconds", type=float, default=0.2, help="length of each of the 310 turns of a night")
    parser.add_argument("--night_order", choices=ORDERS, default=ORDERS[0],
                        help="order of eviction of host memory in the nights")
    parser.add_argument("--night_json", default="", help="file that the nights are written to; empty: none")
    options = parser.parse_args()
    if min(options.outstanding, options.processes, options.samples) < 1:
        parser.error("--outstanding, --processes and --samples are 1 or more")
    if min(options.sessions, options.starve_outstanding) < options.processes:
        parser.error(f"--sessions and --starve_outstanding are --processes={options.processes} or more")
    if min(options.seconds, options.starve_seconds, options.overload_seconds) <= 0:
        parser.error("--seconds, --starve_seconds and --overload_seconds are above 0")
    if options.overload_seconds > MOST_SECONDS:
        parser.error(f"--overload_seconds={options.overload_seconds:g} is more than {MOST_SECONDS}")
    failed = [name for name, measure in _PARTS.items() if options.only in ("", name) and not measure(options)]
    if failed:
        sys.exit(f"does not hold: {', '.join(failed)}")


if __name__ == "__main__":
    main()
