"""KvtierConnector: vLLM's interface of KV connectors. It needs vllm, and decides nothing itself."""

import importlib.metadata
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import vllm
from vllm.distributed.kv_transfer import kv_transfer_state
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1 import base
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorPromMetrics, KVConnectorStats

import kvtier

from .kv_layout import KvLayout, lay_out, refuse_aliases
from .metadata import Load, StepPlan
from .never_raises import log_failure, never_raises
from .options import Options, parse_options
from .refusals import block_tokens, refuse_unsupported
from .request_options import finish_reason
from .scheduler_side import SchedulerSide
from .space import EngineFacts, space_of_group, space_of_weights, tensor_copies
from .stats import COUNTERS, GAUGES, sum_of
from .weights import UNKNOWN_WEIGHTS, WeightsFinder, commit_of
from .worker_side import LoadResults, WorkerSide

_log = logging.getLogger("vllm.kvtier")  # A child of the engine's own logger.
_NO_AGENT = "no agent listens"  # Words of the client's error where nobody is behind the socket.


@dataclass
class KvtierMetadata(base.KVConnectorMetadata):
    """The plan of a step, on its way to the workers."""

    plan: StepPlan


@dataclass
class KvtierReport(base.KVConnectorWorkerMetadata):
    """The ranks' answer to a step, for the scheduler."""

    step: int  # Number of the step, if its time is measured; 0: it is not. All ranks answer the same step.
    spaces: dict[tuple[int, int], list[kvtier.SpaceSpec]]  # For SchedulerSide.accept_spaces(), if the plan asked.

    def aggregate(self, other: "KvtierReport") -> base.KVConnectorWorkerMetadata:
        """Returns both ranks' reports as one."""
        return KvtierReport(self.step, {**self.spaces, **other.spaces})


@dataclass
class KvtierHandshake(base.KVConnectorHandshakeMetadata):
    """The spaces of one worker, for the scheduler: one for each KV group."""

    specs: list[kvtier.SpaceSpec]


class KvtierStats(KVConnectorStats):
    """Counters of stats.COUNTERS since the last step, and gauges of stats.GAUGES."""

    data: dict[str, int]

    def reset(self) -> None:
        """Removes all counts."""
        self.data = {}

    def aggregate(self, other: KVConnectorStats) -> KVConnectorStats:
        """Adds the statistics of another rank or of another step."""
        self.data = sum_of(self.data, other.data)
        return self

    def reduce(self) -> dict[str, int]:
        """Returns the values that the engine's log shows."""
        return dict(self.data)

    def is_empty(self) -> bool:
        """Returns whether nothing was counted."""
        return not self.data


class KvtierPromMetrics(KVConnectorPromMetrics):
    """A counter vllm:kvtier_NAME_total for each of stats.COUNTERS, and a gauge vllm:kvtier_NAME for each of stats.GAUGES."""

    def __init__(self, vllm_config: Any, metric_types: Any, labelnames: list[str],
                 per_engine_labelvalues: dict[int, list[object]]) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._counters: dict[tuple[str, int], Any] = {}
        self._gauges: dict[tuple[str, int], Any] = {}
        for name, text in COUNTERS.items():
            counter = self._counter_cls(name=f"vllm:kvtier_{name}", documentation=text, labelnames=labelnames)
            for place, values in per_engine_labelvalues.items():
                self._counters[name, place] = counter.labels(*values)
        for name, text in GAUGES.items():
            gauge = self._gauge_cls(name=f"vllm:kvtier_{name}", documentation=text, multiprocess_mode="mostrecent",
                                    labelnames=labelnames)
            for place, values in per_engine_labelvalues.items():
                self._gauges[name, place] = gauge.labels(*values)

    @never_raises(lambda: None)
    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        """Adds the counts to the counters, and sets the gauges that were set."""
        for name, amount in transfer_stats_data.items():
            if (name, engine_idx) in self._counters:
                self._counters[name, engine_idx].inc(amount)
            elif (name, engine_idx) in self._gauges:
                self._gauges[name, engine_idx].set(amount)


def _current_stream() -> int:
    """Returns the handle of the CUDA stream that this thread's work goes to."""
    return int(torch.cuda.current_stream().cuda_stream)


class KvtierConnector(base.KVConnectorBase_V1, base.SupportsHMA):
    """Loads prefixes from the node's agent, and saves computed blocks. See docs/engines/vllm.md.

    Raises ValueError at start for settings that are not supported or not valid, and no exception
    once the engine runs.
    """

    _cache_hit_source = getattr(getattr(base, "CacheHitSource", None), "HOST", None)

    def __init__(self, vllm_config: Any, role: base.KVConnectorRole, kv_cache_config: Any = None) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._config = vllm_config
        self._cache_config = kv_cache_config
        transfer = vllm_config.kv_transfer_config
        self._options: Options = parse_options(transfer.kv_connector_extra_config)
        refuse_unsupported(vllm_config, kv_cache_config, hasattr(base, "KVConnectorTransferResults"),
                           hasattr(base.KVConnectorBase_V1, "unregister_kv_caches"))
        self._specs: list[kvtier.SpaceSpec] = []
        self._spaces: list[kvtier.Space] = []
        self._client: kvtier.Client | None = None
        self._worker: WorkerSide | None = None
        self._scheduler: SchedulerSide | None = None
        self._weights: WeightsFinder | None = None  # Finder of a worker whose spaces have no digest yet.
        self._opened: dict[str, list[kvtier.Lanes]] = {}  # Lanes, by digest, that a plan has not asked for yet.
        self._results = LoadResults()
        self._unplanned: list[Load] = []  # Loads that could not be planned, whose requests wait for a failure.
        if role == base.KVConnectorRole.SCHEDULER:
            held = getattr(transfer, "kv_load_failure_policy", "fail") == "fail"
            client = self._open_client()
            self._warn(held, client)
            self._scheduler = SchedulerSide(client, self._options, block_tokens(kv_cache_config), held)

    @property
    def requires_kv_delivery(self) -> bool:
        """Returns False: a dropped save is a later miss, and no request waits for a save."""
        return False

    # Methods of the connector in a worker.

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        """Opens lanes on the engine's tensors. Raises ValueError, naming a tensor that is not known."""
        client = self._client = self._open_client()
        layouts: list[KvLayout] = []
        tensor_rank, pipeline_rank = self._ranks()
        unsaved: list[int] = []  # Groups whose blocks another rank saves.
        for place, group in enumerate(self._cache_config.kv_cache_groups):
            spec = group.kv_cache_spec
            layers = [(name, kv_caches[name]) for name in group.layer_names]
            layouts.append(lay_out(layers, self._cache_config.num_blocks, getattr(spec, "num_kv_heads", 1),
                                   spec.block_size))
            self._specs.append(space_of_group(self._options, self._config, spec, layouts[-1],
                                              self._facts(group.layer_names[0], layouts[-1].device), place,
                                              tensor_rank, pipeline_rank))
            if tensor_rank % tensor_copies(spec, self._config.parallel_config.tensor_parallel_size):
                unsaved.append(place)
        refuse_aliases(layouts)
        hashed = all(spec.weights_digest != UNKNOWN_WEIGHTS for spec in self._specs)
        if not hashed:
            self._specs = [space_of_weights(spec, UNKNOWN_WEIGHTS) for spec in self._specs]
        self._worker = WorkerSide(lambda digest: self._lanes_for(client, layouts, digest), str(self._specs[0].weights_digest),
                                  [layout.block_bytes for layout in layouts], self._options.preemption_wait_s,
                                  stream=lambda: None if layouts[0].device == "host" else _current_stream(),
                                  unsaved_groups=unsaved)
        if not hashed:  # The lanes that are open now show that the tensors can be copied, and copy nothing.
            model = self._config.model_config
            self._weights = WeightsFinder(str(model.model), commit_of(model), lambda digest: self._opened.update(
                {digest: self._open_lanes(client, layouts, digest, None)}))
        _log.info("kvtier: %d KV groups, blocks of %s bytes, space %s", len(layouts),
                  [layout.block_bytes for layout in layouts], self._specs[0])

    @never_raises(lambda: None)
    def unregister_kv_caches(self) -> None:
        """Ends all copies, because the engine takes the tensors' memory away."""
        if self._worker is not None:
            self._worker.leave_memory()

    @never_raises(lambda: None)
    def restore_kv_caches(self) -> None:
        """Opens lanes on the same tensors again."""
        if self._worker is not None:
            self._worker.return_to_memory()

    def get_handshake_metadata(self) -> base.KVConnectorHandshakeMetadata | None:
        """Returns this rank's spaces for the scheduler; None inside another connector.

        MultiConnector hands what one of its connectors returns to all of them, and some refuse what is not theirs. There
        the spaces are first told in the answer to the first step.
        """
        return KvtierHandshake(self._specs) if self._specs and self._is_alone() else None

    @never_raises(lambda: None)
    def handle_preemptions(self, kv_connector_metadata: base.KVConnectorMetadata) -> None:
        """Waits until copies out of blocks that this step will write have ended."""
        if self._worker is not None:
            self._worker.prepare(kv_connector_metadata.plan)

    @never_raises(lambda: None)
    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Begins the step's loads."""
        if self._worker is not None:
            plan = self._get_connector_metadata().plan
            self._worker.load(plan.loads)
            if not plan.computes:
                self._worker.await_load()

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Does nothing, because blocks are loaded between steps."""

    def save_kv_layer(self, layer_name: str, kv_layer: torch.Tensor, attn_metadata: Any, **kwargs: Any) -> None:
        """Does nothing, because whole blocks are saved at the end of a step."""

    @never_raises(lambda: None)
    def wait_for_save(self) -> None:
        """Begins the saves of blocks that the step has computed, and waits for no save."""
        if self._worker is not None:
            self._worker.save(self._get_connector_metadata().plan.saves)

    @never_raises(lambda: (None, None))
    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        """Returns the requests whose loads have ended, each once; no request waits for its saves."""
        if self._worker is None:
            return None, None
        self._results = self._worker.take_results()
        return None, self._results.received or None

    @never_raises(lambda: base.KVConnectorTransferResults())
    def get_transfer_results(self, finished_req_ids: set[str]) -> Any:
        """Returns get_finished() and, with several KV groups, which requests failed, as block ids do not tell."""
        _, received = self.get_finished(finished_req_ids)
        results = base.KVConnectorTransferResults(finished_recving=received or set())
        if len(self._cache_config.kv_cache_groups) > 1:
            results.failed_recving = self._results.failed
        return results

    @never_raises(lambda: set())
    def get_block_ids_with_load_errors(self) -> set[int]:
        """Returns the blocks that did not come, of loads that have ended; none if get_transfer_results() tells them."""
        failed, self._results = self._results.failed_blocks, LoadResults()
        return failed if len(self._cache_config.kv_cache_groups) == 1 else set()

    @never_raises(lambda: None)
    def build_connector_worker_meta(self) -> base.KVConnectorWorkerMetadata | None:
        """Returns the number of the step, if it is measured, and this rank's spaces, if they are asked for."""
        plan = self._get_connector_metadata().plan
        spaces: dict[tuple[int, int], list[kvtier.SpaceSpec]] = {}
        if plan.asks_spaces and self._specs:
            tensor_rank, pipeline_rank = self._ranks()
            digest = self._weights.digest() if self._weights is not None else ""
            spaces[pipeline_rank, tensor_rank] = [space_of_weights(spec, digest) for spec in self._specs]
        return KvtierReport(plan.measured, spaces) if plan.measured or spaces else None

    # Methods of the connector on both sides.

    @never_raises(lambda: None)
    def get_kv_connector_stats(self) -> KVConnectorStats | None:
        """Returns the counts since the last step; None: nothing was counted."""
        side = self._scheduler or self._worker
        counted = side.counts.take() if side is not None else {}
        return KvtierStats(data=counted) if counted else None

    def shutdown(self) -> None:
        """Ends all copies and closes the client."""
        for part in self._parts():
            try:
                part.close()
            except Exception:
                log_failure("shutdown")

    # Methods of the connector in the scheduler.

    def set_xfer_handshake_metadata_pp_aware(self, metadata: dict[tuple[int, int], Any]) -> None:
        """Takes the spaces of all ranks. Inside MultiConnector the data may be another connector's, and are left alone."""
        if self._scheduler is not None:
            self._scheduler.accept_spaces({rank: handshake.specs for rank, handshake in metadata.items()
                                           if isinstance(handshake, KvtierHandshake)})

    def set_xfer_handshake_metadata(self, metadata: dict[int, Any]) -> None:
        """Takes the spaces of all ranks, as older versions hand them over."""
        self.set_xfer_handshake_metadata_pp_aware({(0, rank): handshake for rank, handshake in metadata.items()})

    @never_raises(lambda: (0, False))
    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        """Returns how many more tokens can be loaded, and True (between steps); None for the number: ask again."""
        return self._side().matched_tokens(request, num_computed_tokens)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Notes the blocks that are to be loaded."""
        try:
            self._side().allocated(request, blocks.get_block_ids(), num_external_tokens)
        except Exception:
            log_failure("update_state_after_alloc")
            if num_external_tokens > 0:
                self._fail_load(request, blocks)

    def build_connector_meta(self, scheduler_output: Any) -> base.KVConnectorMetadata:
        """Returns the step's loads and saves."""
        try:
            plan = self._side().plan(scheduler_output)
        except Exception:
            log_failure("build_connector_meta")
            plan = StepPlan(writes_unknown=True)
        unplanned, self._unplanned = self._unplanned, []
        plan.loads.extend(unplanned)
        return KvtierMetadata(plan)

    @never_raises(lambda: None)
    def update_connector_output(self, connector_output: Any) -> None:
        """Notes which loads ended and how, how long the step took, and the ranks' spaces."""
        report = getattr(connector_output, "kv_connector_worker_meta", None)
        if report is not None:
            self._side().measured(report.step)
        self._side().workers_answered(frozenset(connector_output.invalid_block_ids or ()),
                                         frozenset(connector_output.finished_recving or ()),
                                         frozenset(getattr(connector_output, "failed_recving", None) or ()))
        if report is not None and self._side().asks_spaces:  # Steps that overlap tell the same spaces.
            self._side().accept_spaces(report.spaces)

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        """Returns (False, None): the engine may reuse the blocks at once."""
        return self.request_finished_all_groups(request, (block_ids,))

    @never_raises(lambda: (False, None))
    def request_finished_all_groups(self, request: Any,
                                    block_ids: tuple[list[int], ...]) -> tuple[bool, dict[str, Any] | None]:
        """Returns (False, None): the engine may reuse the blocks, since a step that writes them waits for copies."""
        self._side().finished(request.request_id, finish_reason(request))
        return False, None

    @never_raises(lambda: False)
    def reset_cache(self) -> bool:
        """Begins a new epoch: no block that was saved before is loaded any more."""
        self._side().reset()
        return True

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> KVConnectorStats | None:
        """Returns statistics with this data."""
        return KvtierStats(data=data or {})

    @classmethod
    def build_prom_metrics(cls, vllm_config: Any, metric_types: Any, labelnames: list[str],
                           per_engine_labelvalues: dict[int, list[object]]) -> KVConnectorPromMetrics:
        """Returns the counters for the engine's /metrics."""
        return KvtierPromMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    def _is_alone(self) -> bool:
        """Returns whether the engine calls this connector itself, and no connector such as MultiConnector does."""
        return not kv_transfer_state.has_kv_transfer_group() or kv_transfer_state.get_kv_transfer_group() is self

    def _side(self) -> SchedulerSide:
        if self._scheduler is None:
            raise RuntimeError("a worker's connector was called as if it were the scheduler's; call the scheduler's")
        return self._scheduler

    @never_raises(lambda: None)
    def _fail_load(self, request: Any, blocks: Any) -> None:
        """Plans a load without keys in place of one that could not be noted: the workers answer it as failed."""
        self._unplanned.append(Load(request.request_id, (), tuple(tuple(group) for group in blocks.get_block_ids()), 0.0))

    def _warn(self, held: bool, client: kvtier.Client) -> None:
        """Logs, once, what differs from docs/engines/vllm.md at start. The client logs what changes later."""
        # Where an agent refuses the client or does not answer, the client has logged what to do.
        if not client.connected and _NO_AGENT in client.stats()["last_error"]:
            _log.warning("kvtier: no agent serves this engine in socket_dir %r, and all blocks are computed until one does: "
                         "start kvtier-agent --socket_dir=%s on this node, or mount its folder there; the engine need not "
                         "be started again", self._options.socket_dir, self._options.socket_dir)
        if held:
            _log.warning("kvtier: kv_load_failure_policy is 'fail': a request whose load fails is lost, so only blocks "
                         "are loaded that the agent holds for it; 'recompute' loses none")
        algorithm = getattr(self._config.cache_config, "prefix_caching_hash_algo", "sha256_cbor")
        if algorithm != "sha256_cbor":
            _log.warning("kvtier: prefix_caching_hash_algo is %r: other processes may compute other keys, and nothing is "
                         "shared with engines that have another one; --prefix-caching-hash-algo sha256_cbor is the same "
                         "everywhere", algorithm)

    def _parts(self) -> Iterator[Any]:
        """Yields what this side has, in the order in which it is closed: lanes before their client."""
        yield from filter(None, (self._weights, self._worker))
        for lanes in self._opened.values():  # The finder adds none any more.
            yield from lanes
        yield from filter(None, (self._client, self._scheduler))

    def _open_client(self) -> kvtier.Client:
        options = self._options
        kvtier.set_logger(_log)
        return kvtier.Client(options.socket_dir, options.tenant, options.tenant_secret())

    def _lanes_for(self, client: kvtier.Client, layouts: list[KvLayout], digest: str) -> list[kvtier.Lanes]:
        """Returns lanes as a WorkerSide wants them; []: the weights' digest is not known yet."""
        if self._weights is not None and digest == UNKNOWN_WEIGHTS:
            return []
        # At start this waits for the agent, so that the first blocks are saved; a running engine does not wait.
        wait_s = 0.0 if self._spaces else None
        return self._opened.pop(digest, None) or self._open_lanes(client, layouts, digest, wait_s)

    def _open_lanes(self, client: kvtier.Client, layouts: list[KvLayout], digest: str,
                    wait_s: float | None) -> list[kvtier.Lanes]:
        """Returns lanes for each KV group in spaces with this digest of the weights, and forgets the other spaces."""
        specs = [space_of_weights(spec, digest) for spec in self._specs]
        for space in self._spaces:
            if space.spec not in specs:
                client.unregister_space(space)
        self._spaces = [client.register_space(spec, wait_s) for spec in specs]
        lanes: dict[int, kvtier.Lanes] = {}
        # Lanes of the largest blocks are opened first, because a GPU is opened for blocks of the first lanes' size.
        for i in sorted(range(len(layouts)), key=lambda i: -layouts[i].memory.run_bytes * len(layouts[i].memory.bases)):
            layout = layouts[i]
            lanes[i] = kvtier.Lanes(client, self._spaces[i], layout.memory, layout.device,
                                    self._options.lane_threads if layout.device == "host" else 1)
        return [lanes[i] for i in range(len(layouts))]

    def _ranks(self) -> tuple[int, int]:
        """Returns this worker's (tensor rank, pipeline rank)."""
        from vllm.distributed import parallel_state
        return (parallel_state.get_tensor_model_parallel_rank(), parallel_state.get_pp_group().rank_in_group)

    def _facts(self, layer_name: str, device: str) -> EngineFacts:
        layer = self._config.compilation_config.static_forward_context[layer_name]
        amx = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)()
        capability = torch.backends.cpu.get_cpu_capability() + ("+amx" if amx else "")
        return EngineFacts(getattr(vllm, "__version__", "") or importlib.metadata.version("vllm"),
                           layer.get_attn_backend().get_name(),
                           capability if device == "host" else "")


# MultiConnector makes the statistics of its connectors once more in other processes, by the names of their classes.
try:
    KVConnectorFactory.register_connector(KvtierConnector.__name__, "kvtier.vllm", KvtierConnector.__name__)
except ValueError:
    pass  # It is registered already: this module was imported a second time.
