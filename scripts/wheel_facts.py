"""Facts about wheels: sizes, and the libraries and symbols that their ELF files need.

    wheel_facts.py WHEEL...    prints a line for each
"""

import contextlib
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Elf:
    """One program or library, as its dynamic section describes it."""

    name: str
    needed: list[str]  # Libraries that it needs from the loader.
    searched: list[str]  # Folders where the loader looks for them first.
    exported: list[str]  # Symbols that other libraries in the process can find.
    offered: list[str]  # Versions of the exported symbols, which are exported, too: "OPENSSL_3.0.0".
    versions: list[str]  # Versions that the needed libraries must have: "GLIBC_2.34".

    def highest(self, prefix: str) -> str:
        """Returns the highest version with this prefix, as "2.34", or "-" if there is none."""
        found = [v.removeprefix(prefix) for v in self.versions if re.match(rf"{prefix}\d", v)]
        return max(found, key=numbers, default="-")


def numbers(version: str) -> tuple[int, ...]:
    """Returns a version in a form that compares: (2, 34) of "2.34", () of "-"."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def of_elf(path: pathlib.Path) -> Elf:
    """Reads one file with objdump."""
    headers = _said("objdump", "--private-headers", path)
    symbols = _said("objdump", "--dynamic-syms", path)
    exported = [line.split()[-1] for line in symbols.splitlines()
                if re.match(r"[0-9a-f]{16} [gwu]", line) and "*UND*" not in line]
    return Elf(path.name, re.findall(r"^ +NEEDED +(\S+)", headers, re.M),
               re.findall(r"^ +(?:RPATH|RUNPATH) +(\S+)", headers, re.M), exported,
               re.findall(r"^\d+ 0x[0-9a-f]+ 0x[0-9a-f]+ (\S+)", headers, re.M),
               re.findall(r"^ +0x[0-9a-f]+ 0x[0-9a-f]+ \d+ (\S+)", headers, re.M))


def _said(*command: str | pathlib.Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def unpacked(wheel: pathlib.Path) -> Iterator[pathlib.Path]:
    """Unpacks the files of a wheel into a temporary folder. A context manager."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        yield pathlib.Path(folder)


def elf_paths(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the ELF files below a folder."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    found.append(path)
    return found


def elves(folder: pathlib.Path) -> list[Elf]:
    """Reads the ELF files below a folder."""
    return [of_elf(path) for path in elf_paths(folder)]


def main() -> None:
    print(f"{'wheel':<54} {'MiB':>5} {'inside':>6}  {'glibc':<6} {'libstdc++':<9}  CUDA")
    for name in sys.argv[1:]:
        wheel = pathlib.Path(name)
        with unpacked(wheel) as folder:
            files = elves(folder)
            inside = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
            linked = "".join(p.read_text() for p in folder.rglob("LINKED"))
        glibc, cxx = (max((f.highest(p) for f in files), key=numbers) for p in ("GLIBC_", "GLIBCXX_"))
        cuda = "yes" if "libcudart_static.a" in linked else "no"
        print(f"{wheel.name:<54} {wheel.stat().st_size / 2**20:>5.1f} {inside / 2**20:>6.1f}  "
              f"{glibc:<6} {cxx:<9}  {cuda}")


if __name__ == "__main__":
    main()
