"""Nodes of kvtier for a bench: agents that start, are emptied and are killed, and a coordinator."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/vllm/live"))

from agent_process import AgentProcess  # noqa: E402 (it is beside the live tests)
from awaited import until  # noqa: E402
from locations import BIN, free_port  # noqa: E402


class Coordinator:
    """A coordinator in `folder`. A context manager."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.address = f"127.0.0.1:{free_port()}"
        with (folder / "coordinator.log").open("w") as log:
            self._process = subprocess.Popen(
                [BIN / "kvtier-coordinator", f"--listen={self.address}", f"--data_dir={folder / 'data'}",
                 f"--socket_dir={folder}"], stdout=log, stderr=log)

    def __enter__(self) -> "Coordinator":
        return self

    def __exit__(self, *exc_info) -> None:
        self._process.kill()
        self._process.wait()


class Node(AgentProcess):
    """An agent in `folder` that runs, with a disk of `disk_bytes`; "": without. `more` are flags. A context manager.

    With `own_session` it is in a session of its own, which is one unit to the kernel's scheduler, too.
    """

    def __init__(self, name: str, folder: Path, host_bytes: str, disk_bytes: str = "",
                 coordinator: Coordinator | None = None, more: tuple[str, ...] = (),
                 own_session: bool = False) -> None:
        if coordinator is not None:
            more += (f"--coordinator={coordinator.address}",)
        if not disk_bytes:
            more += ("--disk_dir=",)
        super().__init__(BIN / "kvtier-agent", folder, host_bytes, disk_bytes or "1GiB", node=name, port=free_port(),
                         more=more)
        self.own_session = own_session
        self.start()

    def await_blocks(self, blocks: int) -> None:
        """Waits until that many blocks have come to host memory since the start, and all are on the disk as well."""
        until(lambda: self.tier("host")["inserts"] >= blocks and self.status()["offload_queue_blocks"] == 0,
              f"{blocks} blocks in the memory and on the disk of {self.socket_dir}")

    def restart(self) -> None:
        """Ends the agent as a crash does, starts it again, and waits until all workers have found it."""
        sessions = self.status()["sessions"]
        self.kill()
        self.start()
        until(lambda: self.status()["sessions"] >= sessions, f"{sessions} workers of {self.socket_dir}")

    def __enter__(self) -> "Node":
        return self

    def __exit__(self, *exc_info) -> None:
        self.kill()
