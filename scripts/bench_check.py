"""Runs benchmarks shortly and compares their figures with the stated ones: scripts/bench --check.

    scripts/bench --check [NAME...]           all benchmarks, or these
    scripts/bench --check --state [NAME...]   states what they measure now: the median of three runs of each goes into
                                              bench/figures.txt and docs/BENCHMARKS.md

A benchmark says how it is run shortly: each line "// check: FLAG..." of its source ("# check:" in Python) is one run
with these flags; one that says nothing is run as it is. One with a figure that is too low is run again, twice at most,
and of each figure the best run counts: other load on the machine makes a figure worse, and hardly ever better.

The exit code is 1 where a figure stays below LEAST of what is stated, where one is not printed, and where a benchmark
ends with an error. One that cannot run here is named, and is no failure.

>>> figure_of("figure gpu.onboard.raw 1.5e+03 GB/s 0.912 one copy")
('gpu.onboard.raw', 0.912)
>>> figure_of("figures follow") is None
True
>>> flags_of("// bench: a - what\\n// check: --size=2MiB --rounds=3\\n// check: --size=64KiB\\n")
[['--size=2MiB', '--rounds=3'], ['--size=64KiB']]
>>> flags_of("# bench: b - what\\n")
[[]]
>>> rate = Stated("b", "b.rate", False, 2.0, "r")
>>> time = Stated("b", "b.time", True, 2.0, "r")
>>> best([rate, time], [{"b.rate": 1.0, "b.time": 2.5}, {"b.rate": 1.2, "b.time": 3.0}])
{'b.rate': 1.2, 'b.time': 2.5}
>>> verdict(rate, {"b.rate": 1.4}), verdict(rate, {"b.rate": 1.39}), verdict(rate, {})
('ok', 'LOW', 'ABSENT')
>>> verdict(time, {"b.time": 2.85}), verdict(time, {"b.time": 2.87}), verdict(time, {"b.time": -0.1})
('ok', 'LOW', 'ok')
>>> print(report([rate, time], {"b.rate": 1.39}), end="")
bench  figure  stated  measured  of stated  result
b      b.rate       2      1.39       0.69  LOW
b      b.time       2         -          -  ABSENT
"""

import os
import pathlib
import re
import subprocess
import sys
import time as clock
from statistics import median

from bench_figures import FILE, LEAST, REPO, Stated, parse, restated, write_page

TRIES = 3
FIGURE = re.compile(r"figure ([A-Za-z0-9_.]+) \S+ \S+ (-?[0-9.]+(?:e[+-]?[0-9]+)?) \S")
SKIPPED = re.compile(r"skipped: (.*)")


def figure_of(line: str) -> tuple[str, float] | None:
    """Returns the name and ratio of a figure's line; None for any other line."""
    match = FIGURE.match(line)
    return (match[1], float(match[2])) if match else None


def flags_of(source: str) -> list[list[str]]:
    """Returns the flags of each of a benchmark's short runs."""
    return [line.split() for line in re.findall(r"^(?://|#) check: (.*)$", source, re.M)] or [[]]


def best(rows: list[Stated], runs: list[dict[str, float]]) -> dict[str, float]:
    """Returns of each stated figure the best ratio of all runs."""
    found = {}
    for row in rows:
        ratios = [run[row.name] for run in runs if row.name in run]
        if ratios:
            found[row.name] = max(ratios, key=row.of_stated)
    return found


def verdict(row: Stated, measured: dict[str, float]) -> str:
    """Returns what is to be said of a figure: ok, LOW or ABSENT."""
    if row.name not in measured:
        return "ABSENT"
    return "ok" if row.of_stated(measured[row.name]) >= LEAST else "LOW"


def report(rows: list[Stated], measured: dict[str, float]) -> str:
    """Returns the table of all figures."""
    cells = [("bench", "figure", "stated", "measured", "of stated", "result")]
    for row in rows:
        ratio = measured.get(row.name)
        numbers = ("-", "-") if ratio is None else (f"{ratio:.4g}", f"{row.of_stated(ratio):.2f}")
        cells.append((row.bench, row.name, f"{row.ratio:.4g}", *numbers, verdict(row, measured)))
    widths = [max(len(cell) for cell in column) for column in zip(*cells)]
    lines = ("  ".join(cell.ljust(width) if column < 2 else cell.rjust(width) if column < 5 else cell
                       for column, (cell, width) in enumerate(zip(line, widths))) for line in cells)
    return "".join(f"{line}\n" for line in lines)


def sources() -> dict[str, str]:
    """Returns the source of each benchmark by its name."""
    found = {}
    for path in sorted((REPO / "bench").glob("bench_*")):
        text = path.read_text()
        match = re.search(r"^(?://|#) bench: ([a-z0-9_]*) - ", text, re.M)
        if match:
            found[match[1]] = text
    return found


class Benches:
    """Runs benchmarks, and keeps what became of each."""

    def __init__(self) -> None:
        self.sources = sources()
        self.measured: dict[str, float] = {}
        self.failed: dict[str, str] = {}  # By benchmark: how it ended.
        self.not_run: dict[str, str] = {}  # By benchmark: why not.
        self._began = clock.monotonic()

    def say(self, text: str) -> None:
        """Prints a line of progress."""
        print(f"\n== [{clock.monotonic() - self._began:4.0f} s] check: {text}", flush=True)

    def check(self, name: str, rows: list[Stated]) -> None:
        """Runs one benchmark until none of its figures is too low, TRIES times at most."""
        runs: list[dict[str, float]] = []
        while len(runs) < TRIES and self._run(name, runs):
            low = [row for row in rows if verdict(row, best(rows, runs)) != "ok"]
            if not low:
                break
            what = ", ".join(f"{row.name} {verdict(row, best(rows, runs))}" for row in low)
            self.say(f"{name}: {what}; " + (f"try {len(runs)} of {TRIES}, once more" if len(runs) < TRIES else "stays"))
        self.measured |= best(rows, runs)

    def state(self, name: str, rows: list[Stated]) -> None:
        """Runs one benchmark TRIES times, and keeps the medians."""
        runs: list[dict[str, float]] = []
        while len(runs) < TRIES and self._run(name, runs):
            pass
        for row in rows:
            ratios = [run[row.name] for run in runs if row.name in run]
            if len(ratios) == TRIES:
                self.measured[row.name] = median(ratios)

    def _run(self, name: str, runs: list[dict[str, float]]) -> bool:
        """Appends the figures of one run to `runs`. Returns whether it ended well."""
        figures: dict[str, float] = {}
        for flags in flags_of(self.sources[name]):
            self.say(f"scripts/bench {' '.join([name, *flags])}")
            with subprocess.Popen([REPO / "scripts/bench", name, *flags], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace") as process:
                for line in process.stdout:
                    print(line, end="", flush=True)
                    if found := figure_of(line):
                        figures[found[0]] = found[1]
                    elif skipped := SKIPPED.match(line):
                        self.not_run[name] = skipped[1]
            if process.returncode != 0:
                self.failed[name] = f"scripts/bench {' '.join([name, *flags])} ended with {process.returncode}"
        if name in self.failed or name in self.not_run:
            return False
        runs.append(figures)
        return True


def without_engines(names: list[str], benches: Benches) -> list[str]:
    """Returns those that need no inference engine, or all where one is there: nobody wants 6 GB by the way."""
    home = pathlib.Path(os.environ.get("KVTIER_VLLM_DIR", REPO / "build/vllm"))
    if (home / "venv/bin/vllm").exists():
        return names
    for name in names:
        if re.search(r"^# engines$", benches.sources[name], re.M):
            benches.not_run[name] = f"{home} has no vLLM; scripts/bench --check {name} makes it (6 GB)"
    return [name for name in names if name not in benches.not_run]


def main(words: list[str]) -> int:
    """Checks or states the named benchmarks, or all; returns the exit code."""
    stating = "--state" in words
    benches = Benches()
    names = [word for word in words if word != "--state"]
    unknown = [name for name in names if name not in benches.sources]
    if unknown:
        print(f"bench: no benchmark '{unknown[0]}'; scripts/bench lists them", file=sys.stderr)
        return 2
    names = names or without_engines(list(benches.sources), benches)
    rows = parse(FILE.read_text())
    for name in names:
        (benches.state if stating else benches.check)(name, [row for row in rows if row.bench == name])
    wanted = [row for row in rows if row.bench in names and row.bench not in benches.not_run]
    print(f"\n{report(wanted, benches.measured)}")
    for name, why in benches.not_run.items():
        print(f"NOT RUN: {name}: {why}")
    for name, how in benches.failed.items():
        print(f"FAILED: {name}: {how}")
    verdicts = [verdict(row, benches.measured) for row in wanted]
    if stating:
        FILE.write_text(restated(FILE.read_text(), benches.measured))
        write_page()
        print(f"stated: {len(benches.measured)} of {len(wanted)} figures")
        return 1 if benches.failed or "ABSENT" in verdicts else 0
    print(f"{verdicts.count('ok')} ok, {verdicts.count('LOW')} low, {verdicts.count('ABSENT')} absent, "
          f"{len(benches.failed)} failed, {len(benches.not_run)} not run")
    return 1 if benches.failed or verdicts.count("ok") < len(verdicts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
