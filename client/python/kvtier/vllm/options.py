"""The options of kv_connector_extra_config."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import kvtier


# Names of the option `codec`, and of the space's codec that each stands for.
CODECS = {"": "raw", "fp8": "fp8_e4m3", "int8": "int8", "lossless": "packed_exponents"}


@dataclass(frozen=True)
class Options:
    """The connector's settings, validated. ValueError names the field and its value."""

    socket_dir: str = "/run/kvtier"  # The agent's --socket_dir.
    tenant: str = "default"
    tenant_secret_file: str = ""  # File of the tenant's secret; empty: the open tenant.
    model_name: str = ""  # Model of the space; empty: the last part of the engine's model path.
    weights_digest: str = ""  # Digest in the space; empty: it is made from the model's files.
    recompute_tokens_per_s: float = 0.0  # Tokens that the engine prefills in a second; bounds every wait. 0: measured.
    max_wait_s: float = 2.0  # Longest wait of a request for a disk or a node, in seconds.
    peers: bool = True  # Whether other nodes are asked for blocks that this one has not.
    store: bool = True  # True: computed blocks are saved; False: blocks are only loaded.
    codec: str = ""  # Codec for blocks of KV in bfloat16, one of CODECS; empty: stored as they are.
    max_tokens: int = 0  # Most tokens that are loaded for a request; 0: all.
    lane_threads: int = 1  # Threads of a worker that copy.
    preemption_wait_s: float = 0.002  # Longest wait of a step for copies out of blocks it overwrites, in seconds.

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            wanted = type(field.default)
            if wanted is float and isinstance(value, int) and not isinstance(value, bool):
                value = float(value)
                object.__setattr__(self, field.name, value)
            if type(value) is not wanted:
                raise ValueError(f"{field.name} is {value!r}; must be a {wanted.__name__}")
        self._require(self.socket_dir != "", "socket_dir", "not be empty")
        self._require(self.tenant != "", "tenant", "not be empty")
        self._require(math.isfinite(self.recompute_tokens_per_s) and self.recompute_tokens_per_s >= 0,
                      "recompute_tokens_per_s", "be a finite number, 0 or more")
        self._require(0 <= self.max_wait_s <= 60, "max_wait_s", "be from 0 to 60")
        self._require(self.codec in CODECS, "codec", f"be one of {', '.join(map(repr, CODECS))}")
        self._require(self.max_tokens >= 0, "max_tokens", "not be negative")
        self._require(1 <= self.lane_threads <= 16, "lane_threads", "be from 1 to 16")
        self._require(0 <= self.preemption_wait_s <= 10, "preemption_wait_s", "be from 0 to 10")

    def _require(self, holds: bool, name: str, rule: str) -> None:
        if not holds:
            raise ValueError(f"{name} is {getattr(self, name)!r}; must {rule}")

    def tenant_secret(self) -> bytes:
        """Returns the secret in the file (kvtier.read_secret_file()). ValueError: it cannot be read."""
        if not self.tenant_secret_file:
            return b""
        try:
            return kvtier.read_secret_file(self.tenant_secret_file)
        except ValueError as error:
            raise ValueError(f"tenant_secret_file is {self.tenant_secret_file!r}; must be a file that can be read: "
                             f"{error}") from error


def parse_options(extra_config: Mapping[str, Any] | None) -> Options:
    """Returns the options in kv_connector_extra_config. Raises ValueError, naming the field and its value."""
    given = dict(extra_config or {})
    known = {field.name for field in fields(Options)}
    for name in given:
        if name not in known:
            raise ValueError(f"kv_connector_extra_config has {name!r}; must be one of {', '.join(sorted(known))}")
    return Options(**given)
