#!/usr/bin/env python3
# bench: copy_python - copy_in and copy_out of blocks from Python, beside the same calls of the C library
# check: --rounds=41
# targets: kvtier-agent kvtier_client_c
"""One agent, one thread, the same pieces by both interfaces in turns: what Python adds to a copy.

    scripts/bench copy_python [--rounds N]

The C library is called through ctypes with arguments made before; what ctypes adds, about a
microsecond a call, is counted as the C library's. The memory of either side is larger than the
last-level cache. In each round each way copies some blocks; the median of the rounds' ratios counts.
"""

import argparse
import ctypes
import mmap
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time
from statistics import median

import kvtier

BUILD = pathlib.Path(__file__).resolve().parents[1] / "build" / "dev"
BLOCKS = 40
DEFAULT_TIMEOUT = ctypes.c_int32(2**31 - 1)  # KVTIER_DEFAULT_TIMEOUT.
TURN = 8  # Blocks that an interface copies in its turn.
SHAPES = {"2MiB": (1, 2 << 20), "30x48KiB": (30, 48 << 10)}  # Pieces of a block, bytes of one.


class Bytes(ctypes.Structure):
    """kvtier_bytes, and kvtier_room."""

    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class Options(ctypes.Structure):
    """kvtier_options."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("socket_dir", ctypes.c_char_p),
                ("tenant", ctypes.c_char_p), ("tenant_secret", Bytes),
                ("default_timeout_ms", ctypes.c_uint32), ("connect_timeout_ms", ctypes.c_uint32)]


class Spec(ctypes.Structure):
    """kvtier_space_spec."""

    _fields_ = ([("struct_size", ctypes.c_size_t)]
                + [(name, ctypes.c_char_p)
                   for name in ("model", "weights_digest", "lora", "dtype", "layout")]
                + [(name, ctypes.c_uint32)
                   for name in ("layers", "kv_heads", "head_dim", "tokens_per_block", "tensor_rank",
                                "tensor_size", "pipeline_rank", "pipeline_size")]
                + [("block_bytes", ctypes.c_uint64), ("codec", ctypes.c_char_p)])


class Memory:
    """An engine's memory: each layer has a part of its own, in which a block has one piece."""

    def __init__(self, pieces, piece_bytes):
        self.map = mmap.mmap(-1, BLOCKS * pieces * piece_bytes)
        self.map.madvise(mmap.MADV_HUGEPAGE)
        self.map[:] = random.Random(1).randbytes(len(self.map))
        view = memoryview(self.map)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.views, self.arrays = [], []
        for block in range(BLOCKS):
            places = [(layer * BLOCKS + block) * piece_bytes for layer in range(pieces)]
            views = [view[at:at + piece_bytes] for at in places]
            self.views.append(views[0] if pieces == 1 else views)
            self.arrays.append((Bytes * pieces)(*[(address + at, piece_bytes) for at in places]))


def check(result):
    if result < 0:
        sys.exit(f"bench_copy_python: the C library says {result}")
    return result


class Ways:
    """The two interfaces, each with keys of its own in one space."""

    def __init__(self, socket_dir, memory, pieces, piece_bytes):
        self.memory, self.pieces = memory, pieces
        spec = kvtier.SpaceSpec(model="bench", weights_digest="0", dtype="bfloat16", layout="any",
                                layers=pieces, kv_heads=1, head_dim=1, tokens_per_block=16,
                                block_bytes=pieces * piece_bytes)
        self.client = kvtier.Client(socket_dir=socket_dir)
        self.space = self.client.register_space(spec)
        self.keys = [b"python %09d" % i for i in range(BLOCKS)]
        self.c = ctypes.CDLL(str(BUILD / "lib" / "libkvtier_client.so"))
        for name in ("reserve", "onboard", "commit"):
            getattr(self.c, f"kvtier_{name}").restype = ctypes.c_int64
        self.c_client, self.c_space = ctypes.c_void_p(), ctypes.c_uint32()
        options = Options(struct_size=ctypes.sizeof(Options), socket_dir=socket_dir.encode())
        check(self.c.kvtier_open(ctypes.byref(options), ctypes.byref(self.c_client)))
        c_spec = Spec(struct_size=ctypes.sizeof(Spec), model=b"bench", weights_digest=b"0",
                      dtype=b"bfloat16", layout=b"any", layers=pieces, kv_heads=1, head_dim=1,
                      tokens_per_block=16, tensor_size=1, pipeline_size=1,
                      block_bytes=pieces * piece_bytes)
        check(self.c.kvtier_register_space(self.c_client, ctypes.byref(c_spec),
                                           ctypes.byref(self.c_space)))
        self.c_texts = [b"c      %09d" % i for i in range(BLOCKS)]
        self.c_keys = (Bytes * BLOCKS)(*[
            (ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p), len(text))
            for text in self.c_texts])

    def reserve(self):
        self.put = self.client.reserve(self.space, self.keys)
        self.c_put = ctypes.c_void_p()
        reserved = check(self.c.kvtier_reserve(
            self.c_client, self.c_space, None, self.c_keys, ctypes.c_size_t(BLOCKS), 1,
            DEFAULT_TIMEOUT, ctypes.byref(self.c_put)))
        assert self.put.states == ["reserved"] * BLOCKS and reserved == BLOCKS

    def commit(self):
        assert self.put.commit() == BLOCKS
        assert check(self.c.kvtier_commit(self.c_put)) == BLOCKS

    def onboard(self):
        self.hit = self.client.onboard(self.space, self.keys)
        self.c_hit = ctypes.c_void_p()
        leased = check(self.c.kvtier_onboard(
            self.c_client, self.c_space, self.c_keys, ctypes.c_size_t(BLOCKS), 1, 0,
            DEFAULT_TIMEOUT, ctypes.byref(self.c_hit)))
        assert len(self.hit) == BLOCKS and leased == BLOCKS

    def release(self):
        self.hit.release()
        self.c.kvtier_release_hits(ctypes.byref(self.c_hit), ctypes.c_size_t(1))

    def close(self):
        self.client.close()
        self.c.kvtier_close(self.c_client)

    def copy_in(self, blocks):
        put, views = self.put, self.memory.views
        for i in blocks:
            put.copy_in(i, views[i])

    def c_copy_in(self, blocks):
        call, put, arrays, pieces = (self.c.kvtier_copy_in, self.c_put, self.memory.arrays,
                                     ctypes.c_size_t(self.pieces))
        for i in blocks:
            check(-abs(call(put, ctypes.c_size_t(i), arrays[i], pieces)))

    def copy_out(self, blocks):
        hit, views = self.hit, self.memory.views
        for i in blocks:
            if not hit.copy_out(i, views[i]):
                sys.exit("bench_copy_python: a block was not proven")

    def c_copy_out(self, blocks):
        call, hit, arrays, pieces = (self.c.kvtier_copy_out, self.c_hit, self.memory.arrays,
                                     ctypes.c_size_t(self.pieces))
        for i in blocks:
            check(-abs(call(hit, ctypes.c_size_t(i), arrays[i], pieces)))


def measure(ours, reference, rounds, begin=None, end=None):
    """Returns the seconds that a block takes by `ours`, and that speed as a multiple of the reference's."""
    seconds = {ours: [], reference: []}
    at = 0
    for turn in range(rounds):
        if begin:
            begin()
        for way in (ours, reference) if turn % 2 else (reference, ours):
            blocks = [(at + i) % BLOCKS for i in range(TURN)]
            at += TURN
            started = time.perf_counter()
            way(blocks)
            seconds[way].append((time.perf_counter() - started) / TURN)
        if end:
            end()
    ratio = median(c / python for c, python in zip(seconds[reference], seconds[ours]))
    return median(seconds[ours]), ratio


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def run(socket_dir, rounds):
    for name, (pieces, piece_bytes) in SHAPES.items():
        ways = Ways(socket_dir, Memory(pieces, piece_bytes), pieces, piece_bytes)
        ways.reserve()
        ways.copy_in(range(BLOCKS))
        ways.c_copy_in(range(BLOCKS))
        copied_in = measure(ways.copy_in, ways.c_copy_in, rounds)
        ways.commit()
        copied_out = measure(ways.copy_out, ways.c_copy_out, rounds, ways.onboard, ways.release)
        ways.close()
        for direction, (seconds, ratio) in (("in", copied_in), ("out", copied_out)):
            print(f"figure copy_python.{direction}.{name} "
                  f"{pieces * piece_bytes / seconds / 1e9:.4g} GB/s {ratio:.4g} c_library")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=201)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="kvtier-bench-") as directory:
        with open(os.path.join(directory, "log"), "w") as log:
            agent = subprocess.Popen(
                [BUILD / "bin" / "kvtier-agent", "--node_id=bench", f"--socket_dir={directory}",
                 f"--listen={free_address()}", "--host_bytes=1GiB", "--slab_bytes=64MiB"],
                stderr=log)
        try:
            deadline = time.monotonic() + 20
            while not os.path.exists(os.path.join(directory, "kvtier-fd.sock")):
                if agent.poll() is not None or time.monotonic() > deadline:
                    sys.exit(pathlib.Path(directory, "log").read_text())
                time.sleep(0.05)
            run(directory, rounds)
        finally:
            agent.kill()
            agent.wait()


if __name__ == "__main__":
    main()
