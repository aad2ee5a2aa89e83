"""The digest of the weights that an engine runs."""

import hashlib
import json
import struct
from pathlib import Path

_END_BYTES = 64 * 1024
_MAX_HEADER_BYTES = 100 * 1024 * 1024  # Limit of the safetensors format.
# Files of settings that shape KV besides the weights: RoPE, norms, quantisation.
_CONFIGS = ("config.json", "quantize_config.json", "quantization_config.json")


def weights_digest(model: str, revision: str | None) -> str:
    """Returns the digest of a model folder's weights, or of the revision of a model that has no folder.

    The digest of a folder is SHA-256, in hexadecimal, over config.json and its like and over each safetensors shard,
    by name: its size, its header (the tensors' names, dtypes and shapes) and the first and last 64 KiB of its data. A
    fine-tuned model differs there. If you edit weights only in the middle of shards, set weights_digest in the
    options. Reads about 200 KiB of each shard. Raises ValueError if there is neither a shard nor a revision.
    """
    folder = Path(model)
    shards = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
    if shards:
        return _digest_of(folder, shards)
    if revision:
        return hashlib.sha256(f"kvtier.revision\0{model}\0{revision}".encode()).hexdigest()
    raise ValueError(f"model is {model!r}, which is no folder with *.safetensors and has no revision; "
                     "set weights_digest in kv_connector_extra_config")


def _digest_of(folder: Path, shards: list[Path]) -> str:
    digest = hashlib.sha256(b"kvtier.weights.v1\0")
    for name in _CONFIGS:
        path = folder / name
        if path.is_file():
            _add(digest, name, json.dumps(_without_paths(path), sort_keys=True).encode())
    for shard in shards:
        header, first, last = _ends(shard)
        _add(digest, shard.name, header)
        digest.update(struct.pack("<Q", shard.stat().st_size))
        _add(digest, "first", first)
        _add(digest, "last", last)
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
        for name in ("_name_or_path", "transformers_version"):
            config.pop(name, None)
    return config


def _ends(shard: Path) -> tuple[bytes, bytes, bytes]:
    """Returns a shard's header, and the first and last bytes of its data."""
    with shard.open("rb") as file:
        prefix = file.read(8)
        header_bytes = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
        if not 0 < header_bytes <= _MAX_HEADER_BYTES:
            raise ValueError(f"{shard} begins with a header of {header_bytes} bytes; must be a safetensors file")
        header = file.read(header_bytes)
        if len(header) != header_bytes:
            raise ValueError(f"{shard} ends inside its header of {header_bytes} bytes; must be a whole safetensors "
                             "file")
        first = file.read(_END_BYTES)
        file.seek(max(8 + header_bytes, shard.stat().st_size - _END_BYTES))
        return header, first, file.read(_END_BYTES)
