"""Draws the hits and the waits of three tenants over the four nights of the bench.

    /usr/bin/python3 bench/plot_night.py NIGHT.json PLOT.png

NIGHT.json is what `scripts/bench tenants --night_json` writes (bench/tenants_night.py).
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # No display is needed.
from matplotlib import pyplot, ticker  # noqa: E402

SCHEMA = 2
MEAN_OVER_TURNS = 10
# How each night is drawn; the last one lies on top.
NIGHTS = {"no_shares": {"label": "it grows, without shares (one tenant)", "color": "tab:red"},
          "busy_control": {"label": "it stays inside its share, its worker as busy as where it grows",
                           "color": "tab:blue", "linestyle": "--"},
          "control": {"label": "control: it stays inside its share", "color": "black", "linestyle": "--"},
          "shares": {"label": "it grows, with shares", "color": "tab:green", "linewidth": 2}}


def smooth(values: list[float]) -> list[float]:
    """Returns means over some turns, so that single requests do not hide the course."""
    return [sum(values[max(0, i - MEAN_OVER_TURNS + 1):i + 1]) / min(i + 1, MEAN_OVER_TURNS)
            for i in range(len(values))]


def draw(night: dict, path: Path) -> None:
    """Draws a column for each tenant: its hits above, its slowest requests below."""
    names = [tenant["name"] for tenant in night["nights"]["shares"]]
    figure, grid = pyplot.subplots(2, len(names), figsize=(4.8 * len(names), 7.4), sharex=True)
    marks = {"share": night["share_tokens"], "wake": night["tokens_per_turn"] * night["wake_turn"],
             "measured": night["tokens_per_turn"] * night["measured_turn"]}
    for column, name in enumerate(names):
        above, below = grid[0][column], grid[1][column]
        for kind, style in NIGHTS.items():
            tenant = night["nights"][kind][column]
            tokens = [night["tokens_per_turn"] * (turn + 1) / 1000 for turn in range(len(tenant["asked"]))]
            ratios = [100 * hits / asked for hits, asked in zip(tenant["hits"], tenant["asked"], strict=True)]
            above.plot(tokens, smooth(ratios), **style)
            below.plot(tokens, smooth([max(times) for times in tenant["milliseconds"]]), **style)
        for axes in (above, below):
            for mark in marks.values():
                axes.axvline(mark / 1000, color="gray", linestyle=":")
            axes.grid(alpha=0.3)
        above.set_title(f"tenant {name}" + (" (the conversation that grows)" if column == 0 else ""))
        above.set_ylim(0, 104)
        below.set_yscale("log")
        below.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        below.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        below.yaxis.set_minor_formatter(ticker.NullFormatter())
        below.set_xlabel("time, as thousands of tokens that it grows to")
    grid[0][0].set_ylabel(f"blocks found, %, mean of {MEAN_OVER_TURNS} turns")
    grid[1][0].set_ylabel(f"slowest get of a turn, ms, mean of {MEAN_OVER_TURNS} turns")
    figure.suptitle("One conversation grows. Dotted lines: it has filled its tenant's share "
                    f"({marks['share'] / 1000:.0f}), the others wake ({marks['wake'] / 1000:.0f}), "
                    f"they are measured from here on ({marks['measured'] / 1000:.0f})")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=2, frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(path, dpi=110)


def main() -> None:
    """Draws the picture of the night that the arguments name."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    night = json.loads(Path(sys.argv[1]).read_text())
    if night.get("schema") != SCHEMA:
        sys.exit(f"{sys.argv[1]}: schema {night.get('schema')}, and not {SCHEMA}")
    draw(night, Path(sys.argv[2]))


if __name__ == "__main__":
    main()
