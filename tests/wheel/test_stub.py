"""The stub of the extension says what the extension has, and the package is typed throughout."""

import pathlib
import subprocess
import sys
import unittest

import stub
from kvtier import _kvtier

REPO = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = REPO / "client" / "python" / "kvtier"
STUB = (PACKAGE / "_kvtier.pyi").read_text(encoding="utf-8")


def differences(said: stub.Facts, had: stub.Facts) -> list[str]:
    """Returns the names that only one of the two has, or that they have in different forms."""
    names = sorted(said.keys() | had.keys())
    absent = "absent"
    return [f"{name}: stub {said.get(name, absent)}, extension {had.get(name, absent)}"
            for name in names if said.get(name, absent) != had.get(name, absent)]


class Stub(unittest.TestCase):
    def test_it_has_the_names_and_arguments_of_the_extension(self):
        had = stub.of_module(_kvtier)
        self.assertGreater(len(had), 80)
        self.assertEqual(differences(stub.of_stub(STUB), had), [])

    def test_a_name_or_an_argument_too_many_is_seen(self):
        had = stub.of_module(_kvtier)
        for right, wrong in (("def prove(self, index: int, /)", "def prove(self, /)"),
                             ("def await_endings() ->", "def await_all() ->"),
                             ("    any_length: bool\n", ""),
                             ("copy: bool | None = None", "copies: bool | None = None")):
            with self.subTest(wrong):
                self.assertIn(right, STUB)
                self.assertTrue(differences(stub.of_stub(STUB.replace(right, wrong)), had))


class Types(unittest.TestCase):
    def test_mypy_finds_nothing_in_the_package(self):
        found = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.11", "--cache-dir",
             REPO / "build" / "mypy", PACKAGE], capture_output=True, text=True)
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)


if __name__ == "__main__":
    unittest.main()
