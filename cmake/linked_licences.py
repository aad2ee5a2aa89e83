"""Copies the licences of everything that is linked into the files of a wheel.

    linked_licences.py OUT FILE MAP [FILE MAP...]

FILE is a program or the extension, MAP the map file that the linker wrote of it (ld's or mold's
-Map). The shared libraries that FILE loads, but for those that every machine has, and the archives
that MAP names belong to Debian packages, whose /usr/share/doc/PACKAGE/copyright goes to
OUT/PACKAGE.txt. The templates of pybind11, in no library, are in the extension, too. OUT/LINKED
then says which file holds what, and where its licence is. Exits with 1, naming it, for a library of
no package and for a package without a text.
"""

import importlib.metadata
import pathlib
import re
import shutil
import subprocess
import sys

DOCS = pathlib.Path("/usr/share/doc")
CUDA = "cuda"  # Word in place of a package's name for a toolkit that no Debian package installed.
# Libraries that every machine has, as manylinux has it.
MACHINE = re.compile(r"(ld-linux.*|lib(c|dl|gcc_s|m|pthread|rt|stdc\+\+|z))\.so\.\d+")


class NoLicence(Exception):
    """Raised when the licence of something that is linked cannot be found."""


def libraries(file):
    """Returns the paths of the shared libraries that come with a file."""
    said = subprocess.run(["ldd", file], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^\s*(\S+) => (.+?)(?: \(0x[0-9a-f]+\))?$", said, re.M)
    absent = [name for name, path in found if path == "not found"]
    if absent:
        raise NoLicence(f"{file}: {absent[0]} is not found")
    return [pathlib.Path(path) for name, path in found if not MACHINE.fullmatch(name)]


def archives(text):
    """Returns the archives of other projects that a map file names; those of the build have relative paths."""
    return [pathlib.Path(path)
            for path in sorted(set(re.findall(r"(?<![\w./+-])(/[^\s:()]+\.a)(?=[(:\s])", text)))]


def owner(path):
    """Returns the Debian package that a library belongs to; CUDA for NVIDIA's runtime from elsewhere."""
    real = path.resolve()
    package = _debian_package(real)
    if package is None and real.name == "libcudart_static.a" and toolkit_texts(real):
        return CUDA
    if package is None:
        raise NoLicence(f"{path}: it is in no Debian package, so that its licence is not known")
    return package


def _debian_package(path):
    # dpkg may know a file below /usr by its path without /usr.
    for name in (str(path), str(path).removeprefix("/usr")):
        found = subprocess.run(["dpkg-query", "--search", name], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    return None


def toolkit_texts(archive):
    """Returns NVIDIA's licence, which lies in a folder above an archive of a CUDA toolkit."""
    names = ("EULA.txt", "dist-info/nvidia_cuda_runtime*/licenses/License.txt")
    return [text for folder in archive.parents for name in names for text in folder.glob(name)]


def text_of(package, library, docs=DOCS):
    """Returns the licence of the package that a library belongs to."""
    path = docs / package / "copyright"
    if package == CUDA:
        path = toolkit_texts(library.resolve())[0]
    if not path.is_file() or not path.read_text(encoding="utf-8").strip():
        raise NoLicence(f"{package}: there is no {path}")
    return path.read_text(encoding="utf-8")


def pybind11_text():
    """Returns the licence of the pybind11 that the extension is compiled with."""
    for file in importlib.metadata.files("pybind11") or ():
        if re.search(r"licenses?/LICENSE", str(file), re.IGNORECASE):
            return file.read_text()
    raise NoLicence("pybind11: its package holds no LICENSE")


def collect(out, linked, docs=DOCS):
    """Writes the texts and LINKED to the folder `out`. `linked`: what each file is made of."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    texts = {"pybind11": pybind11_text()}
    rows = ["_kvtier headers pybind11.txt\n"]
    for file, parts in linked.items():
        for part in parts:
            package = owner(part)
            texts[package] = text_of(package, part, docs)
            rows.append(f"{file} {part.name} {package}.txt\n")
    for package, text in texts.items():
        (out / f"{package}.txt").write_text(text, encoding="utf-8")
    (out / "LINKED").write_text("".join(sorted(rows)), encoding="utf-8")


def parts_of(file, link_map):
    """Returns the shared libraries and the archives of one file."""
    found = archives(link_map.read_text(encoding="utf-8", errors="replace"))
    if not found:  # Each file has a few objects of the compiler's.
        raise NoLicence(f"{link_map}: it names no archive: the linker wrote another format")
    return libraries(file) + found


def main():
    out, *rest = map(pathlib.Path, sys.argv[1:])
    try:
        collect(out, {file.name.split(".")[0]: parts_of(file, link_map)
                      for file, link_map in zip(rest[::2], rest[1::2], strict=True)})
    except NoLicence as missing:
        sys.exit(f"linked_licences: {missing}")


if __name__ == "__main__":
    main()
