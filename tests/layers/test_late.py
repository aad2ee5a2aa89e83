"""Tests that a late test is repeated once, alone, and a wrong one never: scripts/suite.py and scripts/unittests.py."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).parents[2] / "scripts"
LATE = "[  LATE    ] x.cc:7: waited 20s in vain"
# Program of a test: counts its runs in a file named like it, and passes from the second on.
PROGRAM = """#!/bin/sh
echo run >>"$0.runs"
echo "[ RUN      ] A.b"
if [ "$(wc -l <"$0.runs")" -gt 1 ]; then
  echo "[       OK ] A.b (7 ms)"; echo "[  PASSED  ] 1 test."; exit 0
fi
printf '%b' '{}'
echo "[  FAILED  ] A.b (7 ms)"; echo "[  PASSED  ] 4 tests."; echo "[  FAILED  ] 1 test, listed below:"
exit 1
"""
LATE_FAILURE = f"{LATE}\\nx.cc:7: Failure\\nValue of: Await(...)\\n"
WRONG_FAILURE = LATE_FAILURE + "x.cc:9: Failure\\nExpected equality of these bytes\\n"


class SuiteTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def run_suite(self, failures):
        """Runs suite.py on one test for each failure; returns its status, what it printed, the counts, and how often
        each test ran."""
        source = self.root / "source"
        source.mkdir()
        lines = ["cmake_minimum_required(VERSION 3.25)", "project(late NONE)", "enable_testing()"]
        for name, failure in failures.items():
            (source / name).write_text(PROGRAM.replace("{}", failure))
            (source / name).chmod(0o755)
            lines += [f"add_test(NAME {name} COMMAND {source / name})",
                      f"set_tests_properties({name} PROPERTIES LABELS unit)"]
        (source / "CMakeLists.txt").write_text("\n".join(lines))
        subprocess.run(["cmake", "-S", source, "-B", self.root / "build/x"], check=True, capture_output=True)
        tally = self.root / "tally"
        done = subprocess.run([sys.executable, SCRIPTS / "suite.py", "x", "unit", "2", tally], cwd=self.root,
                              capture_output=True, text=True, check=False)
        counts = subprocess.run([sys.executable, SCRIPTS / "tally.py", tally, str(done.returncode)],
                                capture_output=True, text=True, check=True).stdout.split()
        runs = {name: len((source / f"{name}.runs").read_text().split()) for name in failures}
        return done.returncode, done.stdout, counts, runs

    def test_a_late_test_that_passes_alone_is_flaky_and_no_failure(self):
        status, said, counts, runs = self.run_suite({"late_test": LATE_FAILURE})
        self.assertEqual((status, runs), (0, {"late_test": 2}), said)
        self.assertIn("flaky: late_test was late (A.b), and passed when it ran alone", said)
        self.assertEqual(counts, ["5", "0", "0"])

    def test_a_wrong_byte_is_never_repeated(self):
        status, said, counts, runs = self.run_suite({"late_test": LATE_FAILURE, "wrong_test": WRONG_FAILURE})
        self.assertEqual(runs, {"late_test": 2, "wrong_test": 1})
        self.assertNotEqual(status, 0, said)
        self.assertEqual(counts, ["9", "1", "0"])


class UnittestsTest(unittest.TestCase):
    CASE = """import pathlib, unittest
class Case(unittest.TestCase):
    def test_it(self):
        runs = pathlib.Path(__file__ + ".runs")
        runs.write_text((runs.read_text() if runs.exists() else "") + "x")
        if len(runs.read_text()) == 1:
            raise ERROR
"""

    def run_unittests(self, error):
        """Runs unittests.py on a case that raises `error` at its first run; returns its status, what it printed, and
        how often the case ran."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "test_case.py"
            file.write_text(self.CASE.replace("ERROR", error))
            done = subprocess.run([sys.executable, SCRIPTS / "unittests.py", folder, sys.executable, "1"],
                                  capture_output=True, text=True, check=False)
            return done.returncode, done.stdout, len(pathlib.Path(f"{file}.runs").read_text())

    def test_only_a_time_out_is_repeated(self):
        status, said, runs = self.run_unittests("TimeoutError('no answer')")
        self.assertEqual((status, runs), (0, 2), said)
        self.assertIn("flaky: ", said)
        status, said, runs = self.run_unittests("AssertionError('other bytes')")
        self.assertEqual((status, runs), (1, 1), said)


if __name__ == "__main__":
    unittest.main()
