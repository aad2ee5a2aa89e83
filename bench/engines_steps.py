"""Measures what the connector costs the engine's steps: the real classes, agent and lanes, beside empty methods.

    VENV/bin/python engines_steps.py FOLDER MODEL [STEPS]

Run it with the interpreter of vLLM's venv, with kvtier on its path. Both connectors get the calls of a step in the
engine's order, in turns; what crosses from the scheduler to the worker is pickled, as between the engine's processes.
"""

import hashlib
import os
import pickle
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.update({"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"})

import torch  # noqa: E402 (the environment comes first)
from engines_asking_again import AskingAgainConnector  # noqa: E402
from engines_medians import percentile_of, print_figure  # noqa: E402
from engines_node import Node, free_port  # noqa: E402
from vllm.config import KVTransferConfig, set_current_vllm_config  # noqa: E402
from vllm.distributed import parallel_state  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole  # noqa: E402
from vllm.engine.arg_utils import EngineArgs  # noqa: E402
from vllm.v1.core.sched.output import CachedRequestData, NewRequestData, SchedulerOutput  # noqa: E402
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec  # noqa: E402
from vllm.v1.outputs import KVConnectorOutput  # noqa: E402

from kvtier.vllm import KvtierConnector  # noqa: E402

LAYERS, HEADS, TOKENS, DIM = 30, 3, 32, 64
BLOCKS = 728  # Blocks of the engine, as many as 1 GiB of KV has.
PROMPT_BLOCKS = 31
_RUNNING = 8  # Requests that decode.
_SETTLED_S = 30


@dataclass
class Request:
    """The fields of the engine's request that connectors read."""

    request_id: str
    num_tokens: int
    block_hashes: list[bytes]
    lora_request: Any = None
    kv_transfer_params: Any = None
    num_preemptions: int = 0
    skip_reading_prefix_cache: bool = False


def new_request(name: str, tokens: int) -> Request:
    """Returns a request whose hashes no other one has."""
    return Request(name, tokens, [hashlib.sha256(f"{name} {i}".encode()).digest() for i in range(tokens // TOKENS)])


@dataclass
class Sides:
    """A connector's two instances, as the scheduler and the worker have them."""

    scheduler: Any
    worker: Any
    seconds: dict[str, list[float]] = field(default_factory=dict)  # Seconds in a step's calls, by the kind of step.
    cpu_seconds: dict[str, list[float]] = field(default_factory=dict)  # Processor seconds of the calling thread.
    counts: dict[str, int] = field(default_factory=dict)  # Worker statistics since they were last taken.

    def step(self, kind: str, arriving: list[Request], output: SchedulerOutput, layers: list[str]) -> None:
        """Makes all calls of one step, and notes what they took."""
        began, ran = time.perf_counter(), time.thread_time()
        for request in arriving:
            self.scheduler.on_new_request(request)
            tokens, _ = self.scheduler.get_num_new_matched_tokens(request, 0)
            if tokens:
                raise RuntimeError(f"{request.request_id} is a hit of {tokens} tokens")
            self.scheduler.update_state_after_alloc(request, _NO_BLOCKS, 0)
        metadata = pickle.loads(pickle.dumps(self.scheduler.build_connector_meta(output)))
        worker = self.worker
        worker.handle_preemptions(metadata)
        worker.bind_connector_metadata(metadata)
        for name in layers:
            worker.wait_for_layer_load(name)
            worker.save_kv_layer(name, None, None)
        worker.start_load_kv(None)
        worker.wait_for_save()
        results = worker.get_transfer_results(output.finished_req_ids)
        told = KVConnectorOutput(finished_recving=results.finished_recving,
                                 invalid_block_ids=worker.get_block_ids_with_load_errors(),
                                 kv_connector_stats=worker.get_kv_connector_stats(),
                                 kv_cache_events=worker.get_kv_connector_kv_cache_events(),
                                 kv_connector_worker_meta=worker.build_connector_worker_meta())
        worker.clear_connector_metadata()
        told = pickle.loads(pickle.dumps(told))
        self.scheduler.update_connector_output(told)
        self.scheduler.get_kv_connector_stats()
        list(self.scheduler.take_events())
        self.seconds.setdefault(kind, []).append(time.perf_counter() - began)
        self.cpu_seconds.setdefault(kind, []).append(time.thread_time() - ran)
        self.note(told.kv_connector_stats)

    def note(self, stats: Any) -> None:
        """Adds the worker's statistics of a step to the counts."""
        for name, amount in stats.data.items() if stats is not None else ():
            self.counts[name] = self.counts.get(name, 0) + amount


_NO_BLOCKS = SimpleNamespace(get_block_ids=lambda: ([],))


def scheduled(new: list[tuple[Request, list[int]]], decoding: list[Request]) -> SchedulerOutput:
    """Returns a step that computes new prompts whole, and a token of each request that decodes."""
    prompts = [NewRequestData(request.request_id, [], [], None, None, (blocks,), 0, None) for request, blocks in new]
    count = len(decoding)
    cached = CachedRequestData([request.request_id for request in decoding], set(), [], {}, [None] * count,
                               [request.num_tokens for request in decoding], [1] * count)
    tokens = {request.request_id: request.num_tokens for request, _ in new}
    tokens.update({request.request_id: 1 for request in decoding})
    return SchedulerOutput(prompts, cached, tokens, sum(tokens.values()), {}, {}, set(), [])


class Engine:
    """The parts of an engine that its connectors are made of, with KV tensors that exist."""

    def __init__(self, model: str, socket_dir: str) -> None:
        transfer = KVTransferConfig(kv_connector="KvtierConnector", kv_connector_module_path="kvtier.vllm",
                                    kv_role="kv_both", kv_load_failure_policy="recompute",
                                    kv_connector_extra_config={"socket_dir": socket_dir, "recompute_tokens_per_s": 400})
        self.config = EngineArgs(model=model, dtype="float32", max_model_len=2048, block_size=TOKENS, enforce_eager=True,
                                 prefix_caching_hash_algo="sha256_cbor", kv_transfer_config=transfer).create_engine_config()
        self.layers = [f"model.layers.{i}.self_attn.attn" for i in range(LAYERS)]
        spec = FullAttentionSpec(block_size=TOKENS, num_kv_heads=HEADS, head_size=DIM, dtype=torch.float32)
        self.cache = KVCacheConfig(num_blocks=BLOCKS, kv_cache_tensors=[],
                                   kv_cache_groups=[KVCacheGroupSpec(self.layers, spec)])
        backend = SimpleNamespace(get_name=lambda: "CPU_ATTN")
        for name in self.layers:
            self.config.compilation_config.static_forward_context[name] = SimpleNamespace(get_attn_backend=lambda: backend)
        storage = torch.rand(LAYERS * BLOCKS * HEADS * TOKENS * 2 * DIM)
        self.tensors = dict(zip(self.layers, storage.view(LAYERS, BLOCKS, HEADS, TOKENS, 2 * DIM)))

    def connector(self, kind: type) -> Sides:
        """Returns both sides of a connector, made and introduced to each other as the engine does it."""
        worker = kind(self.config, KVConnectorRole.WORKER, self.cache)
        worker.register_kv_caches(self.tensors)
        scheduler = kind(self.config, KVConnectorRole.SCHEDULER, self.cache)
        scheduler.set_xfer_handshake_metadata_pp_aware({(0, 0): worker.get_handshake_metadata()} if
                                                       worker.get_handshake_metadata() is not None else {})
        return Sides(scheduler, worker)


class Steps:
    """The steps of two connectors, in turns."""

    def __init__(self, engine: Engine, node: Node) -> None:
        self._engine, self._node = engine, node
        with set_current_vllm_config(engine.config):
            self.kvtier = engine.connector(KvtierConnector)
            self.empty = engine.connector(AskingAgainConnector)
        self._count = 0

    def run(self, steps: int, storing: int) -> None:
        """Runs `steps` of each kind that stores nothing, and `storing` that store a prompt."""
        decoding = [self._begin(TOKENS * 2 + 1, [2 * i + 1, 2 * i + 2]) for i in range(_RUNNING)]
        self.await_saved(_RUNNING * 2)
        for _ in range(steps):
            self._both("nothing", [], scheduled([], decoding))
        for _ in range(steps):
            request = self._request(TOKENS * PROMPT_BLOCKS + 15)
            # It is looked up in this step, and has to wait for room.
            self._both("miss", [request], scheduled([], decoding))
            self._forget(request)
        for turn in range(storing):
            request = self._request(TOKENS * PROMPT_BLOCKS + 15)
            first = 1 + 2 * _RUNNING + turn % 20 * PROMPT_BLOCKS
            self._both("store", [request], scheduled([(request, list(range(first, first + PROMPT_BLOCKS + 1)))], decoding))
            self.await_saved(PROMPT_BLOCKS)
            self._forget(request)

    def await_saved(self, blocks: int) -> None:
        """Makes steps without work until so many blocks are saved. RuntimeError: they never were."""
        deadline, counts = time.monotonic() + _SETTLED_S, self.kvtier.counts
        while counts.get("saved_blocks", 0) < blocks:
            self._idle_step()
            if counts.get("unsaved_blocks") or time.monotonic() > deadline:
                raise RuntimeError(f"not {blocks} blocks were saved: {counts}")
        counts.clear()

    def close(self) -> None:
        """Ends both connectors."""
        for sides in (self.kvtier, self.empty):
            sides.worker.shutdown()
            sides.scheduler.shutdown()

    def _begin(self, tokens: int, blocks: list[int]) -> Request:
        request = self._request(tokens)
        self._both("first", [request], scheduled([(request, blocks)], []))
        return request

    def _request(self, tokens: int) -> Request:
        self._count += 1
        return new_request(f"request {self._count}", tokens)

    def _forget(self, request: Request) -> None:
        for sides in (self.kvtier, self.empty):
            sides.scheduler.request_finished_all_groups(request, ([],))

    def _both(self, kind: str, arriving: list[Request], output: SchedulerOutput) -> None:
        turns = (self.kvtier, self.empty) if self._count % 2 else (self.empty, self.kvtier)
        for sides in turns:
            sides.step(kind, arriving, output, self._engine.layers)

    def _idle_step(self) -> None:
        worker = self.kvtier.worker
        worker.bind_connector_metadata(self.kvtier.scheduler.build_connector_meta(scheduled([], [])))
        worker.get_transfer_results(set())
        self.kvtier.note(worker.get_kv_connector_stats())
        worker.clear_connector_metadata()


def print_results(steps: Steps) -> None:
    """Prints each kind of step beside the empty class's; the first share of steps is what is promised."""
    for kind, shares, bound in (("nothing", (0.5, 0.99), 50), ("miss", (0.5, 0.99), 50), ("store", (0.99, 0.5), 2000)):
        for share in shares:
            name = f"engines.step.{kind}.p{100 * share:.0f}"
            mine, empty = (1e6 * percentile_of(sides.seconds[kind], share) for sides in (steps.kvtier, steps.empty))
            ran, idle = (1e6 * percentile_of(sides.cpu_seconds[kind], share) for sides in (steps.kvtier, steps.empty))
            print(f"{name}: kvtier {mine:.4g} us, of which its thread ran {ran:.4g}; empty class {empty:.4g}, ran {idle:.4g}; "
                  f"{len(steps.kvtier.seconds[kind])} steps")
            print_figure(f"{name}_above_empty", mine - empty, "us", (mine - empty) / bound, f"promised_{bound}_us")
            print_figure(f"{name}_ran_above_empty", ran - idle, "us", (ran - idle) / bound, f"promised_{bound}_us")


def main() -> None:
    """Runs the bench with an agent of its own."""
    folder, model = Path(sys.argv[1]), sys.argv[2]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 3000
    os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())})
    # Every prompt is new: an order that learns would refuse them once memory is full.
    with Node("steps", folder / "steps", "1GiB", more=("--host_eviction=lru",)) as node:
        engine = Engine(model, str(node.socket_dir))
        with set_current_vllm_config(engine.config):
            parallel_state.init_distributed_environment(1, 0, "env://", 0, "gloo")
            parallel_state.ensure_model_parallel_initialized(1, 1)
        steps = Steps(engine, node)
        steps.run(count, count)
        print_results(steps)
        steps.close()


if __name__ == "__main__":
    main()
