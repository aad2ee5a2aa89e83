"""Keys from tokens: one key of 32 bytes for each full block, chained over everything before it.

For engines that hand over no keys of their own, and for whoever must compute the keys of one that
does. What the tokens were run through is the SpaceSpec's business and is not hashed.

`tokens` is a buffer of integers of 32 or 64 bits (array.array, a numpy array, memoryview), which is
read where it lies and without the GIL, or a list. A partial last block has no key. A sequence that
has grown goes on from its last key:

    keys = kvtier.token_keys(prompt, 16)
    ...
    keys += kvtier.token_keys(tokens[len(keys) * 16:], 16, parent=keys[-1] if keys else None)

Both functions raise ValueError naming the value: a token id that is negative or too large,
tokens_per_block, a parent that has not 32 bytes, a list of another length than the full blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _kvtier

if TYPE_CHECKING:
    from typing_extensions import Buffer

VLLM_DEFAULT_SEED = "vllm-none-hash"


def token_keys(tokens: Buffer | Sequence[int], tokens_per_block: int, *,
               parent: bytes | None = None,
               extra: bytes | list[bytes | None] | None = None) -> list[bytes]:
    """kvtier's own form:

        SHA-256(b"kvtier.tokens.v1" + (parent or bytes(32)) + count + tokens + extra)

    with the count of the block's tokens and each id as 4 bytes, little-endian. `extra` tells apart
    what equal tokens do not, such as a salt, a LoRA adapter or an image: of all blocks of this
    call, or a list with one for each full block.
    """
    return _kvtier.token_keys(tokens, tokens_per_block, parent, extra)


def vllm_token_keys(tokens: Buffer | Sequence[int], tokens_per_block: int, *,
                    parent: bytes | None = None,
                    extra_keys: tuple[Any, ...] | list[tuple[Any, ...] | None] | None = None,
                    seed: str = VLLM_DEFAULT_SEED) -> list[bytes]:
    """vLLM's, started with --prefix-caching-hash-algo sha256_cbor: SHA-256 over the canonical CBOR
    of [parent, tokens, extra_keys].

    `seed` is the text of the engine's PYTHONHASHSEED. Without one, vLLM of late 2026 takes
    VLLM_DEFAULT_SEED, and earlier versions a random one, whose keys nobody else can compute.
    `extra_keys` is vLLM's tuple of str, bytes, int, None and tuples of these: of all blocks of this
    call, or a list with one for each full block (cache_salt is in that of the first block alone).
    """
    return _kvtier.vllm_token_keys(tokens, tokens_per_block, parent, extra_keys, seed)
