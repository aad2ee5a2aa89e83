"""Keys from tokens: one key of 32 bytes for each full block, chained over everything before it.

It is for engines that have no keys of their own, and for programs that must compute the keys of an
engine that has. The model and its weights are not hashed; the SpaceSpec names them.

`tokens` is a buffer of integers of 32 or 64 bits (array.array, a numpy array, memoryview), which is
read where it lies and without the GIL, or a list. A partial last block has no key. The keys of a
sequence that has grown continue from its last key:

    keys = kvtier.token_keys(prompt, 16)
    ...
    keys += kvtier.token_keys(tokens[len(keys) * 16:], 16, parent=keys[-1] if keys else None)

Both functions raise ValueError, naming the value, for a token id that is negative or too large, for
tokens_per_block, for a parent that has not 32 bytes, and for a list that has not one entry for each
full block.
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
    """Returns keys in kvtier's own form:

        SHA-256(b"kvtier.tokens.v1" + (parent or bytes(32)) + count + tokens + extra)

    The count of the block's tokens and each token id have 4 bytes, little-endian. `extra` tells
    blocks of equal tokens apart, for example by a salt, a LoRA adapter or an image. It is for all
    blocks of this call, or a list with one entry for each full block.
    """
    return _kvtier.token_keys(tokens, tokens_per_block, parent, extra)


def vllm_token_keys(tokens: Buffer | Sequence[int], tokens_per_block: int, *,
                    parent: bytes | None = None,
                    extra_keys: tuple[Any, ...] | list[tuple[Any, ...] | None] | None = None,
                    seed: str = VLLM_DEFAULT_SEED) -> list[bytes]:
    """Returns the keys of a vLLM that was started with --prefix-caching-hash-algo sha256_cbor.

    A key is SHA-256 over the canonical CBOR of [parent, tokens, extra_keys]. `seed` is the text of
    the engine's PYTHONHASHSEED. Without one, vLLM of late 2026 uses VLLM_DEFAULT_SEED, and earlier
    versions a random seed, whose keys no other program can compute. `extra_keys` is vLLM's tuple of
    str, bytes, int, None and tuples of these. It is for all blocks of this call, or a list with one
    entry for each full block (only the first block's has the cache_salt).
    """
    return _kvtier.vllm_token_keys(tokens, tokens_per_block, parent, extra_keys, seed)
