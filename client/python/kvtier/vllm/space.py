"""The space of each rank and KV group: the properties that two compatible blocks of vLLM share."""

import dataclasses
import hashlib
import math
import os
from pathlib import PurePath
from typing import Any

import kvtier

from .kv_layout import KvLayout
from .options import CODECS, Options
from .weights import commit_of, known_digest

_BF16_BYTES = 2
_MAX_MODEL_BYTES = 256  # Longest text of a space.
# Values of load_config.load_format that load weights from the model's folder, and "dummy".
_LOAD_FORMATS = ("auto", "hf", "safetensors", "fastsafetensors", "instanttensor", "mistral", "pt", "npcache", "bitsandbytes",
                 "gguf", "sharded_state", "runai_streamer", "runai_streamer_sharded", "dummy")
# Kinds of groups whose KV is a latent vector for all heads, so that each tensor rank computes it whole.
_LATENT_KINDS = ("MLAAttentionSpec", "SlidingWindowMLASpec")


@dataclasses.dataclass(frozen=True)
class EngineFacts:
    """Properties that shape the bytes of blocks and cannot be read from the tensors."""

    version: str  # Version of vLLM: another one may pack KV in another way.
    backend: str  # Name of the attention backend.
    instruction_set: str  # Instruction set by which the backend packs KV; "": it does not pack.


def space_of_group(options: Options, vllm_config: Any, spec: Any, layout: KvLayout, facts: EngineFacts,
                   group: int, tensor_rank: int, pipeline_rank: int) -> kvtier.SpaceSpec:
    """Returns the space of one rank's blocks of one KV group, which other ranks with the same bytes share.

    `spec` is the group's kv_cache_spec. An adapter and a cache salt are in the keys (block_keys.py),
    not here. The weights' digest is UNKNOWN_WEIGHTS while their files are to be hashed (WeightsFinder). Raises
    ValueError, naming the property that is not supported.
    """
    model = vllm_config.model_config
    parallel = vllm_config.parallel_config
    # Properties that shape the bytes or the keys and have no field of their own; `kvtier doctor` shows them.
    window = getattr(spec, "sliding_window", None)
    cache = vllm_config.cache_config
    seed = os.environ.get("PYTHONHASHSEED")  # vLLM's first hash begins with it; unset: with a text of vLLM's.
    shaped_by = [options.model_name or PurePath(str(model.model)).name, f"vllm {facts.version}", facts.backend,
                 facts.instruction_set, f"cache_dtype {getattr(cache, 'cache_dtype', 'auto')}",
                 f"hash {getattr(cache, 'prefix_caching_hash_algo', 'sha256')}", *([] if seed is None else [f"seed {seed}"]),
                 f"group {group} {type(spec).__name__}", *([f"window {window}"] if window else []),
                 *_settings(vllm_config, options)]
    digest = options.weights_digest or known_digest(str(model.model), commit_of(model))
    raw = kvtier.SpaceSpec(
        model=_model_text(*shaped_by), weights_digest=digest, dtype=layout.dtype, layout=layout.stored,
        layers=layout.memory.layers, kv_heads=getattr(spec, "num_kv_heads", 1), head_dim=getattr(spec, "head_size", 1),
        tokens_per_block=spec.block_size, tp_size=parallel.tensor_parallel_size,
        tp_rank=tensor_rank - tensor_rank % tensor_copies(spec, parallel.tensor_parallel_size),
        pp_rank=pipeline_rank, pp_size=parallel.pipeline_parallel_size, block_bytes=layout.block_bytes)
    return _encoded(raw, options.codec, layout) if options.codec else raw


def tensor_copies(spec: Any, tensor_size: int) -> int:
    """Returns how many consecutive tensor ranks have the same KV of a group: the first of them saves it for all."""
    layers = getattr(spec, "kv_cache_specs", None)  # A group of layers that differ has one for each.
    return math.gcd(tensor_size, *(_copies_of_layer(layer, tensor_size) for layer in (layers or {"": spec}).values()))


def _copies_of_layer(spec: Any, tensor_size: int) -> int:
    shards = getattr(spec, "max_tp_shards", None) or (1 if type(spec).__name__ in _LATENT_KINDS else tensor_size)
    return max(1, tensor_size // shards)


def _model_text(name: str, *shaped_by: str) -> str:
    """Returns the space's model. Of a name that is too long for it, its beginning and a digest of all of it are there."""
    rest = "".join(f"; {part}" for part in shaped_by)
    room = _MAX_MODEL_BYTES - len(rest.encode())
    if len(name.encode()) <= room:
        return name + rest
    digest = "#" + hashlib.sha256(name.encode()).hexdigest()[:16]
    return name.encode()[:max(0, room - len(digest))].decode(errors="ignore") + digest + rest


def _encoded(raw: kvtier.SpaceSpec, codec: str, layout: KvLayout) -> kvtier.SpaceSpec:
    """Returns the space `raw` with the codec. Raises ValueError, naming what the codec does not support."""
    if layout.dtype != "bfloat16":
        raise ValueError(f"codec is {codec!r}, which is for KV in bfloat16; must be '' for KV in {layout.dtype!r}")
    latent = layout.memory.axes == "latent"
    try:
        return dataclasses.replace(
            raw, codec=CODECS[codec], block_bytes=None,
            layout="layer,token,head,dim" if latent else "layer,kv,token,head,dim",
            kv_heads=1 if latent else raw.kv_heads,
            head_dim=layout.memory.run_bytes // raw.tokens_per_block // _BF16_BYTES if latent else raw.head_dim)
    except ValueError as error:
        raise ValueError(f"codec is {codec!r}: {error}") from error


def _settings(vllm_config: Any, options: Options) -> list[str]:
    """Returns a digest of the settings that make other KV of the same files: changes to the model's configuration, such as
    RoPE scaling, and how weights are loaded, such as quantised. ValueError: they may not be in the model's folder."""
    model, load = vllm_config.model_config, getattr(vllm_config, "load_config", None)
    load_format = str(getattr(load, "load_format", "auto"))
    if load_format not in _LOAD_FORMATS and not options.weights_digest:
        raise ValueError(f"load_config.load_format is {load_format!r}, which may load weights from elsewhere than the "
                         f"model's folder; must be one of {', '.join(_LOAD_FORMATS)}, or set weights_digest in "
                         "kv_connector_extra_config")
    settings = {name: getattr(model, name, None) for name in ("hf_overrides", "dtype", "quantization", "quantization_config")}
    settings["dummy"] = load_format == "dummy"
    settings["loader"] = load_format == "bitsandbytes" and getattr(load, "model_loader_extra_config", None)
    text = repr([(name, _text(value)) for name, value in settings.items() if value])
    return [f"settings {hashlib.sha256(text.encode()).hexdigest()[:16]}"] if any(settings.values()) else []


def _text(value: object) -> str:
    return repr(sorted(value.items())) if isinstance(value, dict) else getattr(value, "__qualname__", str(value))


def digest_of_epoch(weights_digest: str, epoch: str) -> str:
    """Returns the digest in spaces after a reset: no block that was put before, by any worker, is compatible."""
    if not epoch:
        return weights_digest
    return hashlib.sha256(f"kvtier.epoch\0{weights_digest!r}\0{epoch}".encode()).hexdigest()


def space_of_weights(spec: kvtier.SpaceSpec, weights_digest: str) -> kvtier.SpaceSpec:
    """Returns `spec` with the digest; "": as it is."""
    return dataclasses.replace(spec, weights_digest=weights_digest) if weights_digest else spec
