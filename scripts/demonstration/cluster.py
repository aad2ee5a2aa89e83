"""Cluster: one coordinator and two agents on loopback, as real processes."""

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("KVTIER_BIN_DIR", REPO / "build" / "dev" / "bin"))

HOST_BYTES = "256MiB"
DISK_BYTES = "1GiB"
SLAB_BYTES = "8MiB"
SEGMENT_BYTES = "32MiB"

_READY_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 15.0
_PR_SET_PDEATHSIG = 1


class ClusterFailed(Exception):
    """A process did not start or a command failed; the text holds its last words."""


def _die_with_parent():
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn(command, log, **options):
    """Starts a process that ends with this one, its stderr in `log`, deaf to the terminal's Ctrl-C
    (this program ends it in order)."""
    return subprocess.Popen(command, stderr=open(log, "ab"), start_new_session=True,
                            preexec_fn=_die_with_parent, **options)


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Node:
    """One agent: where it listens, where its disk is, and its process while it runs."""

    name: str
    socket_dir: Path
    disk_dir: Path
    address: str
    process: subprocess.Popen = field(default=None, repr=False)

    @property
    def admin(self):
        return f"unix:{self.socket_dir}/kvtier-admin.sock"


class Cluster:
    """Use as a context manager: leaving it ends every process and removes every file."""

    def __init__(self, node_names):
        # A socket's path may have 107 bytes at most, and a disk needs a real file system.
        self.run_dir = Path(tempfile.mkdtemp(prefix="kvtier-demo-"))
        (REPO / "build").mkdir(exist_ok=True)
        self._disk_root = Path(tempfile.mkdtemp(prefix="demo-disk-", dir=REPO / "build"))
        self.coordinator_address = f"127.0.0.1:{_free_port()}"
        self._coordinator = None
        self.nodes = [
            Node(name, self.run_dir / name, self._disk_root / name, f"127.0.0.1:{_free_port()}")
            for name in node_names
        ]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [node.process for node in self.nodes] + [self._coordinator]:
            if process and process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        for process in [node.process for node in self.nodes] + [self._coordinator]:
            if not process:
                continue
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self._disk_root, ignore_errors=True)
        shutil.rmtree(self.run_dir, ignore_errors=True)

    def start(self):
        data_dir = self._disk_root / "coordinator"
        data_dir.mkdir()
        self._coordinator = spawn(
            [BIN / "kvtier-coordinator", f"--listen={self.coordinator_address}",
             f"--data_dir={data_dir}", f"--socket_dir={self.run_dir}"], self.run_dir / "coordinator.log")
        for node in self.nodes:
            self.start_agent(node)
        self._await(lambda: all(self.status(node)["coordinator"]["connected"] for node in self.nodes),
                    "agents to reach the coordinator")

    def start_agent(self, node):
        """Starts the agent and returns when it answers."""
        node.process = spawn(
            [BIN / "kvtier-agent", f"--node_id={node.name}", f"--socket_dir={node.socket_dir}",
             f"--listen={node.address}", f"--coordinator={self.coordinator_address}",
             f"--host_bytes={HOST_BYTES}", f"--slab_bytes={SLAB_BYTES}",
             f"--disk_dir={node.disk_dir}", f"--disk_bytes={DISK_BYTES}",
             f"--segment_bytes={SEGMENT_BYTES}"], self.log_of(node))

        def answers():
            if node.process.poll() is not None:
                raise ClusterFailed(f"agent {node.name} ended: {self._last_words(node)}")
            return self._cli(node, "tiers") is not None

        self._await(answers, f"agent {node.name}")

    def kill_agent(self, node):
        """Kills the agent with SIGKILL: no destructor runs, nothing is flushed."""
        node.process.kill()
        node.process.wait()

    def log_of(self, node):
        return self.run_dir / f"{node.name}.log"

    def _last_words(self, node):
        return self.log_of(node).read_text(errors="replace")[-800:]

    def _cli(self, node, *words):
        """Returns the JSON document that `kvtier` prints, or None when the agent does not answer."""
        done = subprocess.run([BIN / "kvtier", "--agent", node.admin, "-o", "json", *words],
                              capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def status(self, node):
        """Returns the agent's own report: one entry of `kvtier status -o json`."""
        document = self._cli(node, "status")
        if document is None:
            raise ClusterFailed(f"agent {node.name} does not answer: {self._last_words(node)}")
        return document["agents"][0]

    def evict_host(self, node):
        """Empties the node's host tier; what its workers lease stays."""
        if self._cli(node, "evict", "--tier", "host", "--yes") is None:
            raise ClusterFailed(f"evicting the host tier of {node.name} failed")

    def await_offload(self, node):
        """Returns when everything put on the node is durable on its disk."""
        self._await(lambda: self.status(node)["offload_queue_blocks"] == 0, "the disk to catch up")

    def print_status(self):
        command = [BIN / "kvtier", "--coordinator", self.coordinator_address]
        for node in self.nodes:
            command += ["--agent", node.admin]
        subprocess.run([*command, "status"], check=False)

    @staticmethod
    def _await(condition, what):
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline:
                raise ClusterFailed(f"waited {_READY_TIMEOUT_S:.0f} s for {what}")
            time.sleep(0.05)
