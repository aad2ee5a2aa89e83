"""Observations that ObservedConnector wrote in all processes, and whether loaded blocks have bytes that were saved."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Window:
    """Lines of one engine from a moment on."""

    folder: Path
    since: float  # Time by the monotonic clock, which all processes of a machine share.

    @classmethod
    def from_now(cls, folder: Path) -> "Window":
        """Returns the window that begins now."""
        return cls(folder, time.monotonic())

    def lines(self, kind: str) -> list[dict]:
        """Returns the lines of `kind`, such as "load"."""
        return [line for line in read_lines(self.folder) if line["kind"] == kind and line["at"] >= self.since]

    def loaded_keys(self) -> set[str]:
        """Returns the keys of the blocks that were loaded."""
        return {line["key"] for line in self.lines("load")}

    def longest_call_s(self) -> float:
        """Returns the seconds of the longest call of the connector, 0 if none took 20 ms."""
        return max((line["seconds"] for line in self.lines("call")), default=0.0)


@dataclass(frozen=True)
class Comparison:
    """Loaded blocks beside saved ones."""

    compared: int
    variants: int  # Keys whose block was computed with different bytes: sums of floats depend on the batch.
    wrong: list[dict]  # Lines of blocks with bytes that nobody had saved under the key.


def read_lines(folder: Path) -> list[dict]:
    """Returns the lines of all processes below `folder`, but no last line that a killed process left unfinished."""
    lines = []
    for file in sorted(folder.rglob("*.jsonl")):
        for text in file.read_text(encoding="utf-8").splitlines(keepends=True):
            if text.endswith("\n"):
                lines.append(json.loads(text))
    return lines


def compare(lines: Iterable[dict]) -> Comparison:
    """Compares each loaded block with those that were saved before it under its space and key, by any process."""
    saved: dict[tuple[str, str], list[dict]] = {}
    loads = []
    for line in lines:
        if line["kind"] == "save":
            saved.setdefault((line["space"], line["key"]), []).append(line)
        elif line["kind"] == "load":
            loads.append(line)
    wrong = [load for load in loads
             if not any(save["digest"] == load["digest"] and save["at"] <= load["at"]
                        for save in saved.get((load["space"], load["key"]), ()))]
    variants = sum(len({save["digest"] for save in saves}) > 1 for saves in saved.values())
    return Comparison(len(loads), variants, wrong)
