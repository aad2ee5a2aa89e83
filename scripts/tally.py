"""Counts tests in the log of one part of scripts/test: prints "PASSED FAILED SKIPPED".

    tally.py LOG EXIT_STATUS

LOG is what GoogleTest, unittest or any command printed, or ctest's LastTest.log, in which each entry
is counted by itself: by its own tests if it told their number, else as one. ctest's verdict on an
entry counts more than what the entry printed. A command that fails without a failed test, and one
that succeeds without a test, count as one.

>>> count("[  PASSED  ] 3 tests.\\n[  SKIPPED ] 2 tests, listed below:\\n"
...       "[  FAILED  ] 1 test, listed below:\\n", 1)
(3, 1, 2)
>>> count("Ran 9 tests in 0.1s\\n\\nFAILED (failures=1, errors=2, skipped=1)\\n", 1)
(5, 3, 1)
>>> count("Ran 4 tests in 0.1s\\n\\nOK (skipped=1)\\n", 0)
(3, 0, 1)
>>> count("error: no compiler\\n", 2)
(0, 1, 0)
>>> count("every file is formatted\\n", 0)
(1, 0, 0)
>>> entry = "1/1 Testing: a_test\\nOutput:\\n%s\\n<end of output>\\nTest %s.\\n"
>>> count(entry % ("[  PASSED  ] 3 tests.", "Passed"), 0)
(3, 0, 0)
>>> count(entry % ("no numbers", "Passed") + entry % ("[  PASSED  ] 4 tests.", "Passed"), 0)
(5, 0, 0)
>>> count(entry % ("[  FAILED  ] 1 test, listed below:", "Failed"), 8)
(0, 1, 0)
>>> count(entry % ("[  PASSED  ] 3 tests.\\nit crashed at exit", "Failed"), 8)
(3, 1, 0)
>>> count(entry % ("[  FAILED  ] 1 test, listed below:\\nas it should", "Passed"), 0)
(1, 0, 0)
>>> count(entry % ("[  PASSED  ] 3 tests.", "Passed"), 8)
(3, 1, 0)
>>> entry = "1/1 Testing: a_test\\nOutput:\\nwhat it should say\\nTest Pass Reason:\\nRequired ...\\n"
>>> count(entry, 0)
(1, 0, 0)
"""

import re
import sys

GTEST = re.compile(r"^\[  (PASSED|FAILED|SKIPPED) ? ?\] (\d+) tests?[.,]", re.M)
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\n(?:OK|FAILED)(?: \((.*)\))?$", re.M)
# The second form ends an entry that passes by its output and not by its exit status.
WELL = re.compile(r"^(Test Passed\.|Test Pass Reason:)$", re.M)
CTEST_ENTRY = re.compile(r"^\d+/\d+ Testing: ", re.M)


def told(text):
    """Returns the results of the tests in `text`, as (passed, failed, skipped)."""
    total = {"PASSED": 0, "FAILED": 0, "SKIPPED": 0}
    for outcome, number in GTEST.findall(text):
        total[outcome] += int(number)
    for ran, notes in UNITTEST.findall(text):
        note = {name: int(number) for name, number in re.findall(r"(?:^|, )([a-z ]+)=(\d+)", notes)}
        failed = note.get("failures", 0) + note.get("errors", 0)
        total["FAILED"] += failed
        total["SKIPPED"] += note.get("skipped", 0)
        # A failed subtest counts without having been run as a test.
        total["PASSED"] += max(0, int(ran) - failed - note.get("skipped", 0))
    return total["PASSED"], total["FAILED"], total["SKIPPED"]


def judged(text, well):
    """Returns the results in `text`, made to agree with the verdict on the whole: at least one test passed or was
    skipped if it went well, at least one failed if not, and none failed if it went well."""
    passed, failed, skipped = told(text)
    if not well:
        return passed, max(failed, 1), skipped
    return (passed if passed + skipped else 1), 0, skipped


def count(log, status):
    """Returns the results in `log` of a part that ended with `status`, as (passed, failed, skipped)."""
    entries = CTEST_ENTRY.split(log)[1:]
    if not entries:
        return judged(log, status == 0)
    counts = [judged(entry, WELL.search(entry)) for entry in entries]
    passed, failed, skipped = (sum(column) for column in zip(*counts))
    return passed, failed if status == 0 else max(failed, 1), skipped


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8", errors="replace") as log_file:
        print(*count(log_file.read(), int(sys.argv[2])))
