"""Lanes: the cores of this process, each one a thread that runs its share of a step.

A BLAS with threads of its own spins at its barriers, and on a busy machine one preempted thread
holds up the rest: measured on two cores beside a compiler, a 5 s prefill took 78 s. So the BLAS
is held to one thread, for the whole process, and the split is made here, where waiting sleeps.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

_MAX_LANES = 4  # The products here are too small to keep more lanes busy.
_COLUMN_QUANTUM = 64  # Cuts fall on whole vector registers and cache lines.


class Lanes:
    """`count` lanes; lane 0 is the caller's own thread. One caller at a time."""

    def __init__(self, count=None):
        """`count` defaults to the cores this process may use, at most _MAX_LANES."""
        self.count = count or min(_MAX_LANES, len(os.sched_getaffinity(0)))
        threadpool_limits(limits=1, user_api="blas")
        self._threads = ThreadPoolExecutor(max(1, self.count - 1), thread_name_prefix="lane")

    def run(self, work):
        """Calls work(lane) once in each lane and waits for all; raises what any of them raised."""
        others = [self._threads.submit(work, lane) for lane in range(1, self.count)]
        work(0)
        for other in others:
            other.result()

    def columns(self, width, lane):
        """Returns the slice of `width` columns that `lane` computes; the lanes' slices are disjoint and cover all."""
        def edge(i):
            if i == self.count:
                return width
            return width * i // self.count // _COLUMN_QUANTUM * _COLUMN_QUANTUM

        return slice(edge(lane), edge(lane + 1))

    def product(self, rows, matrix, out):
        """Sets out = rows @ matrix; each lane computes its own columns of `out`."""
        def share(lane):
            own = self.columns(matrix.shape[1], lane)
            np.matmul(rows, matrix[:, own], out=out[:, own])

        self.run(share)
