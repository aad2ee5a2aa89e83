"""Counts tests in the log of one part of scripts/test: prints "PASSED FAILED SKIPPED".

    tally.py LOG EXIT_STATUS

It reads what GoogleTest and unittest print at their ends, and the list of failures that closes ctest. A failed
ctest entry without a count of its own (a crash, a time-out) is one failure; a part that exits with
an error and shows none is one failure, too; one that ends well without a count is one pass.

>>> count("[  PASSED  ] 3 tests.\\n[  PASSED  ] 1 test.\\n", 0)
(4, 0, 0)
>>> count("[  PASSED  ] 3 tests.\\n[  SKIPPED ] 2 tests, listed below:\\n"
...       "[  FAILED  ] 1 test, listed below:\\n", 8)
(3, 1, 2)
>>> count("[  PASSED  ] 3 tests.\\n\\t  2 - block_key_test (SEGFAULT)\\n", 8)
(3, 1, 0)
>>> count("[  FAILED  ] 1 test, listed below:\\n\\t  1 - block_key_test (Failed)\\n", 8)
(0, 1, 0)
>>> count("Ran 9 tests in 0.1s\\n\\nFAILED (failures=1, errors=2, skipped=1)\\n", 1)
(5, 3, 1)
>>> count("Ran 4 tests in 0.1s\\n\\nOK (skipped=1)\\n", 0)
(3, 0, 1)
>>> count("error: no compiler\\n", 2)
(0, 1, 0)
>>> count("every file is formatted\\n", 0)
(1, 0, 0)
"""

import re
import sys

GTEST = re.compile(r"^\[  (PASSED|FAILED|SKIPPED) ? ?\] (\d+) tests?[.,]", re.M)
# In ctest's closing list; "Failed" entries have told their count themselves.
CTEST_WITHOUT_COUNT = re.compile(r"^\s+\d+ - \S+ \((?!Failed|Skipped|Disabled)[^)]+\)", re.M)
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\n(?:OK|FAILED)(?: \((.*)\))?$", re.M)


def count(log, status):
    """What `log` says, as (passed, failed, skipped)."""
    total = {"PASSED": 0, "FAILED": 0, "SKIPPED": 0}
    for outcome, number in GTEST.findall(log):
        total[outcome] += int(number)
    total["FAILED"] += len(CTEST_WITHOUT_COUNT.findall(log))
    for ran, notes in UNITTEST.findall(log):
        note = {name: int(number) for name, number in re.findall(r"(?:^|, )([a-z ]+)=(\d+)", notes)}
        failed = note.get("failures", 0) + note.get("errors", 0)
        total["FAILED"] += failed
        total["SKIPPED"] += note.get("skipped", 0)
        # A failed subtest counts without having been run as a test.
        total["PASSED"] += max(0, int(ran) - failed - note.get("skipped", 0))
    if status != 0 and total["FAILED"] == 0:
        total["FAILED"] = 1
    if status == 0 and not any(total.values()):
        total["PASSED"] = 1
    return total["PASSED"], total["FAILED"], total["SKIPPED"]


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8", errors="replace") as log_file:
        print(*count(log_file.read(), int(sys.argv[2])))
