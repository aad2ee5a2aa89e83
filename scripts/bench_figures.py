"""The figures that are stated of the benchmarks: bench/figures.txt, and the table of them in docs/BENCHMARKS.md.

    python3 scripts/bench_figures.py --write     writes the table again, from the file

>>> node = "node  node.ping  lower  1.5  empty call\\n"
>>> copy = "copy  copy.in.2MiB  higher  0.9123  memcpy\\n"
>>> (ping, copied) = parse("# A comment.\\n\\n" + node + copy)
>>> ping
Stated(bench='node', name='node.ping', lower=True, ratio=1.5, reference='empty call')
>>> ping.of_stated(3.0), copied.of_stated(0.9123)
(0.5, 1.0)
>>> parse("node node.ping less 1.5 empty_call")
Traceback (most recent call last):
ValueError: line 1: 'less' is neither higher nor lower
>>> parse("node node.ping lower 1.5")
Traceback (most recent call last):
ValueError: line 1: five columns are wanted: bench, figure, better, ratio, reference
>>> parse("node node.ping lower 0 empty_call")
Traceback (most recent call last):
ValueError: line 1: the ratio 0 is not above 0
>>> parse(node + node)
Traceback (most recent call last):
ValueError: line 2: node.ping is stated twice
>>> print(restated("# A comment.\\n" + node + copy, {"node.ping": 1.234567}), end="")
# A comment.
node  node.ping     lower   1.235   empty call
copy  copy.in.2MiB  higher  0.9123  memcpy
>>> print(table([ping, copied]), end="")
| bench | figure | stated | red | reference |
|---|---|---|---|---|
| `node` | `node.ping` | 1.5 | above 2.14 | empty call |
| `copy` | `copy.in.2MiB` | 0.9123 | below 0.639 | memcpy |
>>> with_table("before\\n" + BEGIN + "old" + END + "after\\n", [ping]).splitlines()[-2:]
['<!-- end of the stated figures -->', 'after']
"""

import pathlib
import sys
from dataclasses import dataclass

REPO = pathlib.Path(__file__).resolve().parents[1]
FILE = REPO / "bench/figures.txt"
PAGE = REPO / "docs/BENCHMARKS.md"
LEAST = 0.7  # Share of what is stated that a figure must reach.
BEGIN = "<!-- stated figures: written by scripts/bench_figures.py from bench/figures.txt -->\n"
END = "<!-- end of the stated figures -->\n"


@dataclass(frozen=True)
class Stated:
    """One stated figure."""

    bench: str
    name: str
    lower: bool  # Whether a lower ratio is better.
    ratio: float  # kvtier's value to the reference's.
    reference: str

    def of_stated(self, measured: float) -> float:
        """Returns how much of what is stated `measured` reaches: 1 is as stated, and more is better."""
        if not self.lower:
            return measured / self.ratio
        return self.ratio / measured if measured > 0 else float("inf")


def parse(text: str) -> list[Stated]:
    """Returns the rows of bench/figures.txt. Errors: ValueError, naming the line."""
    rows: list[Stated] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.split(maxsplit=4)
        if len(cells) != 5:
            raise ValueError(f"line {number}: five columns are wanted: bench, figure, better, ratio, reference")
        bench, name, better, ratio, reference = cells
        if better not in ("higher", "lower"):
            raise ValueError(f"line {number}: '{better}' is neither higher nor lower")
        if not float(ratio) > 0:
            raise ValueError(f"line {number}: the ratio {ratio} is not above 0")
        if any(row.name == name for row in rows):
            raise ValueError(f"line {number}: {name} is stated twice")
        rows.append(Stated(bench, name, better == "lower", float(ratio), reference.strip()))
    return rows


def restated(text: str, ratios: dict[str, float]) -> str:
    """Returns the text of bench/figures.txt with these ratios by figure instead of its own, and columns aligned."""
    rows = parse(text)
    cells = [(row.bench, row.name, "lower" if row.lower else "higher", f"{ratios.get(row.name, row.ratio):.4g}")
             for row in rows]
    widths = [max(len(column) for column in columns) for columns in zip(*cells)]
    aligned = ["  ".join([*(cell.ljust(width) for cell, width in zip(row_cells, widths)), row.reference])
               for row_cells, row in zip(cells, rows)]
    lines = iter(aligned)
    return "".join(f"{line if line.startswith('#') or not line.strip() else next(lines)}\n"
                   for line in text.splitlines())


def table(rows: list[Stated]) -> str:
    """Returns the page's table."""
    lines = ["| bench | figure | stated | red | reference |", "|---|---|---|---|---|"]
    for row in rows:
        red = f"above {row.ratio / LEAST:.3g}" if row.lower else f"below {LEAST * row.ratio:.3g}"
        lines.append(f"| `{row.bench}` | `{row.name}` | {row.ratio:.4g} | {red} | {row.reference} |")
    return "".join(f"{line}\n" for line in lines)


def with_table(page: str, rows: list[Stated]) -> str:
    """Returns the page with the table of these rows between its two marks."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}{table(rows)}{END}{after}"


def write_page() -> None:
    """Writes the page's table again, from the file."""
    PAGE.write_text(with_table(PAGE.read_text(), parse(FILE.read_text())))


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    write_page()
