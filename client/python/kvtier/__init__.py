"""kvtier: fetch the attention keys and values that some worker has already computed.

A worker speaks to the agent of its own node. The agent may be absent, slow or killed at any
moment: then every call is a miss within its timeout, and the client reconnects by itself. So a
call raises ValueError for an argument that is not valid, but no exception for a missing agent.

A client stays in the process that opened it: in a child that was forked meanwhile (os.fork,
multiprocessing "fork") every call is a miss, of clients that the child opens, too. Open the first
client after the fork, or start children by exec (multiprocessing "spawn").

    client = kvtier.Client(socket_dir="/run/kvtier")
    space = client.register_space(kvtier.SpaceSpec(model="m", ..., block_bytes=737280))
    with client.onboard(space, keys, timeout_s=0.5) as hit:
        copies = [bytes(hit[i]) for i in range(len(hit))]
        usable = hit.valid()        # Always ask after the copy.
"""

from ._kvtier import __version__, read_secret_file
from .blocks import Hit, HostMemory, Put
from .calls import Call, Part, PartsCall
from .client import Client
from .codec import BlockCodec
from .kept import Dropped, Kept, KeptList, KeptPrefix, KeptUse
from .lanes import KvMemory, LaneJob, Lanes
from .log import set_logger
from .paged_kv import PagedKv, SequenceFacts
from .sequences import Arrived, Match, PutCounts, ReuseHint, Sequence, Ticket
from .space import Limits, Space, SpaceSpec
from .token_keys import VLLM_DEFAULT_SEED, token_keys, vllm_token_keys

__all__ = ["Arrived", "BlockCodec", "Call", "Client", "Dropped", "Hit", "HostMemory", "Kept",
           "KeptList", "KeptPrefix", "KeptUse", "KvMemory",
           "LaneJob", "Lanes", "Limits", "Match", "PagedKv", "Part",
           "PartsCall", "Put", "PutCounts", "ReuseHint", "Sequence", "SequenceFacts", "Space", "SpaceSpec", "Ticket", "VLLM_DEFAULT_SEED",
           "__version__", "read_secret_file", "set_logger", "token_keys", "vllm_token_keys"]
