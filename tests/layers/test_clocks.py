"""Time is measured by the monotonic clock alone: the date, which operators and NTP set, ends no call and no wait."""

import re
import unittest

import tree

# Files that tell people a date or how long they have waited.
DATED = {"agent/disk/fsck_main.cc", "cli/cli_main.cc", "tier_disk/directory/open_disk.cc"}
PRODUCT = ("agent", "cli", "client", "coordinator", "core", "kernels", "proto", "tier_disk", "tier_gpu", "tier_host")
WALL_CLOCK = re.compile(r"\babsl::Now\(\)|\bCLOCK_REALTIME\b|\btime\(nullptr\)")


class Clocks(unittest.TestCase):
    """Looks for the wall clock in the product's sources."""

    def test_the_date_decides_nothing(self):
        found = {name for name, text in tree.read().items()
                 if tree.is_cxx(name) and tree.folder_of(name) in PRODUCT and WALL_CLOCK.search(tree.code(text))}
        self.assertEqual(found, DATED)


if __name__ == "__main__":
    unittest.main()
