"""The connector on calls that a real engine made, in its order: its answers are those that the engine got.

protocols/VERSION.jsonl has a request that is saved, one that loads it, one whose load fails, and one behind a reset, as
live/record_protocol.py recorded them.
"""

import json
import unittest
from pathlib import Path
from types import SimpleNamespace

from stand_ins import Request, Step
from test_connector import WithConnector

PROTOCOLS = sorted((Path(__file__).parent / "protocols").glob("*.jsonl"))


class Replay(WithConnector):
    """Saves end at once, and are then in the table; loads end, block by block, as the recording says."""

    def replay(self, path):
        calls = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for place, call in enumerate(calls):
            with self.subTest(path=path.name, line=place + 1, method=call["method"]):
                answer = getattr(self, f"call_{call['method']}")(*call["arguments"], *self.ends_of_loads(calls, place))
                self.assertEqual(answer, call["result"])
        return calls

    def ends_of_loads(self, calls, place):
        """Of a pass that answered loads: their requests, and the blocks that did not come."""
        if calls[place]["method"] != "get_transfer_results":
            return ()
        failed = next(call["result"] for call in calls[place:] if call["method"] == "get_block_ids_with_load_errors")
        return calls[place]["result"]["finished_recving"], failed

    def call_get_num_new_matched_tokens(self, request, computed):
        return list(self.scheduler.get_num_new_matched_tokens(self.request(request), computed))

    def call_update_state_after_alloc(self, request, blocks, tokens):
        return self.scheduler.update_state_after_alloc(self.request(request), SimpleNamespace(get_block_ids=lambda: blocks),
                                                       tokens)

    def call_build_connector_meta(self, scheduled):
        step = Step()
        for name, computed, blocks in scheduled["new"]:
            step.new(name, computed, 0, *blocks)
        for name, computed, blocks, resumed in scheduled["cached"]:
            step.cached(name, computed, 0, *(blocks or ()), resumed=resumed)
        step.num_scheduled_tokens = scheduled["scheduled"]
        self.meta = self.scheduler.build_connector_meta(step)
        return type(self.meta).__name__

    def call_handle_preemptions(self, meta):
        self.worker.handle_preemptions(self.meta)
        self.worker.bind_connector_metadata(self.meta)

    def call_start_load_kv(self, context):
        self.worker.start_load_kv(context)

    def call_wait_for_save(self):
        self.worker.wait_for_save()
        for job in self.lanes[-1].offloads:
            if not job.done:
                job.end()
                self.saved += job.keys
                self.clients[-1].put(self.clients[-1].registered[-1], job.keys)

    def call_get_transfer_results(self, finished, ended, failed_blocks):
        for job in self.lanes[-1].onboards:
            if ended and not job.done:
                job.end([block not in failed_blocks for block in job.blocks])
        return self.output(self.worker.get_transfer_results(set(finished)))

    def call_get_block_ids_with_load_errors(self):
        return sorted(self.worker.get_block_ids_with_load_errors())

    def call_update_connector_output(self, output):
        self.scheduler.update_connector_output(SimpleNamespace(**output))

    def call_request_finished_all_groups(self, request, blocks):
        return list(self.scheduler.request_finished_all_groups(self.request(request), tuple(blocks)))

    def call_reset_cache(self):
        return self.scheduler.reset_cache()

    def request(self, facts):
        """The engine's object, which is the same in all calls and grows."""
        request = self.requests.setdefault(facts["request_id"], Request(facts["request_id"], 0, []))
        request.num_tokens, request.num_preemptions = facts["num_tokens"], facts["num_preemptions"]
        request.block_hashes = [bytes.fromhex(digest) for digest in facts["block_hashes"]]
        return request

    def output(self, results):
        return {"finished_sending": sorted(results.finished_sending), "finished_recving": sorted(results.finished_recving),
                "failed_recving": sorted(results.failed_recving), "invalid_block_ids": []}

    def test_the_answers_are_those_that_the_engine_got(self):
        self.assertTrue(PROTOCOLS)
        for path in PROTOCOLS:
            self.requests, self.saved = {}, []
            calls = self.replay(path)
            answers = [call["result"] for call in calls if call["method"] == "get_num_new_matched_tokens"]
            self.assertEqual(answers, [[0, False], [128, True], [128, True], [0, False], [0, False]])
            # Of 150 tokens and 12 of the answer five blocks are full: saved, put again when they failed, and anew
            # behind the reset. The fifth of the others was there.
            counts = [self.saved.count(key) for key in dict.fromkeys(self.saved)]
            self.assertEqual(counts[:4], [3, 3, 3, 3])
            self.assertEqual(self.scheduler._scheduler._requests, {})


if __name__ == "__main__":
    unittest.main()
