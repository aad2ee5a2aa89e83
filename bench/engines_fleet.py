"""The engines and caches that the bench asks, started together and ended together."""

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from engines_arm import ANSWER_TOKENS, Arm, nothing, whole
from engines_node import Coordinator, Node
from engines_plain_client import BLOCK_BYTES
from engines_stream import Stream

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/vllm/live"))

from locations import PYTHON, free_port  # noqa: E402 (it is beside the live tests)
from vllm_process import VllmProcess  # noqa: E402

_HERE = Path(__file__).resolve().parent
_BLOCK_TOKENS = 32
_CHUNK_TOKENS = 256  # Chunk of LMCache, by default.
BLOCKS = 32  # Whole blocks of a prompt.
PROMPT_TOKENS = BLOCKS * _BLOCK_TOKENS + 7  # Its whole blocks are whole chunks of LMCache, too.
PROMPT_BYTES = BLOCKS * BLOCK_BYTES  # Bytes of KV that can be reused.
_UNALIGNED_TOKENS = 1007  # A prompt that ends inside a chunk of LMCache.
_AT_ONCE = 2  # Engines that start at the same time: each keeps a core busy.
_START_S = 420
_EMPTY_STEPS = 200  # Steps of one request that is answered "ask again".
_EMPTY_SAMPLES = 20
_FEW_BLOCKS = ("--num-gpu-blocks-override", "256")  # Memory for 8 prompts: five engines fit in 24 GB.


@dataclass(frozen=True)
class Places:
    """Paths of the interpreters, the model and the run's folder."""

    venv: Path  # Interpreter that has vLLM.
    model: Path
    lmcache_venv: Path | None  # Interpreter that has vLLM and LMCache; None: there is none.
    folder: Path  # Folder for logs, disks and files, on a file system that takes O_DIRECT.


class LmcacheServer:
    """LMCache's server, with its chunks of 256 tokens, in memory that engines map. A context manager."""

    def __init__(self, venv: Path, log: Path) -> None:
        self.port, self._http_port, self._log = free_port(), free_port(), log
        environment = {**os.environ, "LMCACHE_TRACK_USAGE": "false", "DO_NOT_TRACK": "1", "OMP_NUM_THREADS": "1"}
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [venv / "bin/lmcache", "server", "--host", "127.0.0.1", "--port", str(self.port), "--http-port",
                 str(self._http_port), "--l1-size-gb", "1", "--eviction-policy", "LRU", "--supported-transfer-mode",
                 "engine_driven", "--disable-observability"], env=environment, stdout=output, stderr=output)

    def await_ready(self) -> None:
        """Waits until it accepts HTTP connections. Raises RuntimeError if it ended or took too long."""
        deadline = time.monotonic() + _START_S
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self._http_port}/", timeout=5).close()
                return
            except urllib.error.HTTPError:
                return
            except (urllib.error.URLError, ConnectionError):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"LMCache's server does not start; see {self._log}") from None
                time.sleep(0.2)

    def __enter__(self) -> "LmcacheServer":
        return self

    def __exit__(self, *exc_info) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Fleet:
    """All processes of a run. A context manager.

    `wanted` names the arms that the run has; what none of them needs is not started. An engine that does
    not start is left out, and a line names it and says why. The engines of kvtier and the plain one must start.
    """

    def __init__(self, places: Places, wanted: set[str]) -> None:
        self._places, self._wanted = places, wanted
        self._stack = contextlib.ExitStack()
        self._ports: dict[str, int] = {}
        self.absent: dict[str, str] = {}  # Engines that are not there, and why.
        self.first: Node | None = None  # Node of the arms "host" and "disk".
        self.second: Node | None = None  # Node of the arm "peer".
        self.empty_step: list[float] = []  # Seconds of a step that computes nothing.

    def __enter__(self) -> "Fleet":
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exc_info) -> None:
        self._stack.close()

    def cold_arms(self) -> list[Arm]:
        """Returns an arm for each engine that computes the prompts, and saves them where it can."""
        arms = [self._arm(name, engine, nothing) for name, engine in
                (("no_cache", "plain"), ("computed.kvtier", "kvtier"), ("computed.file", "file"),
                 ("computed.lmcache", "lmcache"))]
        return [arm for arm in arms if arm is not None]

    def hit_arms(self) -> list[Arm]:
        """Returns the arms that find what was computed, each of them once a round."""
        floor = self._arm("floor", "plain", whole(_BLOCK_TOKENS))
        floor.prepare = lambda: None  # This arm finds what the engine itself has.
        arms = [floor, self._arm("file", "file", whole(_BLOCK_TOKENS)),
                self._arm("lmcache", "lmcache", whole(_CHUNK_TOKENS)), *self._kvtier_arms()]
        return [arm for arm in arms if arm is not None and arm.name in self._wanted | {"floor"}]

    def after_kill_arm(self) -> Arm | None:
        """Returns the arm whose agent was killed and started again before each question; None: it is not wanted."""
        arm = self._arm("disk_after_kill", "kvtier", whole(_BLOCK_TOKENS))
        if arm is None or arm.name not in self._wanted:
            return None
        return self._drawing(arm, self.first.restart, self._disk_bytes, PROMPT_BYTES)

    def unaligned_arms(self) -> list[Arm]:
        """Returns the arms that are asked for a shorter prompt, computed first and then found: none, or two."""
        if "lmcache" not in self._wanted or "lmcache" not in self._ports:
            return []
        arms = [self._arm("computed.lmcache_1007", "lmcache", nothing),
                self._arm("lmcache_1007", "lmcache", whole(_CHUNK_TOKENS))]
        for arm in arms:
            arm.tokens = _UNALIGNED_TOKENS
        return arms

    def _arm(self, name: str, engine: str, reused) -> Arm | None:
        """Returns an arm whose engine forgets its own prefixes before each question; None: there is no such engine."""
        if engine not in self._ports:
            return None
        stream = Stream(self._ports[engine])
        return Arm(name, stream, reused, lambda: stream.post("/reset_prefix_cache"))

    def _kvtier_arms(self) -> list[Arm | None]:
        host, disk = (self._arm(name, "kvtier", whole(_BLOCK_TOKENS)) for name in ("host", "disk"))
        peer = self._arm("peer", "kvtier_second", whole(_BLOCK_TOKENS))
        return [host and self._drawing(host, lambda: None, self._disk_bytes, 0),
                disk and self._drawing(disk, self.first.empty_host_memory, self._disk_bytes, PROMPT_BYTES),
                peer and self._drawing(peer, self.second.empty_host_memory, self._peer_bytes, PROMPT_BYTES)]

    def _drawing(self, arm: Arm, empty, source_bytes, wanted_bytes: int) -> Arm:
        """Returns the arm that calls `empty` before each question and expects so many bytes from its source."""
        forget = arm.prepare

        def prepare() -> None:
            empty()
            forget()

        arm.prepare, arm.source_bytes, arm.wanted_bytes = prepare, source_bytes, wanted_bytes
        return arm

    def _disk_bytes(self) -> int:
        return self.first.tier("disk")["bytes_out"]

    def _peer_bytes(self) -> int:
        return self.second.status()["peers"]["fetched_bytes"]

    def _start(self) -> None:
        folder, starts = self._places.folder, {"plain": lambda: self._engine("plain", None)}
        if "empty_step" in self._wanted:
            self._measure_empty_steps()
        if self._wanted & {"host", "disk", "disk_after_kill", "peer"}:
            coordinator = self._stack.enter_context(Coordinator(folder / "coordinator"))
            self.first = self._node("a", "6GiB", coordinator)
            starts["kvtier"] = lambda: self._kvtier("kvtier", self.first)
        if "peer" in self._wanted:
            self.second = self._node("b", "", coordinator)
            starts["kvtier_second"] = lambda: self._kvtier("kvtier_second", self.second)
        if "file" in self._wanted:
            (folder / "file").mkdir()
            starts["file"] = lambda: self._engine(
                "file", {"kv_connector": "ExampleConnector",
                         "kv_connector_extra_config": {"shared_storage_path": str(folder / "file")}},
                ("--disable-hybrid-kv-cache-manager",))
        if "lmcache" in self._wanted:
            starts["lmcache"] = self._lmcache
        self._start_engines(starts)

    def _measure_empty_steps(self) -> None:
        """Measures steps that compute nothing, as the difference of local hits, on an engine that ends afterwards."""
        prompt = list(range(1000, 1000 + 2 * _BLOCK_TOKENS))
        port, engine = self._engine("asking_again", {"kv_connector": "AskingAgainConnector",
                                                     "kv_connector_module_path": "engines_asking_again"}, python=_HERE)
        engine.await_ready(_START_S)
        stream = Stream(port)
        for turn in range(_EMPTY_SAMPLES + 1):  # The first computes the prompt.
            less, more = (stream.complete(prompt, ANSWER_TOKENS, {"asks": asks}).first_s for asks in (0, _EMPTY_STEPS))
            if turn > 0:
                self.empty_step.append((more - less) / _EMPTY_STEPS)
        engine.close()

    def _node(self, name: str, disk_bytes: str, coordinator: Coordinator) -> Node:
        return self._stack.enter_context(Node(name, self._places.folder / name, "512MiB", disk_bytes, coordinator))

    def _start_engines(self, starts: dict) -> None:
        names = list(starts)
        for at in range(0, len(names), _AT_ONCE):
            begun = [(name, began) for name in names[at:at + _AT_ONCE] if (began := self._begun(name, starts[name]))]
            for name, (port, engine) in begun:
                try:
                    engine.await_ready(_START_S)
                    self._ports[name] = port
                    print(f"engine {name} is ready", flush=True)
                except RuntimeError as error:
                    self._leave_out(name, error)

    def _begun(self, name: str, start):
        try:
            return start()
        except (RuntimeError, OSError) as error:
            self._leave_out(name, error)
            return None

    def _leave_out(self, name: str, error: Exception) -> None:
        if name in ("plain", "kvtier", "kvtier_second"):
            raise error
        self.absent[name] = str(error)
        print(f"engine {name} is left out: {error}", flush=True)

    def _engine(self, name: str, connector: dict | None, more: tuple[str, ...] = (), venv: Path | None = None,
                python: Path = PYTHON) -> tuple[int, VllmProcess]:
        port = free_port()
        more += _FEW_BLOCKS
        if connector is not None:
            more += ("--kv-transfer-config", json.dumps({"kv_role": "kv_both", **connector}))
        engine = VllmProcess(venv or self._places.venv, self._places.model, port, self._places.folder / f"{name}.log",
                             python, more=more)
        return port, self._stack.enter_context(engine)

    def _kvtier(self, name: str, node: Node) -> tuple[int, VllmProcess]:
        return self._engine(name, {
            "kv_connector": "KvtierConnector", "kv_connector_module_path": "kvtier.vllm",
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": {"socket_dir": str(node.socket_dir), "recompute_tokens_per_s": 400}})

    def _lmcache(self) -> tuple[int, VllmProcess]:
        venv = self._places.lmcache_venv
        if venv is None:
            raise RuntimeError("LMCache 0.5.6 could not be installed beside this Python")
        server = self._stack.enter_context(LmcacheServer(venv, self._places.folder / "lmcache_server.log"))
        server.await_ready()
        return self._engine("lmcache", {
            "kv_connector": "LMCacheMPConnector", "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": {"lmcache.mp.host": "127.0.0.1", "lmcache.mp.port": server.port}}, venv=venv)
