"""WorkerProcess: examples/worker.py --serve on one node, asked over its stdin and stdout."""

import json
import subprocess
import sys
import threading

from .cluster import REPO, ClusterFailed, spawn


class WorkerProcess:
    """Loads the model once and answers one request at a time. Use as a context manager."""

    def __init__(self, node, run_dir, digests=None, write_digests=None, context_tokens=4096):
        self._log = run_dir / f"worker-{node.name}.log"
        command = [sys.executable, str(REPO / "examples" / "worker.py"), "--serve",
                   "--socket-dir", str(node.socket_dir), "--verify",
                   "--context-tokens", str(context_tokens)]
        if digests:
            command += ["--digests", str(digests)]
        if write_digests:
            command += ["--write-digests", str(write_digests)]
        self._process = spawn(command, self._log, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True)
        self._next_id = 0
        self._read("its model to load")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self, what):
        line = self._process.stdout.readline()
        if not line:
            words = self._log.read_text(errors="replace")[-800:]
            raise ClusterFailed(f"a worker ended while waiting for {what}: {words}")
        return json.loads(line)

    def ask(self, request, during=None):
        """Sends one request (a dict of examples/worker.py) and returns its answer. `during` runs
        beside it in a thread of its own, started when the request is sent."""
        self._next_id += 1
        self._process.stdin.write(json.dumps({"id": self._next_id, **request}) + "\n")
        self._process.stdin.flush()
        beside = threading.Thread(target=during) if during else None
        if beside:
            beside.start()
        answer = self._read("an answer")
        if beside:
            beside.join()
        if "error" in answer:
            raise ClusterFailed(f"a worker could not answer: {answer['error']}")
        return answer
