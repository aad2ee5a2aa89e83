"""A real agent for the example tests, where the build has one."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

_AGENT = Path(os.environ.get("KVTIER_BIN_DIR", Path(__file__).resolve().parents[2]
                             / "build/dev/bin")) / "kvtier-agent"
_MISSING = importlib.util.find_spec("kvtier") is None or not _AGENT.exists()
if _MISSING:
    print(f"tests/examples: NOT TESTED, all that needs an agent: no package kvtier, or no {_AGENT}",
          file=sys.stderr)
needs_agent = unittest.skipIf(_MISSING, "NOT TESTED: no package kvtier, or no kvtier-agent")

SLOTS = 40  # Slots of the GPU pool.
BLOCK_BYTES = 737280  # SmolLM2-135M: 30 layers, K and V, 16 tokens, 3 heads of 64, float32.


class Agent:
    """A real agent with an emulated GPU, on loopback, in a folder of its own."""

    def __init__(self, *flags):
        self.folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [_AGENT, f"--socket_dir={self.folder.name}", "--node_id=pool", "--listen=127.0.0.1:0",
             "--advertise=127.0.0.1:1", "--host_bytes=128MiB", "--device=emulated",
             f"--gpu_bytes={SLOTS * BLOCK_BYTES}", f"--gpu_block_bytes={BLOCK_BYTES}", *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def client(self):
        """Returns a client that is connected."""
        import kvtier

        deadline = time.monotonic() + 30
        while True:
            client = kvtier.Client(socket_dir=self.folder.name)
            if client.connected:
                return client
            client.close()
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no agent: {self._process.stderr.read()}")
            time.sleep(0.05)

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stderr.close()
        self.folder.cleanup()
