"""A connector for vLLM that has nothing, and answers "ask again" as often as a request says: steps without work.

The engine that has it shows what one such step costs. vLLM loads it by its module's path.
"""

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1 import base


class AskingAgainConnector(base.KVConnectorBase_V1, base.SupportsHMA):
    """Methods that do nothing; a request's kv_transfer_params {"asks": N} is answered "ask again" N times."""

    def __init__(self, vllm_config: Any, role: base.KVConnectorRole, kv_cache_config: Any = None) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._asked: dict[str, int] = {}

    @property
    def requires_kv_delivery(self) -> bool:
        """Returns False: nothing is delivered."""
        return False

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        """Returns None as often as the request says, then 0."""
        asks = (request.kv_transfer_params or {}).get("asks", 0)
        asked = self._asked.get(request.request_id, 0)
        self._asked[request.request_id] = asked + 1
        return (None if asked < asks else 0), False

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> tuple[bool, dict | None]:
        """Forgets the request."""
        self._asked.pop(request.request_id, None)
        return False, None

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict | None]:
        """Forgets the request."""
        return self.request_finished_all_groups(request, block_ids)

    def build_connector_meta(self, scheduler_output: Any) -> base.KVConnectorMetadata:
        """Returns nothing for the workers."""
        return base.KVConnectorMetadata()

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Does nothing."""

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Does nothing."""

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Does nothing."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None:
        """Does nothing."""

    def wait_for_save(self) -> None:
        """Does nothing."""
