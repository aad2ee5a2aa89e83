"""A node of the programs that the wheel installed, beside the interpreter that runs this."""

import pathlib
import subprocess
import sys
import tempfile
import time

import kvtier

PROGRAMS = pathlib.Path(sys.executable).parent
SECONDS = 30


class Node:
    """A kvtier-agent on loopback, in a folder that goes with it. A context manager."""

    def __init__(self, *flags):
        self.folder = tempfile.TemporaryDirectory()
        self._log = open(pathlib.Path(self.folder.name, "agent.log"), "w+", encoding="utf-8")
        self._agent = subprocess.Popen(
            [PROGRAMS / "kvtier-agent", f"--socket_dir={self.folder.name}",
             "--listen=127.0.0.1:0", "--host_bytes=128MiB", *flags], stderr=self._log)

    def client(self):
        """Returns a client that is connected."""
        deadline = time.monotonic() + SECONDS
        while not pathlib.Path(self.folder.name, "kvtier-fd.sock").exists():
            if self._agent.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no agent: {self.said()}")
            time.sleep(0.05)
        client = kvtier.Client(socket_dir=self.folder.name)
        if not client.connected:
            raise RuntimeError(f"no connection: {client.stats()['last_error']}")
        return client

    def said(self):
        """Returns the log of the agent."""
        self._log.flush()
        return pathlib.Path(self._log.name).read_text(encoding="utf-8")

    def ask(self, *words):
        """Returns the output of the installed CLI about this node."""
        return subprocess.run(
            [PROGRAMS / "kvtier", *words, "--agent", f"{self.folder.name}/kvtier-admin.sock"],
            check=True, capture_output=True, text=True, timeout=SECONDS).stdout

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self._agent.terminate()
        self._agent.wait(SECONDS)
        self._log.close()
        self.folder.cleanup()


def spec():
    """Returns a space of small blocks."""
    return kvtier.SpaceSpec(model="wheel", weights_digest="00" * 16, dtype="bfloat16",
                            layout="layer,kv,token,head,dim", layers=2, kv_heads=2, head_dim=64,
                            tokens_per_block=16, block_bytes=65536)


def keys(count):
    """Returns the keys of `count` blocks."""
    return kvtier.token_keys(list(range(16 * count)), 16)


def blocks(count):
    """Returns `count` blocks of different bytes."""
    return [bytes([i]) * 65536 for i in range(count)]


def put_and_get(client, count=8, durable=False):
    """Puts blocks and onboards them again. Returns how many came back with the same bytes."""
    space = client.register_space(spec())
    with client.reserve(space, keys(count)) as put:
        for i, state in enumerate(put.states):
            if state == "reserved":
                put.copy_in(i, blocks(count)[i])
        put.commit(durable=durable, timeout_s=20)
    same = 0
    with client.onboard(space, keys(count), timeout_s=5) as hit:
        for i in range(len(hit)):
            copy = bytearray(65536)
            same += hit.copy_out(i, copy) and copy == blocks(count)[i]
    return same
