"""Exact passes over blocks by an oracle in Python, which is asked for a batch of examples at a time."""

from __future__ import annotations

import numpy as np

from ...core.validation import read_only

SHARD = 2048        # work of a shard, in the sizes of the oracle: a map costs 0.2 ms
MOST_SHARDS = 2     # of a batch, whatever the number of threads


class BatchPass:
    """As `OraclePass`, by the batches of `oracle`, of which `n_best` labellings of an example are learnt.

    Parameters
    ----------
    run : callable
        `map`, or that of an executor, by which the shards of a batch are decoded.

    Attributes
    ----------
    most_bytes : float
        Of the blocks: a pass ends with the batch that makes them larger. Infinite to begin with.
    visits : int
        Examples so far, on whose blocks steps were taken.
    """

    def __init__(self, blocks, oracle, batch, n_best=1, run=map):
        self.blocks, self.oracle, self.batch, self.n_best, self._run = blocks, oracle, batch, n_best, run
        self.most_bytes, self.visits = np.inf, 0

    def working_bytes(self):
        """What is needed beside the blocks: prepared weights."""
        return 8 * self.oracle.dim

    def visit(self, order, towards=False):
        """Asks for each example of `order` and takes a step on its block, till memory is full; the sum of the gaps."""
        total = 0.0
        for first in range(0, len(order), self.batch):
            shards = self._shards(order[first:first + self.batch])
            weights = self.oracle.prepare(read_only(self.blocks.w))
            answers = self._run(lambda shard, w=weights: ask(self.oracle, shard, w, self.n_best)[1], shards)
            places = [[self.blocks.learn(*planes) for planes in answer][-1] for answer in answers]
            for shard, place in zip(shards, places, strict=True):
                total += self.blocks.climb(shard, place if towards else None)
                self.visits += len(shard)
            if self.blocks.bytes > self.most_bytes:
                break
        return total

    def _shards(self, rows):
        """The examples of a batch in shards that depend on nothing but their work."""
        n = max(1, min(int(self.oracle.sizes[rows].sum()) // SHARD, MOST_SHARDS, len(rows)))
        return [rows[len(rows) * k // n:len(rows) * (k + 1) // n] for k in range(n)]


def ask(oracle, rows, weights, n_best=1):
    """Decodings of the examples `rows`, and their planes as arguments of `learn`, those of the best labellings last."""
    if n_best == 1:
        found, further = oracle.solve_batch(rows, weights), ()
    else:
        found, owners, labellings = oracle.best_batch(rows, weights, n_best)
        owners = np.asarray(rows)[owners]
        further = (owners, *oracle.planes(owners, labellings)),
    return found, (*further, (rows, *oracle.planes(rows, found.labellings)))
