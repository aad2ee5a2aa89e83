"""Report: the answers of each scenario beside those of recomputation, as a table and as figures."""

import statistics
from dataclasses import dataclass, field

_COLUMNS = (("scenario", "<"), ("asked", ">"), ("tokens reused", ">"), ("moved", ">"),
            ("first token", ">"), ("speed-up", ">"), ("verified", ">"), ("wrong", ">"),
            ("output equal", ">"))


@dataclass
class Scenario:
    """Some questions answered in one way, each beside the recomputed answer to the same one."""

    name: str      # Its name in the table.
    figure: str    # Its name in the line `figure demo.<figure>.speedup`; empty: there is no such line.
    answers: list = field(default_factory=list)
    baselines: list = field(default_factory=list)

    def add(self, answer, baseline):
        self.answers.append(answer)
        self.baselines.append(baseline)

    def first_token_s(self):
        return statistics.median(answer["ttft_s"] for answer in self.answers)

    def speedup(self):
        recomputed = statistics.median(baseline["ttft_s"] for baseline in self.baselines)
        return recomputed / self.first_token_s()

    def equal(self):
        return sum(answer["output_tokens"] == baseline["output_tokens"]
                   for answer, baseline in zip(self.answers, self.baselines))

    def total(self, name):
        return sum(answer[name] for answer in self.answers)

    def cells(self):
        count = len(self.answers)
        reused = statistics.median(answer["tokens_reused"] for answer in self.answers)
        prompt = statistics.median(answer["prompt_tokens"] for answer in self.answers)
        return (self.name, str(count), f"{reused:.0f} of {prompt:.0f}",
                f"{self.total('bytes_moved') / count / 2**20:.1f} MiB",
                f"{1000 * self.first_token_s():.0f} ms", f"{self.speedup():.1f}x",
                str(self.total("blocks_verified")), str(self.total("wrong_blocks")),
                f"{self.equal()} of {count}")


def table(scenarios):
    """Returns the table as text: medians per question, sums of blocks."""
    rows = [tuple(name for name, _ in _COLUMNS)] + [scenario.cells() for scenario in scenarios]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    lines = ["  ".join(f"{cell:{align}{width}}" for cell, width, (_, align)
                       in zip(row, widths, _COLUMNS)) for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def figures(scenarios):
    """Returns lines for scripts to read."""
    lines = [f"figure demo.{scenario.figure}.speedup {scenario.speedup():.2f}"
             for scenario in scenarios if scenario.figure]
    wrong = sum(scenario.total("wrong_blocks") for scenario in scenarios)
    asked = sum(len(scenario.answers) for scenario in scenarios)
    equal = sum(scenario.equal() for scenario in scenarios)
    return "\n".join([*lines, f"figure demo.wrong_blocks {wrong}",
                      f"figure demo.outputs_equal {equal} of {asked}"])


def holds(scenarios):
    """Returns whether no block was wrong and every output equals recomputation."""
    return all(scenario.total("wrong_blocks") == 0 and scenario.equal() == len(scenario.answers)
               for scenario in scenarios)
