"""A real kvtier-agent with a disk, which is killed, stopped and started again, and says what it counted."""

import collections
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from awaited import until
from locations import BIN


class AgentProcess:
    """An agent in `folder`, with its disk, its log and, unless others are given, its `sockets`. `more` are flags."""

    def __init__(self, program: Path, folder: Path, host_bytes: str = "512MiB", disk_bytes: str = "2GiB",
                 more: Sequence[str] = (), node: str = "smoke", port: int = 0, sockets: Path | None = None) -> None:
        self.socket_dir = sockets or folder / "socket"
        self.socket_dir.mkdir(parents=True, exist_ok=True)
        self.disk = folder / "disk"
        self.disk.mkdir(parents=True, exist_ok=True)
        self.log = folder / "agent.log"
        self.program = program
        self.host_bytes = host_bytes
        self._flags = [f"--node_id={node}", f"--socket_dir={self.socket_dir}", f"--disk_dir={self.disk}",
                       f"--disk_bytes={disk_bytes}", f"--listen=127.0.0.1:{port}",
                       f"--advertise=127.0.0.1:{port or 1}"]
        self._more = tuple(more)
        self.own_session = False  # Whether it starts in a session of its own.
        self._process: subprocess.Popen | None = None

    def start(self, timeout_s: float = 60, slab_bytes: str = "64MiB") -> None:
        """Starts the agent, and waits until its socket is there. Raises RuntimeError if it ended or took too long."""
        ready = self.socket_dir / "kvtier.sock"
        ready.unlink(missing_ok=True)
        command = [str(self.program), *self._flags, f"--host_bytes={self.host_bytes}",
                   f"--slab_bytes={slab_bytes}", *self._more]
        with self.log.open("a") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log,
                                             start_new_session=self.own_session)
        deadline = time.monotonic() + timeout_s
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no agent; see {self.log}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Ends the agent as a crash does, and waits until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Freezes the agent: its sockets stay, and nothing answers."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Ends the freeze."""
        self._process.send_signal(signal.SIGCONT)

    def status(self) -> dict:
        """Returns what `kvtier status` says of the agent."""
        return self._ask("status")["agents"][0]

    def tier(self, name: str) -> dict:
        """Returns the counters of one tier, "host" or "disk"."""
        return next(tier for tier in self.status()["tiers"] if tier["tier"] == name)

    def await_on_disk(self, blocks: int) -> None:
        """Waits until the disk has `blocks` blocks and no write is in progress. Raises TimeoutError if not."""
        until(lambda: self.tier("disk")["blocks"] >= blocks and self.status()["offload"]["waiting"] == 0,
              f"{blocks} blocks on the disk of {self.socket_dir}")

    def empty_host_memory(self) -> None:
        """Makes the agent drop every block from host memory. Raises TimeoutError if some are held."""
        def emptied() -> bool:
            self._ask("evict", "--tier", "host", "--yes")
            return self.tier("host")["blocks"] == 0
        until(emptied, f"empty host memory of {self.socket_dir}")

    def memory(self) -> dict[str, int]:
        """Returns the agent's memory in bytes: "RssAnon", "RssFile" and "RssShmem", of which arenas are the last."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return {name: int(size.split()[0]) << 10 for name, size in (line.split(":", 1) for line in lines)
                if name.startswith("Rss")}

    def descriptors(self) -> collections.Counter:
        """Returns the agent's descriptors except the disk's, counted by kind: memfds by name, all sockets together."""
        targets: collections.Counter = collections.Counter()
        for link in Path(f"/proc/{self._process.pid}/fd").iterdir():
            try:
                target = os.readlink(link)
            except FileNotFoundError:
                continue  # The descriptor was closed meanwhile.
            if not target.startswith(str(self.disk)):
                targets[re.sub(r":\[\d+\]| \(deleted\)", "", target)] += 1
        return targets

    def arena(self) -> Path:
        """Returns a path by which the arena of the open tenant can be opened."""
        for link in sorted(Path(f"/proc/{self._process.pid}/fd").iterdir()):
            if os.readlink(link).startswith("/memfd:kvtier-default"):
                return link
        raise RuntimeError("the agent has no arena")

    def segments(self) -> list[Path]:
        """Returns the files of its disk that hold blocks."""
        return sorted(self.disk.glob("segments/*.seg"))

    def _ask(self, *verb: str) -> dict:
        asked = subprocess.run([BIN / "kvtier", *verb, "--agent", f"unix:{self.socket_dir / 'kvtier-admin.sock'}",
                                "--timeout", "30s", "-o", "json"], capture_output=True, text=True, timeout=60)
        if asked.returncode != 0:
            raise RuntimeError(f"kvtier {' '.join(verb)}: {asked.stdout}{asked.stderr}")
        return json.loads(asked.stdout)
