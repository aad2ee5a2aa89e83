"""An in-process kvtier: the Python client's interface over a dict of blocks.

It keeps the promises that a worker relies on: a hit is a leading run; onboarded memory is read-only
and is gone after the hit; a reservation that is not committed leaves nothing behind; a block that is
present is not written again; and without an agent every call misses. It has no tiers, no time and no
isolation.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class SpaceSpec:
    model: str
    weights_digest: bytes
    lora: str
    dtype: str
    layout: str
    layers: int
    kv_heads: int
    head_dim: int
    tokens_per_block: int
    tp_rank: int
    tp_size: int
    pp_rank: int
    pp_size: int
    block_bytes: int


@dataclass(frozen=True)
class Match:
    blocks: int
    local_blocks: int
    remote_blocks: int
    tiers: list


@dataclass
class Agent:
    """State that all clients of one node share. Tests set its fields."""

    blocks: dict = field(default_factory=dict)  # (SpaceSpec, EngineKey) -> bytes
    capacity_blocks: int = 1 << 30
    present: bool = True
    leases_last: bool = True
    ready_blocks: int = 1 << 30  # How many blocks of a hit are ready by the deadline.


class Client:
    """One worker's connection to `agent`."""

    def __init__(self, agent):
        self._agent = agent

    @property
    def connected(self):
        return self._agent.present

    def register_space(self, spec):
        return spec

    def match(self, space, keys, timeout_s=None):
        blocks = self._leading_run(space, keys)
        return Match(blocks, blocks, 0, ["host"] * blocks)

    def onboard(self, space, keys, timeout_s=0.5):
        ready = min(self._leading_run(space, keys), self._agent.ready_blocks)
        return _Hit(self._agent, [self._agent.blocks[space, key] for key in keys[:ready]])

    def reserve(self, space, keys, parent=None):
        return _Put(self._agent, space, keys, parent)

    def close(self):
        pass

    def _leading_run(self, space, keys):
        if not self._agent.present:
            return 0
        for count, key in enumerate(keys):
            if (space, key) not in self._agent.blocks:
                return count
        return len(keys)


class _Hit:
    def __init__(self, agent, blocks):
        self._agent = agent
        self._views = [memoryview(block) for block in blocks]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for view in self._views:
            view.release()  # Raises BufferError: the worker still holds the memory of an ended lease.

    def __len__(self):
        return len(self._views)

    def __getitem__(self, index):
        return self._views[index]

    def prove(self, index):
        return index < len(self) and self._agent.leases_last

    def valid(self):
        return self._agent.leases_last


class _Put:
    def __init__(self, agent, space, keys, parent):
        self._agent, self._space, self._keys = agent, space, keys
        self._slots = []
        if parent is not None and (space, parent) not in agent.blocks:
            parent_known = False
        else:
            parent_known = agent.present
        room = agent.capacity_blocks - len(agent.blocks)
        for key in keys:
            wanted = parent_known and (space, key) not in agent.blocks and room > 0
            room -= wanted
            self._slots.append(memoryview(bytearray(space.block_bytes)) if wanted else None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for slot in filter(None, self._slots):
            slot.release()

    def __len__(self):
        return len(self._slots)

    def __getitem__(self, index):
        return self._slots[index]

    def give_back(self, index):
        self._slots[index].release()
        self._slots[index] = None

    def commit(self):
        written = 0
        for key, slot in zip(self._keys, self._slots):
            if slot is not None:
                self._agent.blocks[self._space, key] = bytes(slot)
                written += 1
        return written
