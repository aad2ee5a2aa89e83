"""The keys of a request's blocks."""

import hashlib
from typing import Protocol


class HashedRequest(Protocol):
    """The engine's Request, with the fields that are read here."""

    block_hashes: list[bytes]  # One for each full block, chained over all before it.
    lora_request: object | None  # Has lora_name and lora_path.


_ADAPTER_BYTES = 16


def block_keys(request: HashedRequest, first: int, end: int, adapter_digest: str = "") -> list[bytes]:
    """Returns the keys of blocks [first, end) of `request`, fewer if it has fewer full blocks.

    They are the engine's own hashes, which cover the block's tokens, all tokens before them, images,
    the adapter's name and the cache salt. But an adapter's name hashes as an equal salt does in the
    first block, and the adapter's path and files are not hashed. So the keys of a request with an
    adapter end with 16 bytes of a digest of its name, its path and the digest of its files.
    """
    hashes = request.block_hashes[first:end]
    adapter = getattr(request, "lora_request", None)
    if adapter is None:
        return list(hashes)
    name, path = str(adapter.lora_name), str(getattr(adapter, "lora_path", ""))
    tail = hashlib.sha256(f"kvtier.lora\0{name}\0{path}\0{adapter_digest}".encode()).digest()[:_ADAPTER_BYTES]
    return [digest + tail for digest in hashes]
