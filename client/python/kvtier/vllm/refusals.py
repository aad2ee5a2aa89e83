"""The settings that the connector refuses when the engine starts, each by its name."""

from typing import Any

from .space import tensor_copies

# Methods of speculative decoding whose drafts come from text, or from heads that keep no KV.
_DRAFTS_WITHOUT_KV = ("ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator")
_GROUP_KINDS = ("FullAttentionSpec", "SlidingWindowSpec", "ChunkedLocalAttentionSpec", "MLAAttentionSpec",
                "SlidingWindowMLASpec", "UniformTypeKVCacheSpecs")
# Most spaces of one client; each group needs one for each pipeline rank and each tensor rank with other KV.
_MAX_SPACES = 16


def refuse_unsupported(vllm_config: Any, kv_cache_config: Any, fails_by_request: bool, announces_sleep: bool) -> None:
    """Raises ValueError, naming the field and its value, for what the connector does not support.

    `fails_by_request` says whether this vLLM can be told that a request's load failed, without block ids.
    `announces_sleep` says whether it tells the connector when it takes the blocks' memory away, and when it is back.
    """
    role = getattr(vllm_config.kv_transfer_config, "kv_role", None)
    if role != "kv_both":
        raise ValueError(f"kv_transfer_config.kv_role is {role!r}; must be 'kv_both': what is loaded is also saved")
    speculative = getattr(vllm_config, "speculative_config", None)
    if speculative is not None:
        method = getattr(speculative, "method", None)
        if method not in _DRAFTS_WITHOUT_KV:
            raise ValueError(f"speculative_config.method is {method!r}, which keeps KV of a draft that is not "
                             f"saved; must be one of {', '.join(_DRAFTS_WITHOUT_KV)}")
    parallel = vllm_config.parallel_config
    for name in ("decode_context_parallel_size", "prefill_context_parallel_size"):
        if getattr(parallel, name, 1) > 1:
            raise ValueError(f"parallel_config.{name} is {getattr(parallel, name)}; must be 1")
    if getattr(vllm_config.cache_config, "calculate_kv_scales", False):
        raise ValueError("cache_config.calculate_kv_scales is True; must be False, because scales that are made while "
                         "running are in no block: give them with the weights")
    if getattr(vllm_config.model_config, "enable_sleep_mode", False) and not announces_sleep:
        raise ValueError("model_config.enable_sleep_mode is True; must be False, because this vLLM does not say when "
                         "it takes the blocks' memory away (vLLM 0.33 does)")
    if getattr(vllm_config, "use_v2_model_runner", False) and getattr(kv_cache_config, "needs_kv_cache_zeroing", False):
        raise ValueError("use_v2_model_runner is True and the KV cache needs zeroing: that runner zeroes blocks before "
                         "a connector can end its copies out of them; set VLLM_USE_V2_MODEL_RUNNER=0")
    groups = len(kv_cache_config.kv_cache_groups)
    if groups > 1 and not fails_by_request:
        raise ValueError(f"kv_cache_groups has {groups} groups; must have 1, because this vLLM is told of failed loads "
                         "by block alone and not by request (vLLM 0.32 is)")
    _refuse_groups(vllm_config, kv_cache_config)


def _refuse_groups(vllm_config: Any, kv_cache_config: Any) -> None:
    groups = kv_cache_config.kv_cache_groups
    if not groups:
        raise ValueError("kv_cache_groups is empty; must have a group, and a model without KV has nothing to store")
    for place, group in enumerate(groups):
        kind = type(group.kv_cache_spec).__name__
        if kind not in _GROUP_KINDS:
            raise ValueError(f"kv_cache_groups[{place}] is a {kind}; must be one of {', '.join(_GROUP_KINDS)}")
        tokens = group.kv_cache_spec.block_size
        if tokens != block_tokens(kv_cache_config):
            raise ValueError(f"kv_cache_groups[{place}].block_size is {tokens}; must be that of group 0, "
                             f"{block_tokens(kv_cache_config)}")
    hashed = getattr(vllm_config.cache_config, "hash_block_size", None)
    if hashed is not None and hashed != block_tokens(kv_cache_config):
        raise ValueError(f"cache_config.hash_block_size is {hashed}; must be the block size, "
                         f"{block_tokens(kv_cache_config)}")
    parallel = vllm_config.parallel_config
    tensor_size = parallel.tensor_parallel_size
    spaces = parallel.pipeline_parallel_size * sum(tensor_size // tensor_copies(group.kv_cache_spec, tensor_size)
                                                   for group in groups)
    if spaces > _MAX_SPACES:
        raise ValueError(f"{len(groups)} KV groups, tensor_parallel_size {parallel.tensor_parallel_size} and "
                         f"pipeline_parallel_size {parallel.pipeline_parallel_size} make {spaces} spaces; "
                         f"must make at most {_MAX_SPACES}, which a session holds")


def block_tokens(kv_cache_config: Any) -> int:
    """Returns the tokens of a block of the first KV group."""
    return int(kv_cache_config.kv_cache_groups[0].kv_cache_spec.block_size)
