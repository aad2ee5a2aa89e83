"""A real kvtier-agent with a disk, which is killed, stopped and started again."""

import signal
import subprocess
import time
from pathlib import Path


class AgentProcess:
    """An agent in `folder`, on the sockets, the disk and the log that it has there. `more` are flags, which come last."""

    def __init__(self, program: Path, folder: Path, host_bytes: str = "512MiB", disk_bytes: str = "2GiB",
                 more: tuple[str, ...] = ()) -> None:
        self.socket_dir = folder / "socket"
        self.socket_dir.mkdir(parents=True, exist_ok=True)
        (folder / "disk").mkdir(exist_ok=True)
        self.log = folder / "agent.log"
        self._command = [str(program), "--node_id=smoke", f"--socket_dir={self.socket_dir}", f"--host_bytes={host_bytes}",
                         "--slab_bytes=64MiB", f"--disk_dir={folder / 'disk'}", f"--disk_bytes={disk_bytes}",
                         "--listen=127.0.0.1:0", "--advertise=127.0.0.1:1", *more]
        self._process: subprocess.Popen | None = None

    def start(self, timeout_s: float = 60) -> None:
        """Starts it, and waits until its socket is there. RuntimeError: it ended, or took too long."""
        ready = self.socket_dir / "kvtier.sock"
        ready.unlink(missing_ok=True)
        with self.log.open("a") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        deadline = time.monotonic() + timeout_s
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no agent; see {self.log}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Ends it as a crash does, and waits until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Freezes it: its sockets stand, and nothing answers."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Ends the freeze."""
        self._process.send_signal(signal.SIGCONT)
