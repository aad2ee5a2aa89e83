"""Where the programs and the package are, and a port that nobody has."""

import os
import socket
from pathlib import Path

_BUILD = Path(__file__).resolve().parents[3] / "build/dev"
BIN = Path(os.environ.get("KVTIER_BIN_DIR", _BUILD / "bin"))
PYTHON = Path(os.environ.get("KVTIER_PYTHON_DIR", _BUILD / "python"))


def free_port() -> int:
    """Returns a port of the loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
