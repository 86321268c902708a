"""`LazyWeights` packs the weights of a pass for the kernels, but only if enough rows use them."""

import numpy as np

from ._sparse_weights import SparseWeightRows

NARROW = 2
"""A batch reads W unpacked if it has this many times fewer non-zeros than X has columns, because packing W would cost
more. On CoNLL-2000 (22 labels, 118687 features) both ways cost the same at about 120 sentences."""


def is_narrow(rows, n):
    """Return whether a batch of n of the `Rows` reads W unpacked: if it is CSR with few non-zeros, or W is sparse."""
    if isinstance(rows, SparseWeightRows):
        return True
    storage = rows.storage
    return len(storage) == 3 and NARROW * n * int(storage[2][-1]) < rows.n_rows * rows.n_features


class LazyWeights:
    """W (n_blocks, width) for rows of features, packed for the kernels when a batch first wants it.

    Whether a batch reads W packed depends on its size alone, not on batches before it, so the number of threads changes
    no bit. w is not copied and must not change.

    Parameters
    ----------
    rows : Rows
    w : float64 array
        Begins with W.ravel().
    """

    def __init__(self, rows, w):
        self._rows, self._packed = rows, None
        self.W = np.ascontiguousarray(w[:rows.n_weights], dtype=np.float64).reshape(rows.n_blocks, -1)
        if len(rows.storage) == 1:
            self._packed = rows.pack(self.W)

    def packed(self, n_rows):
        """Return W for the kernels, or None for a batch of so few rows that it reads W without packing."""
        if is_narrow(self._rows, n_rows):
            return None
        if self._packed is None:
            self._packed = self._rows.pack(self.W)        # two threads may both pack W, with the same result
        return self._packed

    def scores(self, rows, n_rows=None):
        """Return scores (len(rows), K); `n_rows` is the size of the whole batch if these are a piece of it."""
        out, packed = np.empty((len(rows), self._rows.n_scores)), self.packed(n_rows or len(rows))
        if packed is None:
            self._rows.scores_unpacked(self.W, rows, out)
        else:
            self._rows.scores(packed, rows, out)
        return out
