"""The calls that a real engine made of the connector, made again in their order.

protocols/VERSION.jsonl has a request that is saved, one that loads it, one whose load fails, and one after a reset, as
live/record_protocol.py recorded them.
"""

import json
from pathlib import Path
from types import SimpleNamespace

from stand_ins import Request, Step

PROTOCOLS = sorted((Path(__file__).parent / "protocols").glob("*.jsonl"))


def calls_of(path):
    """Returns the calls of a recording: dicts with "method", "arguments" and "result"."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Recording:
    """Makes recorded calls of `scheduler` and `worker`, the connectors of both roles.

    `saves_begun` and `loads_end` are called where the engine's forward pass would let copies go on.
    """

    def __init__(self, scheduler, worker, saves_begun=lambda: None, loads_end=lambda failed: None):
        self.scheduler, self.worker = scheduler, worker
        self._saves_begun, self._loads_end = saves_begun, loads_end
        self._requests = {}

    def call(self, calls, place):
        """Makes one call, and returns its answer as JSON has it."""
        if calls[place]["method"] == "get_transfer_results" and calls[place]["result"]["finished_recving"]:
            self._loads_end(next(call["result"] for call in calls[place:]
                                 if call["method"] == "get_block_ids_with_load_errors"))
        return getattr(self, f"_{calls[place]['method']}")(*calls[place]["arguments"])

    def _get_num_new_matched_tokens(self, request, computed):
        return list(self.scheduler.get_num_new_matched_tokens(self._request(request), computed))

    def _update_state_after_alloc(self, request, blocks, tokens):
        return self.scheduler.update_state_after_alloc(self._request(request), SimpleNamespace(get_block_ids=lambda: blocks),
                                                       tokens)

    def _build_connector_meta(self, scheduled):
        step = Step()
        for name, computed, blocks in scheduled["new"]:
            step.new(name, computed, 0, *blocks)
        for name, computed, blocks, resumed in scheduled["cached"]:
            step.cached(name, computed, 0, *(blocks or ()), resumed=resumed)
        step.num_scheduled_tokens = scheduled["scheduled"]
        self._meta = self.scheduler.build_connector_meta(step)
        return type(self._meta).__name__

    def _handle_preemptions(self, meta):
        self.worker.handle_preemptions(self._meta)
        self.worker.bind_connector_metadata(self._meta)

    def _start_load_kv(self, context):
        self.worker.start_load_kv(context)

    def _wait_for_save(self):
        self.worker.wait_for_save()
        self._saves_begun()

    def _get_transfer_results(self, finished):
        results = self.worker.get_transfer_results(set(finished))
        return {"finished_sending": sorted(results.finished_sending), "finished_recving": sorted(results.finished_recving),
                "failed_recving": sorted(results.failed_recving), "invalid_block_ids": []}

    def _get_block_ids_with_load_errors(self):
        return sorted(self.worker.get_block_ids_with_load_errors())

    def _update_connector_output(self, output):
        self.scheduler.update_connector_output(SimpleNamespace(**output))

    def _request_finished_all_groups(self, request, blocks):
        return list(self.scheduler.request_finished_all_groups(self._request(request), tuple(blocks)))

    def _reset_cache(self):
        return self.scheduler.reset_cache()

    def _request(self, facts):
        """Returns the engine's object of a request, which is the same in all calls and grows."""
        request = self._requests.setdefault(facts["request_id"], Request(facts["request_id"], 0, []))
        request.num_tokens, request.num_preemptions = facts["num_tokens"], facts["num_preemptions"]
        request.block_hashes = [bytes.fromhex(digest) for digest in facts["block_hashes"]]
        return request
