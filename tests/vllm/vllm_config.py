"""Configurations of the engine with the fields that the connector reads."""

from types import SimpleNamespace

from stand_ins import BLOCK_TOKENS

BLOCKS, HEADS, LAYERS = 40, 3, 2
NAMES = [f"model.layers.{i}.self_attn.attn" for i in range(LAYERS)]


class FullAttentionSpec(SimpleNamespace):
    pass


class SlidingWindowSpec(SimpleNamespace):
    pass


class MLAAttentionSpec(SimpleNamespace):
    pass


class MambaSpec(SimpleNamespace):
    pass


def attention(kind=FullAttentionSpec, tokens=BLOCK_TOKENS):
    return kind(block_size=tokens, num_kv_heads=HEADS, head_size=64, sliding_window=None)


def make_config(policy="recompute", extra=None, method=None, model=None, **parallel):
    """Returns a VllmConfig; `model` are more fields of its model_config."""
    layer = SimpleNamespace(get_attn_backend=lambda: SimpleNamespace(get_name=lambda: "CPU_ATTN"))
    return SimpleNamespace(
        kv_transfer_config=SimpleNamespace(
            kv_connector_extra_config={"weights_digest": "w", "peers": False, **(extra or {})},
            kv_load_failure_policy=policy, kv_role="kv_both"),
        model_config=SimpleNamespace(model="/models/smol", revision=None, hf_overrides={}, **(model or {})),
        cache_config=SimpleNamespace(cache_dtype="auto", calculate_kv_scales=False, hash_block_size=None),
        parallel_config=SimpleNamespace(**{"tensor_parallel_size": 1, "pipeline_parallel_size": 1,
                                           "decode_context_parallel_size": 1, **parallel}),
        speculative_config=None if method is None else SimpleNamespace(method=method),
        compilation_config=SimpleNamespace(static_forward_context={name: layer for name in NAMES}))


def make_cache_config(*specs, blocks=BLOCKS):
    groups = [SimpleNamespace(kv_cache_spec=spec, layer_names=NAMES) for spec in specs or [attention()]]
    return SimpleNamespace(num_blocks=blocks, kv_cache_groups=groups)
