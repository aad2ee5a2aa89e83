"""Stubs of the parts of vllm and torch that kvtier.vllm.connector imports, for a Python that has neither."""

import enum
import importlib
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace


class KVConnectorRole(enum.Enum):
    SCHEDULER = 0
    WORKER = 1


class KVConnectorMetadata:
    pass


class KVConnectorHandshakeMetadata:
    pass


class KVConnectorWorkerMetadata(ABC):
    @abstractmethod
    def aggregate(self, other):
        pass


@dataclass
class KVConnectorTransferResults:
    finished_sending: set = field(default_factory=set)
    finished_recving: set = field(default_factory=set)
    failed_recving: set = field(default_factory=set)


class SupportsHMA(ABC):
    @abstractmethod
    def request_finished_all_groups(self, request, block_ids):
        pass


class KVConnectorBase_V1(ABC):
    def __init__(self, vllm_config, role, kv_cache_config):
        self._metadata = None

    def bind_connector_metadata(self, metadata):
        self._metadata = metadata

    def _get_connector_metadata(self):
        assert self._metadata is not None
        return self._metadata

    def clear_connector_metadata(self):
        self._metadata = None


@dataclass
class KVConnectorStats:
    data: dict = field(default_factory=dict)


class KVConnectorPromMetrics:
    def __init__(self, vllm_config, metric_types, labelnames, per_engine_labelvalues):
        self._counter_cls = metric_types["Counter"]
        self._gauge_cls = metric_types["Gauge"]


class CacheHitSource(enum.Enum):
    HOST = 0


class KVConnectorFactory:
    """The names under which the engine finds connectors."""

    _registry = {}

    @classmethod
    def register_connector(cls, name, module_path, class_name):
        if name in cls._registry:
            raise ValueError(f"Connector '{name}' is already registered.")
        cls._registry[name] = lambda: getattr(importlib.import_module(module_path), class_name)

    @classmethod
    def get_connector_class_by_name(cls, name):
        if name not in cls._registry:
            raise ValueError(f"Connector '{name}' is not registered.")
        return cls._registry[name]()


class TransferGroup:
    """The worker's connector that the engine calls; None: there is none yet."""

    connector = None


# Handle of the current CUDA stream.
CUDA_STREAM = 0x77


def install():
    """Puts the stubs where an import finds them."""
    tensor_rank, pipeline = 0, SimpleNamespace(rank_in_group=0)
    base = {name: globals()[name] for name in ("KVConnectorRole", "KVConnectorMetadata", "KVConnectorHandshakeMetadata", "KVConnectorWorkerMetadata",
                                               "KVConnectorTransferResults", "SupportsHMA", "KVConnectorBase_V1",
                                               "CacheHitSource")}
    modules = {
        "torch": {"Tensor": object, "cpu": SimpleNamespace(),
                  "cuda": SimpleNamespace(current_stream=lambda: SimpleNamespace(cuda_stream=CUDA_STREAM)),
                  "backends": SimpleNamespace(cpu=SimpleNamespace(get_cpu_capability=lambda: "AVX2"))},
        "vllm": {"__version__": "0.32.0"},
        "vllm.distributed": {},
        "vllm.distributed.parallel_state": {"get_tensor_model_parallel_rank": lambda: tensor_rank,
                                            "get_pp_group": lambda: pipeline},
        "vllm.distributed.kv_transfer": {},
        "vllm.distributed.kv_transfer.kv_transfer_state": {
            "has_kv_transfer_group": lambda: TransferGroup.connector is not None,
            "get_kv_transfer_group": lambda: TransferGroup.connector},
        "vllm.distributed.kv_transfer.kv_connector": {},
        "vllm.distributed.kv_transfer.kv_connector.factory": {"KVConnectorFactory": KVConnectorFactory},
        "vllm.distributed.kv_transfer.kv_connector.v1": {},
        "vllm.distributed.kv_transfer.kv_connector.v1.base": base,
        "vllm.distributed.kv_transfer.kv_connector.v1.metrics": {"KVConnectorStats": KVConnectorStats,
                                                                 "KVConnectorPromMetrics": KVConnectorPromMetrics},
    }
    for name, attributes in modules.items():
        module = ModuleType(name)
        vars(module).update(attributes)
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
