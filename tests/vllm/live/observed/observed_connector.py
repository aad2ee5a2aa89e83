"""KvtierConnector that writes down what bytes the engine's own blocks have: at each save, and after each load.

It serves real engines of one KV group. KVTIER_OBSERVED names a folder, in which each process appends lines of JSON to
a file of its own. observations.py reads them. Files in the folder named as in _ORDERS have the process do something once.
"""

import functools
import hashlib
import json
import os
import time
from pathlib import Path

import torch

from kvtier.vllm import KvtierConnector
from kvtier.vllm.space import space_of_weights

_CALLS = ("get_num_new_matched_tokens", "update_state_after_alloc", "build_connector_meta", "update_connector_output",
          "request_finished_all_groups", "handle_preemptions", "start_load_kv", "wait_for_save", "get_transfer_results",
          "get_kv_connector_stats")
_LONG_CALL_S = 0.02
_ORDERS = ("plant", "fork-scheduler", "fork-worker")


class TimedConnector(KvtierConnector):
    """The connector, which writes a line for each call of _CALLS that takes long."""

    def __init__(self, vllm_config, role, kv_cache_config=None):
        self._folder = Path(os.environ["KVTIER_OBSERVED"])
        self._observed_side = role.name.lower()
        file = self._folder / f"{self._observed_side}-{os.getpid()}.jsonl"
        self._lines = open(file, "a", buffering=1, encoding="utf-8")
        super().__init__(vllm_config, role, kv_cache_config)

    def write(self, kind, **facts):
        """Appends a line to the file of this process."""
        self._lines.write(json.dumps({"kind": kind, "at": time.monotonic(), "pid": os.getpid(), **facts}) + "\n")


def timed(name):
    """Returns the method `name`, which also writes a line when it took long."""
    method = getattr(KvtierConnector, name)

    @functools.wraps(method)
    def call(self, *arguments, **named):
        began = time.monotonic()
        try:
            return method(self, *arguments, **named)
        finally:
            seconds = time.monotonic() - began
            if seconds > _LONG_CALL_S:
                self.write("call", method=name, seconds=seconds)

    return call


for _name in _CALLS:
    setattr(TimedConnector, _name, timed(_name))


class ObservedConnector(TimedConnector):
    """The connector, which writes a line with the digest of the engine's bytes for each block saved or loaded."""

    def __init__(self, vllm_config, role, kv_cache_config=None):
        super().__init__(vllm_config, role, kv_cache_config)
        self._loading = {}  # Id of a request -> (key, engine's block) of each block of its running loads.
        self._ended = []  # The same pairs of loads that ended in this step.
        self._digest_now = ""

    # These methods are the worker's.

    def register_kv_caches(self, kv_caches):
        super().register_kv_caches(kv_caches)
        blocks = self._kv_cache_config.num_blocks
        # Views with the blocks first, whose rows are an engine's block of one layer.
        self._layers = [tensor.movedim(tuple(tensor.shape).index(blocks), 0) for tensor in kv_caches.values()]
        [spec] = self.get_handshake_metadata().specs
        self.write("space", space=self._space(), spec=repr(spec))

    def handle_preemptions(self, kv_connector_metadata):
        if kv_connector_metadata.plan.weights_digest is not None:
            self._digest_now = kv_connector_metadata.plan.weights_digest
        super().handle_preemptions(kv_connector_metadata)

    def start_load_kv(self, forward_context, **kwargs):
        if self._ordered("fork-worker"):
            self._fork(lambda: (self.get_transfer_results(set()), self.get_block_ids_with_load_errors()))
        plan = self._get_connector_metadata().plan
        for load in plan.loads:
            [blocks] = load.blocks
            self._loading.setdefault(load.request_id, []).extend(zip(load.keys, blocks))
        super().start_load_kv(forward_context, **kwargs)

    def wait_for_save(self):
        plan = self._get_connector_metadata().plan
        for save in plan.saves:
            [blocks] = save.blocks
            for key, block in zip(save.keys, blocks):
                self._write_block("save", key, block)
        super().wait_for_save()

    def get_transfer_results(self, finished_req_ids):
        results = super().get_transfer_results(finished_req_ids)
        for request_id in results.finished_recving or ():
            self._ended.extend(self._loading.pop(request_id, ()))
        return results

    def get_block_ids_with_load_errors(self):
        failed = super().get_block_ids_with_load_errors()
        ended, self._ended = self._ended, []
        came = [(key, block) for key, block in ended if block not in failed]
        planted = bool(came) and self._ordered("plant")
        for key, block in came:
            if planted:
                for layer in self._layers:
                    layer[block].zero_()
            self._write_block("load", key, block, planted=planted)
        for key, block in ended:
            if block in failed:
                self.write("failed", key=key.hex(), space=self._space())
        return failed

    # These methods are the scheduler's.

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        if self._ordered("fork-scheduler"):
            self._fork(lambda: super(ObservedConnector, self).get_num_new_matched_tokens(request, num_computed_tokens))
        return super().get_num_new_matched_tokens(request, num_computed_tokens)

    def _space(self):
        """Returns a name of the current space: the weights' digest may come after the start, and changes with a reset."""
        [spec] = self.get_handshake_metadata().specs
        return hashlib.sha256(repr(space_of_weights(spec, self._digest_now)).encode()).hexdigest()[:16]

    def _write_block(self, kind, key, block, **facts):
        digest = hashlib.blake2b(digest_size=16)
        for layer in self._layers:
            digest.update(layer[block].contiguous().view(torch.uint8).numpy())
        self.write(kind, key=key.hex(), space=self._space(), digest=digest.hexdigest(), **facts)

    def _ordered(self, order):
        """Returns whether the file `order` lies in the folder, and removes it."""
        assert order in _ORDERS
        try:
            (self._folder / order).unlink()
            return True
        except FileNotFoundError:
            return False

    def _fork(self, ask):
        """Makes a forked child ask what this process asks, and waits for its end."""
        child = os.fork()
        if child == 0:
            try:
                self.write("child", answer=repr(ask()))
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        self.write("forked", exit_code=os.waitstatus_to_exitcode(status))
