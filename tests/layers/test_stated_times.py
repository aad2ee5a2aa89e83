"""Times that pages state are those of the constants that the simulator holds the agent to."""

import pathlib
import re
import unittest

REPO = pathlib.Path(__file__).resolve().parents[2]


def seconds(path, name):
    """Returns a duration of a header: one in seconds, or a sum of durations of agent/limits.h."""
    value = re.search(rf"absl::Duration {name} =([^;]*);", (REPO / path).read_text())[1]
    plain = re.fullmatch(r"\s*absl::Seconds\((\d+)\)\s*", value)
    if plain:
        return int(plain[1])
    return sum(seconds("agent/limits.h", part.strip()) for part in value.split("+"))


def page(path):
    return " ".join((REPO / path).read_text().split())


class StatedTimes(unittest.TestCase):
    def test_the_time_until_lent_memory_is_back(self):
        free = seconds("tests/sim/guarantee_checker.h", "kTakeBackTime")
        held = seconds("tests/sim/guarantee_checker.h", "kTakeBackTimeHeld")
        stays = seconds("agent/limits.h", "kSlabLeaveTimeout")
        leased = seconds("agent/limits.h", "kLeaseDuration") + seconds("agent/limits.h", "kLeaseGrace")
        self.assertEqual(held, stays + leased)
        self.assertEqual(free, leased)
        operating = page("docs/OPERATING.md")
        self.assertIn(f"comes back within {free} s when its owner fills the rest", operating)
        self.assertIn(f"and within {held} s where a worker holds a slab", operating)
        self.assertIn(f"workers held slabs for {stays} s", operating)
        tenants = page("docs/design/tenants.md")
        for told in (f"| {free} s, and mostly one. A slab takes", f"| {leased} s, when its current leases have ended",
                     f"| {held} s. The slab stays after {stays} s (`kSlabLeaveTimeout`)"):
            self.assertIn(told, tenants)
        self.assertIn(f"has it within {free} s, or within {held} s where slabs are held", page("docs/TESTING.md"))
        self.assertIn(f"up to {stays} s (`kSlabLeaveTimeout`)", page("docs/design/host.md"))


if __name__ == "__main__":
    unittest.main()
