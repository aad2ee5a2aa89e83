"""EngineKeys: one 32-byte name per full block of a prompt, chained over everything before it.

    key[-1] = the domain tag
    key[i]  = SHA-256(key[i-1] || the block's tokens, each u32 little endian)

Two prompts share key[i] exactly when their first (i + 1) blocks are the same tokens. The space, not the
key, says which model, layout and rank the tokens were run through.
"""

import hashlib
import struct

KEY_BYTES = 32
_DOMAIN_TAG = b"kvtier/examples/smollm/engine-key/v1"


def chain(tokens, tokens_per_block):
    """Returns the EngineKeys of the full blocks of `tokens`; a partial last block has none."""
    full = len(tokens) // tokens_per_block
    keys, previous = [], _DOMAIN_TAG
    for block in range(full):
        start = block * tokens_per_block
        packed = struct.pack(f"<{tokens_per_block}I", *tokens[start:start + tokens_per_block])
        previous = hashlib.sha256(previous + packed).digest()
        keys.append(previous)
    return keys
