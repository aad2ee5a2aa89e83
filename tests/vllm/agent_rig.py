"""A real agent, stopped and killed at will, and a worker's side of the connector on it, over memory of this process.

Programs are those that KVTIER_AGENT and KVTIER_CLI name.
"""

import ctypes
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import kvtier
import stand_ins
from kvtier.vllm.kv_layout import lay_out
from kvtier.vllm.metadata import Load, Save
from kvtier.vllm.options import Options, parse_options
from kvtier.vllm.scheduler_side import SchedulerSide
from kvtier.vllm.space import space_of_weights
from kvtier.vllm.worker_side import WorkerSide
from stand_ins import BLOCK_TOKENS, make_keys
from tensor import Storage, Tensor

BLOCKS, HEADS, LAYERS, DIM = 24, 3, 2, 64
RUN_BYTES = HEADS * BLOCK_TOKENS * DIM * 4


def eventually(condition, seconds=30):
    """Returns whether the condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


class Agent:
    """An agent of its own for the test, with `more` flags. Ends with the test."""

    def __init__(self, test, *more):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        self.socket_dir, self._test = folder.name, test
        self._command = [os.environ["KVTIER_AGENT"], "--node_id=a", f"--socket_dir={folder.name}", "--host_bytes=16MiB",
                         "--slab_bytes=4MiB", "--listen=127.0.0.1:0", "--advertise=127.0.0.1:1", *more]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._test.addCleanup(self.process.wait)
        self._test.addCleanup(self.process.kill)

    def connect(self, *arguments, **named):
        """Returns a client that is connected."""
        client = kvtier.Client(self.socket_dir, *arguments, **named)
        self._test.addCleanup(client.close)
        self._test.assertTrue(eventually(lambda: client.connected))
        return client

    def stop(self):
        """Freezes the agent, and waits until each of its threads has stopped: a signal takes its time."""
        self.process.send_signal(signal.SIGSTOP)
        self._test.assertTrue(eventually(self._stands))

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def doctor(self):
        """Returns what `kvtier doctor` says on this node."""
        return subprocess.run([os.environ["KVTIER_CLI"], "doctor", "--socket-dir", self.socket_dir], capture_output=True,
                              text=True, timeout=60).stdout

    def host_blocks(self):
        """Returns how many blocks the agent has in host memory."""
        text = subprocess.run([os.environ["KVTIER_CLI"], "status", "--agent", f"{self.socket_dir}/kvtier-admin.sock"],
                              capture_output=True, text=True, timeout=60, check=True).stdout
        [line] = [line for line in text.splitlines() if line.startswith("  host  ")]
        return int(re.split(r"\s{2,}", line.strip())[5])

    def descriptors(self):
        """Returns what the agent's descriptors are, without numbers."""
        links = Path(f"/proc/{self.process.pid}/fd").iterdir()
        return sorted(os.readlink(link).partition(":[")[0] for link in links if link.is_symlink())

    def _stands(self):
        stats = [path.read_text() for path in Path(f"/proc/{self.process.pid}/task").glob("*/stat")]
        return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


class Memory(Storage):
    """Storage of real memory."""

    def __init__(self, size):
        self.bytes = (ctypes.c_ubyte * size)()
        self._address, self._size = ctypes.addressof(self.bytes), size


class EngineMemory:
    """The KV memory of a small engine: BLOCKS blocks over LAYERS layers."""

    def __init__(self):
        self._memory = Memory(LAYERS * BLOCKS * RUN_BYTES)
        self.tensors = {f"l{i}": Tensor((BLOCKS, HEADS, BLOCK_TOKENS, DIM), self._memory, offset=i * BLOCKS * RUN_BYTES // 4)
                        for i in range(LAYERS)}
        self.layout = lay_out(list(self.tensors.items()), BLOCKS, HEADS, BLOCK_TOKENS)

    def fill(self, block, value=None):
        """Computes a block: its runs become 16 times the layer and the block's number, or `value`."""
        for layer in range(LAYERS):
            content = 16 * layer + block if value is None else value
            ctypes.memset(self._memory.data_ptr() + (layer * BLOCKS + block) * RUN_BYTES, content, RUN_BYTES)

    def runs(self, block):
        """Returns the bytes of a block's runs, by layer."""
        starts = [(layer * BLOCKS + block) * RUN_BYTES for layer in range(LAYERS)]
        return [bytes(self._memory.bytes[start:start + RUN_BYTES]) for start in starts]


class WithAgent(unittest.TestCase):
    """A worker's side on a real agent."""

    FLAGS = ()

    def setUp(self):
        self.agent = Agent(self, *self.FLAGS)
        self.memory = EngineMemory()
        layout = self.memory.layout
        self.spec = stand_ins.spec(block_bytes=layout.block_bytes, layers=LAYERS, layout=layout.stored)
        self.client = self.agent.connect()
        self.worker = self.open_worker(self.client)

    def open_worker(self, client, spec_of=space_of_weights):
        def open_lanes(digest):
            space = client.register_space(spec_of(self.spec, digest), None if digest == self.spec.weights_digest else 0.0)
            return [kvtier.Lanes(client, space, self.memory.layout.memory)]
        worker = WorkerSide(open_lanes, self.spec.weights_digest, [self.memory.layout.block_bytes], Options().preemption_wait_s)
        self.addCleanup(worker.close)
        return worker

    def open_scheduler(self, held=False, **options):
        scheduler = SchedulerSide(self.agent.connect(), parse_options({"peers": False, **options}), BLOCK_TOKENS, held)
        scheduler.accept_spaces({(0, 0): [self.spec]})
        return scheduler

    def save(self, blocks, worker=None):
        """Saves blocks under the first keys, and waits until they are stored."""
        worker = worker or self.worker
        for block in blocks:
            self.memory.fill(block)
        worker.save([Save(tuple(make_keys(len(blocks))), None, (tuple(blocks),))])
        self.assertTrue(eventually(lambda: worker.take_results() and not worker._saves))

    def load(self, name, blocks, timeout_s=0.5, worker=None):
        (worker or self.worker).load([Load(name, tuple(make_keys(len(blocks))), (tuple(blocks),), timeout_s)])

    def answered(self, *names, worker=None):
        """Waits until all of these loads are answered, each once. Returns the blocks that did not come."""
        worker, seen, failed = worker or self.worker, [], set()

        def all_are():
            results = worker.take_results()
            seen.extend(results.received)
            failed.update(results.failed_blocks)
            return set(names) <= set(seen)

        self.assertTrue(eventually(all_are), seen)
        self.assertEqual(len(seen), len(set(seen)))
        return failed
