"""The connector's counters, in the form of the engine's logger and of Prometheus."""

from collections.abc import Mapping

# Descriptions of the counters, by name.
COUNTERS: dict[str, str] = {
    "loaded_blocks": "Blocks that were loaded and proven, of all ranks and KV groups",
    "loaded_bytes": "Bytes of these blocks",
    "load_failed_blocks": "Blocks that were to be loaded and did not come; the engine computes them",
    "load_refused_blocks": "Those of them for which there was no room in the queue of copies",
    "saved_blocks": "Blocks that were saved, or were there already",
    "saved_bytes": "Bytes of these blocks",
    "unsaved_blocks": "Blocks that were to be saved and were not: no room, no agent, another worker's",
    "save_refused_blocks": "Those of them for which there was no room in the queue of copies",
    "given_up_blocks": "Blocks whose copies were given up for a step that could not wait any longer",
    "preemption_waits": "Steps that waited for copies out of blocks that they were to overwrite",
    "offered_tokens": "Tokens that the scheduler was told could be loaded",
    "deferred_looks": "Answers 'ask again', while other nodes were asked",
    "late_looks": "Requests for which that took longer than computing would",
    "failed_loads": "Requests with a block that did not come",
    "unstored_requests": "Requests that asked not to be stored",
    "advised_requests": "Requests of whose end the agent was told",
    "resets": "Resets of the cache, each of which begins a new epoch",
}

# Descriptions of the gauges, by name. The last value holds; values are not summed.
GAUGES: dict[str, str] = {
    "recompute_tokens_per_s": "Tokens that the engine prefills in a second, as measured or configured; bounds every wait",
}


class Counts:
    """Counters, and gauges that were set, since they were last taken. One thread uses them."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, name: str, amount: int = 1) -> None:
        """Adds to a counter of COUNTERS."""
        if amount:
            self._counts[name] = self._counts.get(name, 0) + amount

    def set(self, name: str, value: float) -> None:
        """Sets a gauge of GAUGES."""
        self._counts[name] = round(value)

    def take(self) -> dict[str, int]:
        """Returns the counts since the last take; {}: nothing was counted."""
        taken, self._counts = self._counts, {}
        return taken


def sum_of(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """Returns the sum of two takes, name by name; for a gauge, the second's value if it has one."""
    total = {name: first.get(name, 0) + second.get(name, 0) for name in COUNTERS if name in first or name in second}
    total.update({name: take[name] for name in GAUGES for take in (first, second) if name in take})
    return total
