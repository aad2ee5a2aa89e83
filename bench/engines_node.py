"""One node of kvtier for a bench: an agent with its tiers, which are emptied and asked."""

import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/vllm/live"))

from agent_process import AgentProcess  # noqa: E402 (it is beside the live tests)
from locations import BIN, free_port  # noqa: E402

_POLL_S = 0.01
_TIMEOUT_S = 60


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


class Node:
    """An agent in `folder`, with a disk of `disk_bytes`; "": without. `more` are flags. A context manager."""

    def __init__(self, name: str, folder: Path, host_bytes: str, disk_bytes: str = "",
                 coordinator: Coordinator | None = None, more: tuple[str, ...] = ()) -> None:
        address = f"127.0.0.1:{free_port()}"
        more += (f"--node_id={name}", f"--listen={address}", f"--advertise={address}")
        if coordinator is not None:
            more += (f"--coordinator={coordinator.address}",)
        if not disk_bytes:
            more += ("--disk_dir=",)
        self.agent = AgentProcess(BIN / "kvtier-agent", folder, host_bytes, disk_bytes or "1GiB", more)
        self.socket_dir = self.agent.socket_dir
        self.agent.start()

    def empty_host(self) -> None:
        """Drops every block of host memory. RuntimeError: some are held for long."""
        self._until("its host memory is not let go", lambda: self._cli("evict", "--tier", "host", "--yes") and
                    self.tier("host")["blocks"] == 0)

    def await_blocks(self, blocks: int) -> None:
        """Waits until that many have come to host memory since the start, and all are on the disk as well."""
        self._until(f"{blocks} blocks do not come", lambda: self.tier("host")["inserts"] >= blocks)
        self._until("the disk does not catch up", lambda: self.status()["offload_queue_blocks"] == 0)

    def restart(self) -> None:
        """Ends the agent as a crash does, starts it again, and waits until all workers have found it."""
        sessions = self.status()["sessions"]
        self.agent.kill()
        self.agent.start()
        self._until(f"{sessions} workers do not come back", lambda: self.status().get("sessions", 0) >= sessions)

    def status(self) -> dict:
        """Returns what `kvtier status` says of the agent."""
        return json.loads(self._cli("status"))["agents"][0]

    def tier(self, name: str) -> dict:
        """Returns the report of its tier of this name."""
        return next(tier for tier in self.status()["tiers"] if tier["tier"] == name)

    def __enter__(self) -> "Node":
        return self

    def __exit__(self, *exc_info) -> None:
        self.agent.kill()

    def _cli(self, *words: str) -> str:
        done = subprocess.run([BIN / "kvtier", f"--agent=unix:{self.socket_dir}/kvtier-admin.sock", *words, "-o", "json"],
                              capture_output=True, text=True, timeout=_TIMEOUT_S)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"kvtier {' '.join(words)}: {done.stderr}")
        return done.stdout

    def _until(self, complaint: str, holds) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while not holds():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{complaint}; see {self.agent.log}")
            time.sleep(_POLL_S)
