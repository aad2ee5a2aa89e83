"""Files in /dev/shm: kvtier's, of which there must be none, and those of an engine's processes."""

import os
from pathlib import Path

_FOLDER = Path("/dev/shm")


def kvtier_files() -> list[str]:
    """Returns the names of files of kvtier's programs or client. There must be none: their memory has no names."""
    return sorted(path.name for path in _FOLDER.iterdir() if "kvtier" in path.name)


def shared_files(group: int) -> set[Path]:
    """Returns the files that processes of a process group have mapped."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(process.name)) == group:
                lines = (process / "maps").read_text().splitlines()
                found |= {Path(line.split(None, 5)[5]) for line in lines if f" {_FOLDER}/" in line}
        except (ProcessLookupError, FileNotFoundError):
            pass  # The process has ended meanwhile.
    return {file for file in found if file.exists()}
