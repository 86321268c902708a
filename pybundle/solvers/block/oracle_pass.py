"""Calls of an oracle: passes over blocks, a batch of examples at a time, and planes at a point."""

from __future__ import annotations

import numpy as np

from ...core.validation import read_only

SHARD = 2048        # least work of a shard, in the sizes of the oracle: a map costs 0.2 ms
MOST_SHARDS = 2     # most shards of a batch, whatever the number of threads


class OraclePass:
    """Passes over the examples of `blocks` with an oracle.

    They run in compiled code if the oracle has it and only the best labelling is needed.

    Parameters
    ----------
    blocks : Blocks
    oracle : BatchOracle
    batch : int
        Examples decoded at one point.
    n_best : int
        Labellings asked for in each call.
    run : callable
        `map`, or the map of an executor, which decodes the shards of a batch.
    record : Record or None
        Stores the labellings of planes.

    Attributes
    ----------
    compiled : CompiledOracle or None
    most_bytes : float
        A pass ends with the batch that makes the blocks larger than this; infinite at first.
    """

    def __init__(self, blocks, oracle, batch, n_best=1, run=map, record=None):
        self.blocks, self.oracle, self.batch, self.n_best, self._run = blocks, oracle, batch, n_best, run
        self.record, self.most_bytes = record, np.inf
        self.compiled = oracle.compiled(batch) if n_best == 1 and record is None else None

    def working_bytes(self):
        """Return the bytes needed beside the blocks, for prepared weights."""
        return 8 * self.oracle.dim if self.compiled is None else self.compiled.working_bytes()

    def visit(self, order, towards=False):
        """Ask for each example and step on its block until memory is full; return the sum of the block gaps before.

        With `towards` the step goes towards the new plane. `blocks.visits` counts the steps.
        """
        if self.compiled is not None:
            return self.blocks.ask(self.compiled, order, self.batch, towards, self.most_bytes)
        total = 0.0
        for first in range(0, len(order), self.batch):
            shards = self._shards(order[first:first + self.batch])
            weights = self.oracle.prepare(read_only(self.blocks.w))
            answers = self._run(lambda shard, w=weights: self.ask(shard, w)[1], shards)
            places = [[self.blocks.add(*planes) for planes in answer][-1] for answer in answers]
            for shard, place in zip(shards, places, strict=True):
                total += self.blocks.steps(shard, place if towards else None)
            if self.blocks.bytes > self.most_bytes:
                break
        return total

    def ask(self, rows, weights):
        """Return the decodings of `rows`, and their planes as arguments of `Blocks.add`, the best labellings last."""
        if self.n_best == 1:
            found = self.oracle.solve_batch(rows, weights)
            return found, (self._planes(rows, found.labellings),)
        found, owners, further = self.oracle.best_batch(rows, weights, self.n_best)
        return found, (self._planes(np.asarray(rows)[owners], further), self._planes(rows, found.labellings))

    def _planes(self, rows, labellings):
        losses, slopes = self.oracle.planes(rows, labellings)
        if self.record is not None:
            self.record.note(rows, labellings, losses, slopes)
        return rows, losses, slopes

    def _shards(self, rows):
        """Divide the examples of a batch into shards, which depend on their work only."""
        n = max(1, min(int(self.oracle.sizes[rows].sum()) // SHARD, MOST_SHARDS, len(rows)))
        return [rows[len(rows) * k // n:len(rows) * (k + 1) // n] for k in range(n)]
