"""An interpreter that is too old is told so."""

import os
import pathlib
import subprocess
import unittest

REPO = pathlib.Path(__file__).resolve().parents[3]
OLD = os.environ.get("KVTIER_OLD_PYTHON", "")


@unittest.skipUnless(OLD, "no Python below 3.11 is at hand")
class Refusal(unittest.TestCase):
    def refused(self, *command):
        ended = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                               timeout=300)
        self.assertNotEqual(ended.returncode, 0)
        return ended.stderr

    def test_pip_names_the_version_that_it_takes(self):
        said = self.refused(OLD, "-m", "pip", "install", "--dry-run", "--no-deps", REPO)
        self.assertIn("'kvtier' requires a different Python: 3.", said)
        self.assertIn("not in '>=3.11'", said)

    def test_pip_does_not_take_the_wheel_of_another_version(self):
        said = self.refused(OLD, "-m", "pip", "install", "--dry-run", "--no-deps",
                            os.environ["KVTIER_WHEEL"])
        self.assertIn("is not a supported wheel on this platform", said)

    def test_the_script_that_makes_wheels_names_it_too(self):
        said = self.refused(REPO / "scripts" / "wheel", OLD)
        self.assertRegex(said, r"is Python 3\.\d+; kvtier needs 3\.11 or later")


if __name__ == "__main__":
    unittest.main()
