"""Report of a run: one test for each scenario, a readable table, and the counts."""

import contextlib
import subprocess
import time
import urllib.error
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

# Errors of a scenario that meets a dead engine or agent; anything else is a mistake in these files.
_EXPECTED_ERRORS = (OSError, RuntimeError, TimeoutError, subprocess.SubprocessError, urllib.error.URLError)


@dataclass
class Seen:
    """Observations of one scenario."""

    name: str
    facts: dict[str, object] = field(default_factory=dict)  # Facts for the table, in the order in which they came.
    complaints: list[str] = field(default_factory=list)
    seconds: float = 0.0
    texts: int = 0  # Texts that were compared.
    texts_equal: int = 0

    def expect(self, holds: bool, complaint: str) -> None:
        """Notes a complaint if something does not hold."""
        if not holds:
            self.complaints.append(complaint)

    def compared(self, texts: int, wrong: Sequence[str]) -> None:
        """Counts compared texts; `wrong` has a complaint for each that differs."""
        self.texts += texts
        self.texts_equal += texts - len(wrong)
        self.complaints.extend(wrong)

    def note(self, **facts: object) -> None:
        """Adds facts for the table."""
        self.facts.update(facts)

    def row(self) -> str:
        """Returns the scenario's row of the table."""
        texts = f"{self.texts_equal} of {self.texts}" if self.texts else "-"
        return _row("FAILED" if self.complaints else "passed", self.name, texts, f"{self.seconds:.1f}")

    def story(self) -> str:
        """Returns what was seen, and what is wrong with it."""
        facts = "; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in self.facts.items())
        return "\n".join([f"    {facts}", *(f"    WRONG: {complaint}" for complaint in self.complaints)])


def _row(result: str, name: str, texts: str, seconds: str) -> str:
    return f"{result:7}  {name:56}  {texts:>11}  {seconds:>7}"


class Report:
    """The scenarios of a run, each of which must be seen exactly once."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._seen: dict[str, Seen] = {}
        self._began = time.monotonic()

    @contextlib.contextmanager
    def scenario(self, name: str) -> Iterator[Seen]:
        """Runs one scenario. A dead engine or agent fails it, and the run goes on."""
        if name not in self._names or name in self._seen:
            raise ValueError(f"{name!r} is no scenario of this run, or was seen before")
        seen = self._seen[name] = Seen(name)
        began = time.monotonic()
        try:
            yield seen
        except _EXPECTED_ERRORS as error:
            seen.complaints.append(f"{type(error).__name__}: {error}")
        seen.seconds = time.monotonic() - began
        print(f"{seen.row()}\n{seen.story()}", flush=True)

    def finish(self) -> int:
        """Prints the table and the counts. Returns the exit code; a scenario that was not reached has failed."""
        print("\n" + _row("result", "scenario", "texts equal", "seconds"))
        for name in self._names:
            print(self._seen[name].row() if name in self._seen else _row("FAILED", name, "not run", "-"))
        passed = sum(not seen.complaints for seen in self._seen.values())
        failed = len(self._names) - passed
        print(f"\n{(time.monotonic() - self._began) / 60:.1f} minutes\nfigure vllm.wrong {failed}")
        print(f"{passed} passed, {failed} failed, 0 skipped")
        return 1 if failed else 0
