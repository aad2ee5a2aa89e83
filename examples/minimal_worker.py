#!/usr/bin/env python3
"""The ten lines an inference worker needs, with pseudorandom bytes where a model would be.

Run it twice with an agent running: the first run computes four blocks, the second finds them.
"""

import hashlib
import sys

import kvtier

BLOCK_BYTES = 65536  # 2 layers x K and V x 16 tokens x 4 kv heads x 64 values x 4 bytes.
SOCKET_DIR = sys.argv[1] if len(sys.argv) > 1 else "/run/kvtier"

client = kvtier.Client(socket_dir=SOCKET_DIR, tenant="default", tenant_secret=b"", timeout_s=2.0)
space = client.register_space(kvtier.SpaceSpec(
    model="minimal", weights_digest=bytes(32), lora="", dtype="float32",
    layout="layer,kv,token,head,dim", layers=2, kv_heads=4, head_dim=64, tokens_per_block=16,
    tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, block_bytes=BLOCK_BYTES,
    codec="raw"))  # Blocks are stored as they are; kvtier.BlockCodec is for the other codecs.
keys = kvtier.token_keys(range(64), 16)  # These are keys of the prompt's tokens; an engine may use its own.

blocks = []
with client.onboard(space, keys, timeout_s=0.5) as hit:
    for i in range(len(hit)):
        block = bytearray(BLOCK_BYTES)  # The engine's memory, which may be many pieces.
        if not hit.copy_out(i, block):
            break  # The block is a miss, and so are all after it.
        blocks.append(block)
print(f"{len(blocks)} of {len(keys)} blocks came from kvtier")

if missing := keys[len(blocks):]:
    parent = keys[len(blocks) - 1] if blocks else None
    with client.reserve(space, missing, parent=parent) as put:
        for i, key in enumerate(missing):
            if put.states[i] == "reserved":
                put.copy_in(i, hashlib.shake_256(key).digest(BLOCK_BYTES))  # Bytes in place of the computed KV.
        print(f"{put.commit()} blocks put")
client.close()
