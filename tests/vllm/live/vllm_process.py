"""A real `vllm serve`, asked over HTTP."""

import concurrent.futures
import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from awaited import until
from shared_memory import shared_files

# A quiet engine without a network, on one thread; AMX only where the machine has it for sure.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
    "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_SERVER_DEV_MODE": "1"}  # Development mode has /reset_prefix_cache.
_OBSERVED = Path(__file__).resolve().parent / "observed"
_BLOCKS = 384  # Blocks of the engine: more than all prompts together have.
AT_ONCE = 12  # Requests that are asked at the same time.


@dataclass(frozen=True)
class Answer:
    """One completion."""

    text: str
    prompt_tokens: int
    cached_tokens: int  # Tokens of the prompt that were not computed, by the engine's report.
    seconds: float


class VllmProcess:
    """An engine that serves `model`; with `socket_dir` it has the connector. `more` are flags. A context manager.

    With `observed`, a folder, the connector is ObservedConnector, which writes there. `options` are the connector's. With
    `beside`, a folder, it is inside MultiConnector, beside vLLM's ExampleConnector, whose files are in that folder.
    """

    def __init__(self, venv: Path, model: Path, port: int, log: Path, python_path: Path,
                 socket_dir: Path | None = None, policy: str = "recompute", more: tuple[str, ...] = (),
                 observed: Path | None = None, options: Mapping[str, object] | None = None,
                 beside: Path | None = None) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self.log = log
        self.observed = observed
        command = [str(venv / "bin/vllm"), "serve", str(model), "--served-model-name", "smollm2", "--host", "127.0.0.1",
                   "--port", str(port), "--dtype", "float32", "--max-model-len", "2048", "--block-size", "32",
                   "--enforce-eager", "--max-num-seqs", "16", "--num-gpu-blocks-override", str(_BLOCKS),
                   "--prefix-caching-hash-algo", "sha256_cbor", "--enable-prompt-tokens-details", *more]
        if socket_dir is not None:
            config = {
                "kv_connector": "KvtierConnector" if observed is None else "ObservedConnector",
                "kv_connector_module_path": "kvtier.vllm" if observed is None else "observed_connector",
                "kv_role": "kv_both", "kv_load_failure_policy": policy,
                "kv_connector_extra_config": {"socket_dir": str(socket_dir), **(options or {})}}
            if beside is not None:
                other = {"kv_connector": "ExampleConnector", "kv_role": "kv_both",
                         "kv_connector_extra_config": {"shared_storage_path": str(beside)}}
                config = {"kv_connector": "MultiConnector", "kv_role": "kv_both", "kv_load_failure_policy": policy,
                          "kv_connector_extra_config": {"connectors": [config, other]}}
                command.append("--disable-hybrid-kv-cache-manager")  # ExampleConnector does not know several KV groups.
            command += ["--kv-transfer-config", json.dumps(config)]
        environment = {**os.environ, **_ENVIRONMENT, "PYTHONPATH": str(python_path),
                       "PATH": f"{venv / 'bin'}:{os.environ['PATH']}"}
        if observed is not None:
            observed.mkdir(parents=True, exist_ok=True)
            environment |= {"KVTIER_OBSERVED": str(observed), "PYTHONPATH": f"{python_path}:{_OBSERVED}"}
        with log.open("w") as output:
            self._process = subprocess.Popen(command, env=environment, stdout=output, stderr=output,
                                             start_new_session=True)

    def await_ready(self, timeout_s: float = 600) -> None:
        """Waits until the engine answers. Raises RuntimeError if it ended or took too long."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._get("/health")
                return
            except (urllib.error.URLError, ConnectionError):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"no engine; see {self.log}") from None
                time.sleep(0.5)

    def complete(self, prompt: str, tokens: int = 16, parameters: dict | None = None, **fields: object) -> Answer:
        """Returns the engine's completion of `prompt` at temperature 0. `fields` are more fields of the request."""
        body = {"model": "smollm2", "prompt": prompt, "max_tokens": tokens, "temperature": 0, **fields}
        if parameters is not None:
            body["kv_transfer_params"] = parameters
        began = time.monotonic()
        answer = json.loads(self._post("/v1/completions", body))
        details = answer["usage"].get("prompt_tokens_details") or {}
        return Answer(answer["choices"][0]["text"], answer["usage"]["prompt_tokens"], details.get("cached_tokens") or 0,
                      time.monotonic() - began)

    def complete_all(self, prompts: Sequence[str], tokens: int = 16, **fields: object) -> list[Answer]:
        """Returns the answers to all prompts, of which AT_ONCE are asked at a time."""
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(lambda prompt: self.complete(prompt, tokens, **fields), prompts))

    def tokens(self, prompt: str) -> list[int]:
        """Returns the tokens of a prompt."""
        return json.loads(self._post("/tokenize", {"model": "smollm2", "prompt": prompt}))["tokens"]

    def forget_prefixes(self, also_saved: bool = False) -> None:
        """Makes the engine forget its own prefixes, and with `also_saved` resets the connector, too.

        Raises TimeoutError if some stay in use.
        """
        path = f"/reset_prefix_cache?reset_external={str(also_saved).lower()}"
        until(lambda: json.loads(self._post(path, {}))["success"], "engine that forgets its prefixes")

    def counter(self, name: str) -> float:
        """Returns a counter of /metrics, summed over its labels, or 0 if it is not there."""
        lines = re.findall(rf"^{re.escape(name)}(?:\{{[^}}]*\}})? (\S+)$", self._get("/metrics").decode(), re.M)
        return sum(float(value) for value in lines)

    def log_lines(self, *words: str) -> list[str]:
        """Returns the lines of its log that have all of these words."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if all(word in line for word in words)]

    def kill(self) -> None:
        """Ends all of its processes at once, as a machine that is short of memory does.

        vLLM's own files in /dev/shm, 400 MB an engine, stay behind, so that they are removed here.
        """
        files = shared_files(self._process.pid)
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for file in files:
            file.unlink(missing_ok=True)

    def close(self) -> None:
        """Ends the engine, by force after a while."""
        for how in (signal.SIGINT, signal.SIGKILL):
            if self._process.poll() is None:
                os.killpg(self._process.pid, how)
                try:
                    self._process.wait(30)
                except subprocess.TimeoutExpired:
                    continue

    def __enter__(self) -> "VllmProcess":
        return self

    def __exit__(self, *exc_info) -> None:
        self.close()

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(self._url + path, timeout=30) as answer:
            return answer.read()

    def _post(self, path: str, body: dict) -> bytes:
        request = urllib.request.Request(self._url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=900) as answer:
            return answer.read()
