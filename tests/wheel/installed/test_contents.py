"""Contents of a wheel, and its needs of the machine."""

import importlib.metadata
import os
import pathlib
import re
import sys
import unittest

REPO = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPO / "scripts"))
import hide_symbols  # noqa: E402
import wheel_facts  # noqa: E402

GLIBC = (2, 35)
# Libraries that every machine has, by manylinux's list; everything else is in the wheel.
MACHINE = {"ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6",
           "libpthread.so.0", "librt.so.1", "libstdc++.so.6", "libz.so.1"}
# Libraries that every wheel of ours must contain, so that LINKED cannot be too short by mistake.
INSIDE = ("libabsl", "libgrpc", "libprotobuf", "librocksdb", "libssl", "liburing", "pybind11")
MOST_BYTES = 20 * 2**20
HASHED = re.compile(r"-[0-9a-f]{8}(?=\.so)")  # Hash in the name of each bundled library.


class Contents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.wheel = pathlib.Path(os.environ["KVTIER_WHEEL"])
        cls.folder = cls.enterClassContext(wheel_facts.unpacked(cls.wheel))
        elves = {path.relative_to(cls.folder): wheel_facts.of_elf(path)
                 for path in wheel_facts.elf_paths(cls.folder)}
        cls.libraries = [elf for path, elf in elves.items() if path.parts[0] == "kvtier.libs"]
        cls.ours = [elf for path, elf in elves.items() if path.parts[0] != "kvtier.libs"]
        cls.machine = hide_symbols.of_machine(next(iter(cls.folder.glob("kvtier/_kvtier.*.so"))))

    def test_it_is_the_extension_two_programs_and_bundled_libraries(self):
        self.assertEqual(sorted(elf.name.split(".")[0] for elf in self.ours),
                         ["_kvtier", "kvtier", "kvtier-agent"])
        self.assertEqual([elf.name for elf in self.libraries if not HASHED.search(elf.name)], [])
        self.assertLess(self.wheel.stat().st_size, MOST_BYTES)

    def test_no_symbol_is_newer_than_glibc_2_35(self):
        for elf in self.ours + self.libraries:
            with self.subTest(elf.name):
                self.assertLessEqual(wheel_facts.numbers(elf.highest("GLIBC_")), GLIBC)
                self.assertNotIn("GLIBC_ABI_DT_RELR", elf.versions)  # This version needs glibc 2.36.
        self.assertTrue(any(elf.highest("GLIBC_") != "-" for elf in self.ours))
        self.assertIn("manylinux_2_35", self.wheel.name)

    def test_it_loads_from_the_machine_what_every_machine_has_and_no_more(self):
        own = {elf.name for elf in self.libraries}
        for elf in self.ours + self.libraries:
            self.assertEqual(sorted(set(elf.needed) - MACHINE - own), [], elf.name)
            self.assertTrue(all(place.startswith("$ORIGIN") for place in elf.searched), elf.name)

    def test_the_extension_exports_what_python_looks_for_and_nothing_else(self):
        extension = next(elf for elf in self.ours if elf.name.startswith("_kvtier."))
        self.assertEqual(extension.exported, ["PyInit__kvtier"])

    def test_the_rest_exports_nothing_under_a_name_that_others_have(self):
        for elf in self.ours + self.libraries:
            shown = [name for name in set(elf.exported) - self.machine - {"PyInit__kvtier"}
                     if not name.startswith(hide_symbols.PREFIX)]
            # A library's own versions are symbols without a value: OPENSSL_3.0.0.
            self.assertEqual([name for name in shown if name not in elf.offered], [], elf.name)

    def test_everything_linked_has_its_licence(self):
        licences = next(self.folder.glob("*.dist-info/licenses"))
        rows = [line.split() for line in (licences / "LINKED").read_text().splitlines()]
        for file, part, text in rows:
            with self.subTest(f"{file} {part}"):
                self.assertGreater(len((licences / text).read_text()), 500)
        self.assertEqual({row[0] for row in rows}, {"_kvtier", "kvtier", "kvtier-agent"})
        told = " ".join(row[2] for row in rows)
        self.assertEqual([name for name in INSIDE if name not in told], [])
        parts = {row[1] for row in rows}
        for elf in self.libraries:
            name = HASHED.sub("", elf.name)
            self.assertTrue(any(name.startswith(part) for part in parts), name)
        self.assertIn("Apache License", (licences / "LICENSE").read_text())

    def test_metadata_names_version_python_and_licence(self):
        told = importlib.metadata.metadata("kvtier")
        self.assertEqual(told["Requires-Python"], ">=3.11")
        self.assertEqual(told["License-Expression"], "Apache-2.0")


if __name__ == "__main__":
    unittest.main()
