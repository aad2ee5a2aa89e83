"""SHA-256 of whole files, remembered from one engine to the next."""

import fcntl
import hashlib
import json
import logging
import os
import re
import stat
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

_log = logging.getLogger("vllm.kvtier")  # A child of the engine's own logger.
_CHUNK_BYTES = 4 * 1024 * 1024  # Bytes read at once; between two reads the hashing can be stopped.
_MOST_REMEMBERED = 4096  # Most digests of a memory; the oldest are forgotten.
_MEMORY_BYTES = 1024 * 1024  # Most bytes of a memory that are read; so many digests have fewer.
_LOCK_RETRY_S = 0.1  # Interval at which a process asks whether the one that hashes has ended.
_TICK_S = 0.1  # Longest tick of the clock that stamps files: a later write has another stamp.
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Stopped(Exception):
    """The engine ends before its files are hashed."""


def blob_digest(path: Path) -> str | None:
    """Returns the SHA-256 by which a model hub's cache names the file; None: it is no such file.

    The cache links a large file of a model to blobs/NAME, whose NAME is the 64 digits of its SHA-256. It names a small
    file by 40 digits of Git's SHA-1, which are not taken for an identity.
    """
    blob = path.resolve()
    in_cache = blob.parent.name == "blobs" and blob.parent.parent.name.startswith("models--")
    return blob.name if in_cache and _DIGEST.fullmatch(blob.name) else None


def known_digests(paths: Sequence[Path]) -> list[str | None]:
    """Returns the SHA-256 of each file as far as it is known without reading the file: named by a hub, or remembered."""
    named = [blob_digest(path) for path in paths]
    if None not in named:
        return named
    try:
        file = _open_own(_name_of_memory(paths))
    except OSError:
        return named
    try:
        known = _parse(os.pread(file, _MEMORY_BYTES, 0))  # Another process may be writing it: half of it is no JSON.
    finally:
        os.close(file)
    facts = [path.stat() for path in paths]
    return [digest or (None if _is_young(fact) else known.get(_identity(fact))) for digest, fact in zip(named, facts)]


def file_digests(paths: Sequence[Path], stopped: threading.Event) -> list[str]:
    """Returns the SHA-256 of each file, in hexadecimal: a hub's blob by its name, and any other by all of its bytes.

    Processes of one user that ask for the same files take turns: the first one hashes, and the others read what it
    remembers. Without a folder for that each hashes. Raises Stopped once `stopped` is set, OSError if a file cannot
    be read, and ValueError, naming the file, if it changes meanwhile.
    """
    named = [blob_digest(path) for path in paths]
    if None not in named:
        return [digest for digest in named if digest is not None]
    with _Memory(_name_of_memory(paths), stopped) as memory:
        return [digest or memory.digest(path) for path, digest in zip(paths, named)]


def _name_of_memory(paths: Sequence[Path]) -> str:
    """Returns one of 256 names, so that a folder stays small; models that share a name take turns."""
    names = "\0".join(str(path.resolve()) for path in paths)
    return f"weights-{hashlib.sha256(names.encode()).hexdigest()[:2]}.json"


class _Memory:
    """Digests of files by their identity, in a file that only one process has open at a time.

    The file is the user's own, in a folder of the user's own. An entry is void as soon as its file was replaced or
    written: the identity has the device, the inode, the size and the times of both kinds of change.
    """

    def __init__(self, name: str, stopped: threading.Event) -> None:
        self._name = name
        self._stopped = stopped
        self._known: dict[str, str] = {}
        self._file: int | None = None

    def __enter__(self) -> "_Memory":
        try:
            self._file = _open_own(self._name)
            self._lock(self._file)
            self._known = _parse(os.pread(self._file, _MEMORY_BYTES, 0))
        except OSError as error:
            _log.warning("kvtier: digests of weights are not remembered, and every start reads all files: %s", error)
            self._close()
        except Stopped:
            self._close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._close()

    def digest(self, path: Path) -> str:
        """Returns the SHA-256 of the file: as it is remembered, or else hashed now and remembered."""
        with path.open("rb", buffering=0) as file:
            if _is_young(os.fstat(file.fileno())) and self._stopped.wait(_TICK_S):
                raise Stopped
            identity = _identity(os.fstat(file.fileno()))
            if identity not in self._known:
                digest, chunk = hashlib.sha256(), memoryview(bytearray(_CHUNK_BYTES))
                while count := file.readinto(chunk):
                    digest.update(chunk[:count])
                    if self._stopped.is_set():
                        raise Stopped
                if _identity(os.fstat(file.fileno())) != identity:
                    raise ValueError(f"{path} changes while it is read; must stay as the engine loaded it")
                self._known[identity] = digest.hexdigest()
                self._remember()
        return self._known[identity]

    def _lock(self, file: int) -> None:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if self._stopped.wait(_LOCK_RETRY_S):
                    raise Stopped from None

    def _remember(self) -> None:
        if self._file is None:
            return
        latest = dict(list(self._known.items())[-_MOST_REMEMBERED:])
        try:
            os.ftruncate(self._file, 0)  # Half a memory is no JSON, and is not believed.
            os.pwrite(self._file, json.dumps(latest).encode(), 0)
        except OSError as error:
            _log.warning("kvtier: the digest of a file is not remembered: %s", error)

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def _identity(facts: os.stat_result) -> str:
    return f"{facts.st_dev}:{facts.st_ino}:{facts.st_size}:{facts.st_mtime_ns}:{facts.st_ctime_ns}"


def _is_young(facts: os.stat_result) -> bool:
    """Returns whether a write to the file now may leave it the same times."""
    return abs(time.time() - facts.st_ctime) < _TICK_S


def _parse(content: bytes) -> dict[str, str]:
    """Returns a memory's digests; {}: it is new, was written in part, or is none."""
    try:
        known = json.loads(content)
        return {str(identity): digest for identity, digest in known.items() if _DIGEST.fullmatch(digest)}
    except (ValueError, AttributeError, TypeError):
        return {}


def _open_own(name: str) -> int:
    """Opens a file in kvtier's folder of the user's cache, and makes both if they are absent.

    Raises OSError, also if either is another user's, or others may write to it.
    """
    cache = os.environ.get("XDG_CACHE_HOME", "")
    cache = cache if os.path.isabs(cache) else os.path.expanduser("~/.cache")
    if not os.path.isabs(cache):
        raise FileNotFoundError("the user has no home; set XDG_CACHE_HOME")
    path = os.path.join(cache, "kvtier")
    os.makedirs(cache, mode=0o700, exist_ok=True)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _refuse_foreign(os.fstat(folder), path)
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        _refuse_foreign(os.fstat(file), os.path.join(path, name))
    except OSError:
        os.close(file)
        raise
    return file


def _refuse_foreign(facts: os.stat_result, path: str) -> None:
    if facts.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to user {facts.st_uid}; must belong to user {os.geteuid()}")
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{path} has the mode {stat.S_IMODE(facts.st_mode):o}; must be writable for its owner alone")
