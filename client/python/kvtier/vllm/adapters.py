"""The digests of the LoRA adapters that requests use."""

import os
from pathlib import Path

from .weights import UNKNOWN_WEIGHTS, WeightsFinder, known_digest

_MOST_ADAPTERS = 1024  # Most digests that are kept; the oldest are looked up again.


class AdapterDigests:
    """Finds the digest of each adapter's folder, one after the other, on a thread. Only one thread uses it."""

    def __init__(self) -> None:
        self._digests: dict[str, str | None] = {}  # By path; None: it is not known yet, or cannot be found.
        self._finder: WeightsFinder | None = None  # The latest one.

    def digest_of(self, path: str) -> str | None:
        """Returns the digest of all files in an adapter's folder; "": there is no such folder; None: it is not known yet.

        Never waits. Raises what known_digest() raises, once for an adapter, whose digest then cannot be found.
        """
        path = os.path.expanduser(path)
        if path in self._digests or not Path(path).is_dir():
            return self._digests.get(path, "")
        if self._finder is not None and not self._finder.ended():
            return None
        if len(self._digests) >= _MOST_ADAPTERS:
            del self._digests[next(iter(self._digests))]
        self._digests[path] = None
        digest = known_digest(path, None)
        if digest == UNKNOWN_WEIGHTS:
            digests = self._digests
            self._finder = WeightsFinder(path, None, lambda found: digests.update({path: found}))
        else:
            self._digests[path] = digest
        return self._digests[path]

    def forget(self) -> None:
        """Forgets all digests, because adapters may have been replaced."""
        self._digests = {}

    def close(self) -> None:
        """Ends the thread."""
        if self._finder is not None:
            self._finder.close()
