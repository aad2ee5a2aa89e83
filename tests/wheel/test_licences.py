"""Each library that is linked has its licence beside it, or there is no wheel."""

import importlib.util
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from kvtier import _kvtier

REPO = pathlib.Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("linked_licences",
                                               REPO / "cmake" / "linked_licences.py")
linked_licences = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(linked_licences)

# One line of each linker's map.
MOLD = "            0x25a0      27279    16         /usr/lib/x86_64-linux-gnu/libz.a(crc32.o):(.text)\n"
LD = "/usr/lib/x86_64-linux-gnu/libcares.a(ares_init.c.o)\n                              (ares_init)\n"
OURS = "            0x25a0      27279    16         core/libkvtier_core.a(clock.cc.o):(.text)\n"


class Licences(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.map = self.folder / "program.map"
        self.docs = self.folder / "docs"
        for package in ("zlib1g-dev", "libc-ares-dev"):
            (self.docs / package).mkdir(parents=True)
            (self.docs / package / "copyright").write_text(f"terms of {package}")
        owners = {"libz.a": "zlib1g-dev", "libcares.a": "libc-ares-dev"}
        self.enterContext(mock.patch.object(
            linked_licences, "_debian_package", lambda path: owners.get(path.name)))

    def collect(self, text):
        """Collects the licences of a program whose linker wrote this map."""
        self.map.write_text(text)
        parts = linked_licences.archives(text)
        linked_licences.collect(self.folder / "out", {"program": parts}, self.docs)

    def read(self, name):
        return (self.folder / "out" / name).read_text()

    def test_every_archive_of_others_brings_the_text_of_its_package(self):
        self.collect(OURS + MOLD + LD)
        self.assertEqual(self.read("zlib1g-dev.txt"), "terms of zlib1g-dev")
        self.assertEqual(self.read("libc-ares-dev.txt"), "terms of libc-ares-dev")
        self.assertEqual(self.read("LINKED"), "_kvtier headers pybind11.txt\n"
                         "program libcares.a libc-ares-dev.txt\nprogram libz.a zlib1g-dev.txt\n")

    def test_pybind11_is_in_no_archive_and_has_its_text(self):
        self.collect(MOLD)
        self.assertIn("Wenzel Jakob", self.read("pybind11.txt"))

    def test_an_archive_of_no_package_is_refused(self):
        with self.assertRaisesRegex(linked_licences.NoLicence, "/opt/libsecret.a"):
            self.collect(MOLD + "  0x1 1 1 /opt/libsecret.a(a.o):(.text)\n")

    def test_a_package_without_a_text_is_refused(self):
        (self.docs / "zlib1g-dev" / "copyright").write_text("")
        with self.assertRaisesRegex(linked_licences.NoLicence, "zlib1g-dev"):
            self.collect(MOLD)

    def test_shared_libraries_count_but_those_of_the_machine(self):
        names = [path.name for path in linked_licences.libraries(_kvtier.__file__)]
        self.assertIn("libprotobuf.so.32", names)
        self.assertFalse([name for name in names if name.startswith(("libc.", "libstdc", "ld-"))])

    def test_a_map_that_names_no_archive_is_refused(self):
        self.map.write_text(OURS)
        with self.assertRaisesRegex(linked_licences.NoLicence, "another format"):
            linked_licences.parts_of(self.folder / "program", self.map)

    def test_a_cuda_toolkit_of_no_package_has_its_text_above_its_archive(self):
        toolkit = self.folder / "cuda"
        archive = toolkit / "lib" / "libcudart_static.a"
        archive.parent.mkdir(parents=True)
        archive.write_text("")
        line = f"  0x1 1 1 {archive}(a.o):(.text)\n"
        with self.assertRaises(linked_licences.NoLicence):
            self.collect(line)
        (toolkit / "EULA.txt").write_text("terms of CUDA")
        self.collect(line)
        self.assertEqual(self.read("cuda.txt"), "terms of CUDA")

    def test_the_program_names_what_has_no_licence(self):
        self.map.write_text("  0x1 1 1 /opt/libsecret.a(a.o):(.text)\n")
        words = ["linked_licences", str(self.folder / "out"), _kvtier.__file__, str(self.map)]
        with mock.patch.object(sys, "argv", words), \
                mock.patch.object(linked_licences, "libraries", lambda file: []), \
                self.assertRaisesRegex(SystemExit, "linked_licences: /opt/libsecret.a: .*package"):
            linked_licences.main()


if __name__ == "__main__":
    unittest.main()
