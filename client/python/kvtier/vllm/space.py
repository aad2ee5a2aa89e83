"""The space of each rank and KV group: the properties that two compatible blocks of vLLM share."""

import dataclasses
import hashlib
import os
from pathlib import PurePath
from typing import Any

import kvtier

from .kv_layout import KvLayout
from .options import CODECS, Options
from .weights import weights_digest

_BF16_BYTES = 2


@dataclasses.dataclass(frozen=True)
class EngineFacts:
    """Properties that shape the bytes of blocks and cannot be read from the tensors."""

    version: str  # Version of vLLM: another one may pack KV in another way.
    backend: str  # Name of the attention backend.
    instruction_set: str  # Instruction set by which the backend packs KV; "": it does not pack.


def space_of_group(options: Options, vllm_config: Any, spec: Any, layout: KvLayout, facts: EngineFacts,
                   group: int, tensor_rank: int, pipeline_rank: int) -> kvtier.SpaceSpec:
    """Returns the space of one rank's blocks of one KV group.

    `spec` is the group's kv_cache_spec. An adapter and a cache salt are in the keys (block_keys.py),
    not here. Raises ValueError, naming the property that is not supported.
    """
    model = vllm_config.model_config
    parallel = vllm_config.parallel_config
    revision = getattr(getattr(model, "hf_config", None), "_commit_hash", None) or getattr(model, "revision", None)
    digest = options.weights_digest or weights_digest(str(model.model), revision)
    # Properties that shape the bytes or the keys and have no field of their own; `kvtier doctor` shows them.
    window = getattr(spec, "sliding_window", None)
    cache = vllm_config.cache_config
    seed = os.environ.get("PYTHONHASHSEED")  # vLLM's first hash begins with it; unset: with a text of vLLM's.
    shaped_by = [options.model_name or PurePath(str(model.model)).name, f"vllm {facts.version}", facts.backend,
                 facts.instruction_set, f"cache_dtype {getattr(cache, 'cache_dtype', 'auto')}",
                 f"hash {getattr(cache, 'prefix_caching_hash_algo', 'sha256')}", *([] if seed is None else [f"seed {seed}"]),
                 f"group {group} {type(spec).__name__}", *([f"window {window}"] if window else []), *_overrides(model)]
    raw = kvtier.SpaceSpec(
        model="; ".join(shaped_by), weights_digest=digest, dtype=layout.dtype, layout=layout.stored,
        layers=layout.memory.layers, kv_heads=getattr(spec, "num_kv_heads", 1), head_dim=getattr(spec, "head_size", 1),
        tokens_per_block=spec.block_size, tp_rank=tensor_rank, tp_size=parallel.tensor_parallel_size,
        pp_rank=pipeline_rank, pp_size=parallel.pipeline_parallel_size, block_bytes=layout.block_bytes)
    return _encoded(raw, options.codec, layout) if options.codec else raw


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


def _overrides(model: Any) -> list[str]:
    """Returns a digest of the command line's changes to the model's configuration, such as RoPE scaling."""
    overrides = getattr(model, "hf_overrides", None)
    if not overrides:
        return []
    text = repr(sorted(overrides.items())) if isinstance(overrides, dict) else getattr(overrides, "__qualname__", "")
    return [f"overrides {hashlib.sha256(text.encode()).hexdigest()[:16]}"]


def space_of_epoch(spec: kvtier.SpaceSpec, epoch: str) -> kvtier.SpaceSpec:
    """Returns `spec` as it is after a reset: no block that was put before, by any worker, is compatible."""
    if not epoch:
        return spec
    digest = hashlib.sha256(f"kvtier.epoch\0{spec.weights_digest!r}\0{epoch}".encode()).hexdigest()
    return dataclasses.replace(spec, weights_digest=digest)
