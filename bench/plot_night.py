"""Draws the hits and the waits of three tenants over one night, with shares and without.

    /usr/bin/python3 bench/plot_night.py NIGHT.json PLOT.png

NIGHT.json is what `scripts/bench tenants --night_json` writes (bench/tenants_night.py).
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # No display is needed.
from matplotlib import pyplot  # noqa: E402

SCHEMA = 1
MEAN_OVER_TURNS = 10
NIGHTS = {"control": ("the thread stays inside its share", "gray"), "shares": ("it grows, with shares", "tab:green"),
          "no_shares": ("it grows, without shares", "tab:red")}


def smooth(values: list[float]) -> list[float]:
    """Returns means over some turns, so that single requests do not hide the course."""
    return [sum(values[max(0, i - MEAN_OVER_TURNS + 1):i + 1]) / min(i + 1, MEAN_OVER_TURNS)
            for i in range(len(values))]


def draw(night: dict, path: Path) -> None:
    """Draws a column for each tenant: its hits above, its slowest requests below."""
    names = [tenant["name"] for tenant in night["nights"]["shares"]]
    figure, grid = pyplot.subplots(2, len(names), figsize=(4.6 * len(names), 6.4), sharex=True)
    for column, name in enumerate(names):
        above, below = grid[0][column], grid[1][column]
        for kind, (label, color) in NIGHTS.items():
            tenant = night["nights"][kind][column]
            tokens = [night["tokens_per_turn"] * (turn + 1) / 1000 for turn in range(len(tenant["asked"]))]
            ratios = [100 * hits / asked for hits, asked in zip(tenant["hits"], tenant["asked"], strict=True)]
            above.plot(tokens, smooth(ratios), label=label, color=color)
            below.plot(tokens, smooth([max(times) for times in tenant["milliseconds"]]), color=color)
        for axes in (above, below):
            axes.axvline(night["tokens_per_turn"] * night["wake_turn"] / 1000, color="black", linestyle=":")
            axes.grid(alpha=0.3)
            axes.set_ylim(bottom=0)
        above.set_title(name)
        below.set_xlabel("tokens of the thread, thousands")
    grid[0][0].set_ylabel("blocks found, %")
    grid[1][0].set_ylabel("slowest get of a turn, ms")
    grid[0][-1].legend(fontsize=8, loc="lower left")
    figure.suptitle("One conversation grows; the others wake at the dotted line")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Draws."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    night = json.loads(Path(sys.argv[1]).read_text())
    if night.get("schema") != SCHEMA:
        sys.exit(f"{sys.argv[1]}: schema {night.get('schema')}, and not {SCHEMA}")
    draw(night, Path(sys.argv[2]))


if __name__ == "__main__":
    main()
