"""The connector against the interface of several versions of vLLM: drift fails by the method's name."""

import inspect
import json
import unittest
from pathlib import Path

import vllm_stub

vllm_stub.install()
from kvtier.vllm import connector  # noqa: E402 (the stubs come first)

CLASSES = {"KVConnectorBase_V1": connector.KvtierConnector, "SupportsHMA": connector.KvtierConnector,
           "KVConnectorStats": connector.KvtierStats, "KVConnectorPromMetrics": connector.KvtierPromMetrics}
# Methods that the connector leaves to the engine's base class, in every version. A new method is not
# among them: somebody has to read what it is for.
LEFT_TO_THE_BASE = {
    "bind_connector_metadata", "bind_gpu_block_pool", "bind_kv_cache_manager", "clear_connector_metadata",
    "finish_forward", "get_external_cache_hit_sources", "get_finished_count", "get_kv_connector_kv_cache_events",
    "get_loaded_kv_cache_group_ids", "get_mem_pool_context", "get_required_kvcache_layout", "has_connector_metadata",
    "has_pending_block_frees", "has_pending_push_work", "on_new_request", "supports_sleep_mode",
    "prefer_cross_layer_blocks", "register_cross_layers_kv_cache", "register_finished_partial_tail",
    "requires_piecewise_for_cudagraph", "reset_capture_state", "role", "set_host_xfer_buffer_ops",
    "supports_divergent_local_hybrid_hits", "take_events", "to_dict"}


def versions():
    for path in sorted((Path(__file__).parent / "signatures").glob("*.json")):
        interface = json.loads(path.read_text(encoding="utf-8"))
        yield interface["version"], interface["classes"]


def each_method():
    for version, classes in versions():
        for name, methods in classes.items():
            for method, facts in methods.items():
                yield f"{name}.{method} of vLLM {version}", CLASSES[name], method, facts


class Signatures(unittest.TestCase):
    def test_the_newest_and_older_versions_are_known(self):
        self.assertEqual([version for version, _ in versions()], ["0.24.0", "0.28.0", "0.32.0", "0.33.0"])

    def test_every_method_is_the_connectors_or_is_left_to_the_base(self):
        for called, ours, method, _ in each_method():
            self.assertTrue(method in LEFT_TO_THE_BASE or method in vars(ours), called)

    def test_every_abstract_method_is_there(self):
        for called, ours, method, facts in each_method():
            if facts.get("abstractmethod"):
                self.assertIn(method, vars(ours), called)

    def test_what_the_engine_passes_is_taken_by_name_and_by_place(self):
        for called, ours, method, facts in each_method():
            if method not in vars(ours) or facts.get("property"):
                continue
            taken = list(inspect.signature(inspect.unwrap(inspect.getattr_static(ours, method).__func__
                         if facts.get("classmethod") else getattr(ours, method))).parameters)
            self.assertEqual(taken[:len(facts["parameters"])], facts["parameters"], called)


if __name__ == "__main__":
    unittest.main()
