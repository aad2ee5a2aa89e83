"""Draws the hits of one tier over its capacity, one panel for each trace.

    /usr/bin/python3 bench/plot_policy.py SWEEPS.json PLOT.png

SWEEPS.json is what `scripts/bench policy --json` writes (bench/policy/sweep_report.h).
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # No display is needed.
from matplotlib import pyplot  # noqa: E402

SCHEMA = 1
MOST_COLUMNS = 3
PANEL_INCHES = (4.6, 3.8)
LEGEND_INCHES = 0.7  # Below all panels.
OWN_POLICY = "learnt"
BOUND = "min"
LABELS = {"learnt": "kvtier, learnt", "hinted": "kvtier, with hints", "lru": "LRU", "fifo": "FIFO",
          "s3_fifo": "S3-FIFO", "sieve": "SIEVE", "arc": "ARC", "w_tiny_lfu": "W-TinyLFU", "min": "MIN (offline bound)"}
COLORS = {"learnt": "tab:red", "hinted": "tab:orange", "lru": "tab:blue", "fifo": "tab:gray", "s3_fifo": "tab:green",
          "sieve": "tab:olive", "arc": "tab:purple", "w_tiny_lfu": "tab:brown", "min": "black"}


def line_style(policy: str) -> dict:
    """Returns how the policy's line looks: kvtier's is the widest, the bound is dashed."""
    style = {"label": LABELS[policy], "color": COLORS[policy], "marker": ".", "linewidth": 1.2}
    if policy == OWN_POLICY:
        style.update(linewidth=2.6, zorder=3)
    if policy == BOUND:
        style.update(linestyle="--", zorder=4)
    return style


def draw_panel(axes, trace: dict) -> None:
    """Draws the hits of every policy on one trace."""
    rows = sorted(trace["one_tier"], key=lambda row: row["capacity_percent"])
    capacities = [row["capacity_percent"] for row in rows]
    for policy in rows[0]["policies"]:
        axes.plot(capacities, [row["policies"][policy]["hit_percent"] for row in rows], **line_style(policy))
    axes.set_xscale("log")
    axes.set_xticks(capacities, [f"{capacity:g}" for capacity in capacities])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.set_title(f"{trace['name']}\n{trace['requests']:,} requests, {trace['blocks']:,} blocks", fontsize=10)
    axes.set_xlabel("capacity, % of the trace's blocks")
    axes.set_ylabel("hits, % of prompt tokens")


def draw(traces: list, path: Path) -> None:
    """Draws all traces into one picture."""
    columns = min(len(traces), MOST_COLUMNS)
    rows = -(-len(traces) // columns)
    height = PANEL_INCHES[1] * rows + LEGEND_INCHES
    figure, grid = pyplot.subplots(rows, columns, squeeze=False, figsize=(PANEL_INCHES[0] * columns, height))
    panels = list(grid.flat)
    for panel, trace in zip(panels, traces):
        draw_panel(panel, trace)
    for panel in panels[len(traces):]:
        panel.remove()
    # A trace without hints has no line for them.
    lines = {label: line for panel in panels[:len(traces)] for line, label in zip(*panel.get_legend_handles_labels())}
    figure.legend(lines.values(), lines.keys(), loc="lower center", ncols=2 if columns == 1 else 4, fontsize=9)
    figure.tight_layout(rect=(0, LEGEND_INCHES / height, 1, 1))
    figure.savefig(path, dpi=120)


def main() -> None:
    source, target = (Path(argument) for argument in sys.argv[1:])
    sweeps = json.loads(source.read_text())
    if sweeps["schema"] != SCHEMA:
        sys.exit(f"{source}: schema {sweeps['schema']}, this draws schema {SCHEMA}")
    draw(sweeps["traces"], target)


main()
