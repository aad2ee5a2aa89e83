"""The keys of a request's blocks."""

import hashlib
from typing import Protocol


class HashedRequest(Protocol):
    """The fields of the engine's Request that are read here."""

    block_hashes: list[bytes]  # One for each full block, chained over all before it.
    lora_request: object | None  # Has lora_name and lora_path.


_ADAPTER_BYTES = 16


def block_keys(request: HashedRequest, first: int, end: int) -> list[bytes]:
    """Returns the keys of blocks [first, end) of `request`, fewer where it has fewer full blocks.

    They are the engine's own hashes, which cover the tokens, all before them, images, the adapter's name
    and the cache salt. An adapter named as another request's salt has the same hash in a first
    block, and the hash does not know the adapter's path: so the keys of a request with an adapter
    end with 16 bytes of a digest of its name and path.
    """
    hashes = request.block_hashes[first:end]
    adapter = getattr(request, "lora_request", None)
    if adapter is None:
        return list(hashes)
    name, path = str(adapter.lora_name), str(getattr(adapter, "lora_path", ""))
    tail = hashlib.sha256(f"kvtier.lora\0{name}\0{path}".encode()).digest()[:_ADAPTER_BYTES]
    return [digest + tail for digest in hashes]
