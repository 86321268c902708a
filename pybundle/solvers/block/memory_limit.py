"""The memory limit of a block method on cached planes, which drops and merges planes to keep the limit."""

from __future__ import annotations

import math

import numpy as np

from ...core.exceptions import ParameterError

HOLES = 1.15        # memory of the heap, with holes, divided by the memory of the blocks: measured, 1.1 to 1.3
BLOCK = 400         # bytes of a block beside its slopes
SHRINK = 0.95       # blocks that are too large shrink to this fraction of the limit, so that they seldom grow too large
MERGED = 1.5        # an error message assumes that a merged plane has so many times the entries of another plane
SAMPLE = 64         # number of examples from which the size of a plane is estimated


class MemoryLimit:
    """The bytes that cached planes may take.

    Parameters
    ----------
    limit : int
        Bytes in all.
    working_bytes : int
        Bytes needed beside the blocks.
    oracle : BatchOracle
        It finds the planes from which the size of a plane is estimated.

    Attributes
    ----------
    most : float
        Bytes that the blocks may take.
    """

    def __init__(self, limit, working_bytes, oracle):
        self._limit, self._working_bytes, self._oracle = limit, working_bytes, oracle
        self.most = max(limit - working_bytes, limit // 2) / HOLES

    def keep(self, blocks):
        """Drop and merge planes if the blocks are too large."""
        if blocks.bytes <= self.most or blocks.shrink(SHRINK * self.most) or blocks.bytes <= self.most:
            return
        needed = HOLES * max(blocks.bytes, blocks.n_blocks * (BLOCK + self._plane_bytes(blocks.n_blocks)))
        least = math.ceil(MERGED * (needed + min(needed, self._working_bytes)))
        raise ParameterError(f"memory_limit must hold a plane of each of {blocks.n_blocks} examples, some {least} "
                             f"bytes in all, more where many are merged, got {self._limit}; raise it or use method "
                             "'oca', which keeps planes of parts")

    def _plane_bytes(self, n):
        """Return the mean number of bytes of a slope, estimated from some of the n examples at w = 0."""
        rows, dim = np.unique(np.linspace(0, n - 1, SAMPLE).astype(np.intp)), self._oracle.dim
        found = self._oracle.solve_batch(rows, self._oracle.prepare(np.zeros(dim)))
        slopes = self._oracle.planes(rows, found.labellings)[1]
        is_dense = slopes.nnz * 3 >= 2 * len(rows) * dim
        return 8.0 * dim if is_dense else 12.0 * slopes.nnz / len(rows)
