"""A real kvtier-coordinator."""

import subprocess
from pathlib import Path

from awaited import until
from locations import BIN, free_port


class CoordinatorProcess:
    """A coordinator in `folder`. A context manager."""

    def __init__(self, folder: Path) -> None:
        (folder / "data").mkdir(parents=True, exist_ok=True)
        self.address = f"127.0.0.1:{free_port()}"
        self._log = folder / "coordinator.log"
        self._command = [BIN / "kvtier-coordinator", f"--listen={self.address}", f"--data_dir={folder / 'data'}",
                         f"--socket_dir={folder}"]

    def __enter__(self) -> "CoordinatorProcess":
        with self._log.open("w") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        return self

    def __exit__(self, *exc_info) -> None:
        self._process.kill()
        self._process.wait()

    def await_nodes(self, nodes: int) -> None:
        """Waits until so many agents have reported. Raises TimeoutError if they do not."""
        def reported() -> bool:
            asked = subprocess.run([BIN / "kvtier", "nodes", "--coordinator", self.address, "-o", "json"],
                                   capture_output=True, text=True, timeout=30)
            return asked.returncode == 0 and asked.stdout.count('"node_id"') >= nodes
        until(reported, f"coordinator with {nodes} nodes; see {self._log}")
