"""KvtierConnector that writes down what the engine calls, for tests/vllm/protocols."""

import functools
import json
import os

from kvtier.vllm import KvtierConnector

METHODS = ("get_num_new_matched_tokens", "update_state_after_alloc", "build_connector_meta", "update_connector_output",
           "request_finished_all_groups", "reset_cache", "handle_preemptions", "start_load_kv", "wait_for_save",
           "get_transfer_results", "get_block_ids_with_load_errors")
_calls = open(os.environ["KVTIER_RECORD"], "a", buffering=1, encoding="utf-8")


def plain(value):
    """Returns what a replay needs of an argument or a result, as JSON has it."""
    kind = type(value).__name__
    if kind == "Request":
        return {"request_id": value.request_id, "num_tokens": value.num_tokens, "num_preemptions": value.num_preemptions,
                "block_hashes": [bytes(digest).hex() for digest in value.block_hashes]}
    if kind == "KVCacheBlocks":
        return [list(group) for group in value.get_block_ids()]
    if kind == "SchedulerOutput":
        cached = value.scheduled_cached_reqs
        return {"new": [[new.req_id, new.num_computed_tokens, plain(new.block_ids)] for new in value.scheduled_new_reqs],
                "cached": [[name, computed, plain(blocks), name in cached.resumed_req_ids] for name, computed, blocks in
                           zip(cached.req_ids, cached.num_computed_tokens, cached.new_block_ids)],
                "scheduled": dict(value.num_scheduled_tokens)}
    if kind in ("KVConnectorOutput", "KVConnectorTransferResults"):
        return {name: sorted(getattr(value, name, None) or ()) for name in
                ("finished_sending", "finished_recving", "failed_recving", "invalid_block_ids")}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return value if isinstance(value, (int, str, bool, type(None))) else kind


class RecordedConnector(KvtierConnector):
    """The connector, which writes each call of METHODS as a line of JSON to the file that KVTIER_RECORD names."""


def recorded(name):
    method = getattr(KvtierConnector, name)

    @functools.wraps(method)
    def call(self, *arguments):
        asked = plain(arguments)  # The arguments' state before the call.
        result = method(self, *arguments)
        _calls.write(json.dumps({"method": name, "arguments": asked, "result": plain(result)}) + "\n")
        return result

    return call


for _name in METHODS:
    setattr(RecordedConnector, _name, recorded(_name))
