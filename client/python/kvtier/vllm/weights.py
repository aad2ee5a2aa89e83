"""The digest of the weights that an engine runs."""

import hashlib
import json
import logging
import re
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .file_digests import Stopped, file_digests, known_digests

_log = logging.getLogger("vllm.kvtier")  # A child of the engine's own logger.
# Files of a model's folder that an engine may load weights from.
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf", "*.tensors")
# Files of settings that shape KV besides the weights: RoPE, norms, quantisation, and which shards are loaded.
_CONFIGS = ("config.json", "params.json", "quantize_config.json", "quantization_config.json", "hf_quant_config.json",
            "adapter_config.json", "*.index.json")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_STOP_S = 2.0  # Longest wait for the thread's end: a read from a file system that hangs does not end.

UNKNOWN_WEIGHTS = "unknown"  # Digest in a space whose weights are not hashed yet. It names no block.


def commit_of(model_config: Any) -> str | None:
    """Returns the commit of a model hub that the engine runs; None: only a branch or nothing is known.

    A branch names other weights tomorrow. The configuration's commit is the weights' one unless it is another model's.
    """
    revision = getattr(model_config, "revision", None)
    commits = [getattr(revision, "resolved", None), revision]
    if getattr(model_config, "hf_config_path", None) in (None, "", model_config.model):
        commits.append(getattr(getattr(model_config, "hf_config", None), "_commit_hash", None))
    return next((str(commit) for commit in commits if commit and _COMMIT.fullmatch(str(commit))), None)


def known_digest(model: str, commit: str | None) -> str:
    """Returns weights_digest() if no file of weights need be read for it, or else UNKNOWN_WEIGHTS.

    Raises ValueError as weights_digest().
    """
    files = _weights_in(model)
    known = known_digests(files)
    digests = [digest for digest in known if digest is not None]
    return _digest_of(model, commit, files, digests) if len(digests) == len(known) else UNKNOWN_WEIGHTS


def weights_digest(model: str, commit: str | None, stopped: threading.Event | None = None) -> str:
    """Returns the digest of a model folder's weights, or of the commit of a model that has no folder.

    The digest of a folder is SHA-256, in hexadecimal, over config.json and its like and over the name and the SHA-256
    of each file of weights: all of its bytes, so it may take minutes (file_digests). Raises ValueError if there is
    neither such a file nor a commit, and what file_digests() raises.
    """
    files = _weights_in(model)
    return _digest_of(model, commit, files, file_digests(files, stopped or threading.Event()))


class WeightsFinder:
    """Finds the digest of a model's weights on a thread of its own, while the engine starts.

    Calls `when_found` with the digest on that thread.
    """

    def __init__(self, model: str, commit: str | None, when_found: Callable[[str], None]) -> None:
        self._model, self._commit, self._when_found = model, commit, when_found
        self._digest = ""
        self._stopped = threading.Event()
        # It is a daemon because an engine may exit without a shutdown().
        self._thread = threading.Thread(target=self._find, name="kvtier-weights", daemon=True)
        self._thread.start()

    def digest(self) -> str:
        """Returns the digest when `when_found` has ended; "": it has not, or the digest cannot be found. Never waits."""
        return self._digest

    def ended(self) -> bool:
        """Returns whether the digest is known, or cannot be found."""
        return not self._thread.is_alive()

    def close(self) -> None:
        """Ends the thread, also in the middle of a file."""
        self._stopped.set()
        self._thread.join(_STOP_S)

    def _find(self) -> None:
        began = time.monotonic()
        try:
            digest = weights_digest(self._model, self._commit, self._stopped)
            self._when_found(digest)
            self._digest = digest
            _log.info("kvtier: the digest of the weights in %s is %s, found in %.1f s: blocks are shared from the next step "
                      "on", self._model, digest, time.monotonic() - began)
        except Stopped:
            pass
        except Exception as error:
            _log.error("kvtier: the digest of the weights in %s cannot be found, and no blocks of them are shared: %s; "
                       "correct that and start the engine again", self._model, error)


def _weights_in(model: str) -> list[Path]:
    """Returns the files of weights in a model's folder, by name; []: there is no folder, or no such file."""
    folder = Path(model)
    if not folder.is_dir():
        return []
    return sorted({path for pattern in _WEIGHTS for path in folder.glob(pattern) if path.is_file()})


def _digest_of(model: str, commit: str | None, files: list[Path], digests: list[str]) -> str:
    if files:
        return _digest_of_folder(Path(model), files, digests)
    if commit and _COMMIT.fullmatch(commit):
        return hashlib.sha256(f"kvtier.revision\0{model}\0{commit}".encode()).hexdigest()
    raise ValueError(f"model is {model!r}, which is no folder with {', '.join(_WEIGHTS)} and has no revision that is a "
                     "commit; set weights_digest in kv_connector_extra_config")


def _digest_of_folder(folder: Path, files: list[Path], digests: list[str]) -> str:
    digest = hashlib.sha256(b"kvtier.weights.v2\0")
    for path in sorted({path for pattern in _CONFIGS for path in folder.glob(pattern) if path.is_file()}):
        _add(digest, path.name, json.dumps(_without_paths(path), sort_keys=True).encode())
    for path, content in zip(files, digests):
        _add(digest, path.name, content.encode())
    return digest.hexdigest()


def _add(digest: "hashlib._Hash", name: str, content: bytes) -> None:
    """Hashes a name and its content, each after its length, so that different lists never hash alike."""
    for part in (name.encode(), content):
        digest.update(struct.pack("<Q", len(part)))
        digest.update(part)


def _without_paths(path: Path) -> object:
    """Returns the configuration without the fields for the files' place and the library that wrote them."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON; must be the model's configuration: {error}") from error
    if isinstance(config, dict):
        for name in ("_name_or_path", "base_model_name_or_path", "transformers_version"):
            config.pop(name, None)
    return config
