"""Renames the symbols that bundled libraries of wheels export, in these libraries and in those that use them.

    hide_symbols.py OUT WHEEL...    writes each wheel to the folder OUT

The loader looks for a symbol in all libraries that a process shares, and it finds a symbol that the compiler
marked unique (a static variable of a template) in every library of the process. So gRPC in this wheel and gRPC
in another one could share a variable. With names of their own they cannot. Symbols that the C and C++
libraries define, too, keep their names, since both must mean the same thing by them.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import wheel_facts

PREFIX = "kvtier_wheel_"
# Libraries of the machine that makes the wheel, where the loader finds them.
MACHINE = ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2")


def symbols(path: pathlib.Path, which: str) -> set[str]:
    """Returns a file's dynamic symbols without versions; `which` is nm's "--defined-only" or "--undefined-only"."""
    said = subprocess.run(["nm", "--dynamic", "--no-demangle", "--without-symbol-versions", which, path],
                          check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in said.splitlines() if line}


def of_machine(user: pathlib.Path) -> set[str]:
    """Returns the symbols of the machine's libraries, as the loader finds them for `user`."""
    said = subprocess.run(["ldd", user], check=True, capture_output=True, text=True).stdout
    paths = [path for name, path in re.findall(r"^\s*(\S+) => (/\S+)", said, re.M) if name in MACHINE]
    return set().union(*(symbols(pathlib.Path(path), "--defined-only") for path in paths))


def hide(folder: pathlib.Path) -> int:
    """Renames in all ELF files of an unpacked wheel; returns how many symbols."""
    files = wheel_facts.elf_paths(folder)
    bundled = [path for path in files if path.parent.name == "kvtier.libs"]
    defined = set().union(*(symbols(path, "--defined-only") for path in bundled))
    hidden = defined - of_machine(bundled[0])
    with tempfile.NamedTemporaryFile("w", suffix=".map") as names:
        names.writelines(f"{name} {PREFIX}{name}\n" for name in sorted(hidden))
        names.flush()
        for path in files:
            subprocess.run(["patchelf", "--rename-dynamic-symbols", names.name, path], check=True)
    return len(hidden)


def main() -> None:
    out = pathlib.Path(sys.argv[1])
    for wheel in sys.argv[2:]:
        with tempfile.TemporaryDirectory() as place:
            subprocess.run([sys.executable, "-m", "wheel", "unpack", "--dest", place, wheel],
                           check=True, stdout=subprocess.DEVNULL)
            folder = next(pathlib.Path(place).iterdir())
            print(f"{pathlib.Path(wheel).name}: {hide(folder)} symbols renamed")
            subprocess.run([sys.executable, "-m", "wheel", "pack", "--dest-dir", out, folder],
                           check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
