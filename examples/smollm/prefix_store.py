"""PrefixStore: what a worker says to kvtier, and the copies between its arena and the paged KV.

The client never raises because an agent is absent or slow: a lookup that cannot be answered in
time is a miss, a put that cannot be kept is dropped, and the worker computes.
"""

import math
from dataclasses import asdict, dataclass, field

from .paged_kv import TOKENS_PER_BLOCK, block_shape
from .stored_form import Float32Form

_LAYOUT = "layer,kv,token,head,dim"


def space_fields(weights, codec="raw"):
    """Returns the fields of kvtier.SpaceSpec that make this model's blocks compatible with each other.

    With a codec blocks are bf16, and how large their encodings are is left to kvtier.
    """
    shape = weights.shape
    stored = {"dtype": "float32", "block_bytes": 4 * math.prod(block_shape(shape))}
    if codec != "raw":
        stored = {"dtype": "bfloat16", "codec": codec}
    return {
        "model": weights.name, "weights_digest": weights.digest, "lora": "", "layout": _LAYOUT,
        "layers": shape.layers, "kv_heads": shape.kv_heads, "head_dim": shape.head_dim,
        "tokens_per_block": TOKENS_PER_BLOCK, "tp_rank": 0, "tp_size": 1, "pp_rank": 0,
        "pp_size": 1, **stored}


@dataclass(frozen=True)
class MatchReport:
    """The agent's answer about a prompt; counts are blocks."""

    blocks: int = 0
    local_blocks: int = 0
    remote_blocks: int = 0
    tiers: list = field(default_factory=list)

    def fields(self):
        return asdict(self)


@dataclass(frozen=True)
class Onboarded:
    """The result of one onboard. `blocks` lead the prompt and are in the block table."""

    match: MatchReport
    blocks: int = 0
    bytes_moved: int = 0
    lease_lost: bool = False  # Blocks were copied, then found no longer leased, and dropped.


class PrefixStore:
    """One client, one space. Not thread-safe."""

    def __init__(self, client, space, kv, form=None):
        """Owns none of its arguments: the caller that opened `client` (of the kvtier package) closes it.

        `form` is how blocks of `space` are stored; None: as float32.
        """
        self._client, self._space, self._kv = client, space, kv
        self._form = form or Float32Form(kv)

    @property
    def block_bytes(self):
        return self._form.block_bytes

    @property
    def connected(self):
        return self._client.connected

    def onboard(self, table, keys, timeout_s):
        """Copies the longest leading run of `keys` kvtier can lease within `timeout_s`.

        The blocks land at 0, 1, ... of `table`, and table.tokens says how far they reach.
        """
        found = self._client.match(self._space, keys, timeout_s=timeout_s)
        match = MatchReport(found.blocks, found.local_blocks, found.remote_blocks,
                            [str(tier) for tier in found.tiers])
        if not found.blocks:
            return Onboarded(match)
        wanted = keys[:found.blocks]
        with self._client.onboard(self._space, wanted, timeout_s=timeout_s) as hit:
            ready = 0
            # The hit is proven after its last read, so that nothing is computed on wrong bytes.
            while ready < len(hit) and self._form.read(hit[ready], table, ready) \
                    and hit.prove(ready):
                ready += 1
            valid = hit.valid()
        if not valid:
            # The agent may have reused the memory while it was read, so that no block of it can be trusted.
            return Onboarded(match, bytes_moved=ready * self.block_bytes, lease_lost=True)
        table.tokens = ready * self._kv.tokens_per_block
        return Onboarded(match, ready, ready * self.block_bytes)

    def put(self, table, keys, first_block):
        """Offers blocks first_block, first_block + 1, ... of `table`; returns how many were kept.

        `keys` name all full blocks of the prompt. Blocks kvtier holds already, or has no room
        for, are skipped, and so are those that their codec cannot encode.
        """
        fresh = keys[first_block:]
        if not fresh:
            return 0
        parent = keys[first_block - 1] if first_block else None
        with self._client.reserve(self._space, fresh, parent=parent) as put:
            for index in range(len(put)):
                if put[index] is None:
                    continue
                if not self._form.write(table, first_block + index, put[index]):
                    put.give_back(index)
            return put.commit()
