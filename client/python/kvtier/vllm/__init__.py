"""The connector that vLLM loads by configuration alone; docs/engines/vllm.md says how.

    --kv-transfer-config '{"kv_connector": "KvtierConnector", "kv_connector_module_path": "kvtier.vllm",
      "kv_role": "kv_both", "kv_load_failure_policy": "recompute",
      "kv_connector_extra_config": {"socket_dir": "/run/kvtier"}}'

vllm is imported only when KvtierConnector is asked for. The other modules of this package know the engine's objects
by their attributes and are tested without vllm.
"""

__all__ = ["KvtierConnector"]


def __getattr__(name: str) -> object:
    """Returns KvtierConnector, which needs vllm, when it is asked for. AttributeError: there is no `name`."""
    if name == "KvtierConnector":
        from .connector import KvtierConnector
        return KvtierConnector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
