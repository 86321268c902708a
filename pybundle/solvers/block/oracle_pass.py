"""Passes of an oracle over the examples: `visit` steps on the blocks after each batch, `value` stays at one point."""

from __future__ import annotations

import numpy as np

from ...core.kept import Kept
from ...core.rounding import norm
from ...core.validation import read_only
from ...models.batch_oracle import batched
from .memory_limit import MemoryLimit

SHARD = 2048        # minimum work of a shard of a batch, in units of `oracle.sizes`; starting shards takes 0.2 ms
MOST_SHARDS = 2     # maximum number of shards of a batch, for any number of threads
EXAMPLES = 256      # number of examples of a shard in a pass at one point
WAVE = 16           # number of shards that are decoded before their planes are stored
VECTORS, NUMBERS = 11, 4    # a run holds so many vectors of length dim, and numbers per example, beside its blocks


class OraclePass(Kept):
    """Passes over the examples of `blocks` with an oracle, whose planes the blocks store.

    The passes run in compiled code if the oracle has a compiled form and only the best labellings are needed.

    Parameters
    ----------
    blocks : Blocks
    risk : Structured or LinearRisk
        Its `oracle()` decodes examples in batches, and its executor maps the shards of a batch.
    batch : int
        Number of examples decoded at one point.
    n_best : int
        Number of labellings that each call of the oracle returns.
    record : Record or None
        It stores the labellings of planes.
    memory_limit : int or None
        Bytes for the blocks and `working_bytes` together; planes are dropped or merged to keep the limit.

    Attributes
    ----------
    oracle : BatchOracle
    compiled : CompiledOracle or None
    visits : float
        Number of examples decoded so far.
    """

    kept = ("visits",)

    def __init__(self, blocks, risk, batch, n_best=1, record=None, memory_limit=None):
        self.blocks, self.oracle, self.n_best, self.record = blocks, batched(risk.oracle()), n_best, record
        self.batch, self.visits, self._run = min(batch, risk.n_examples), 0.0, risk.map_shards
        self.compiled = self.oracle.compiled(self.batch) if n_best == 1 and record is None else None
        self._memory = None
        if memory_limit is not None:
            self._memory = MemoryLimit(memory_limit, self.working_bytes(), self.oracle)
            self._memory.keep(blocks)

    def working_bytes(self):
        """Return the bytes needed beside the blocks."""
        prepared = 8 * self.oracle.dim if self.compiled is None else self.compiled.working_bytes()
        return 8 * (VECTORS * self.blocks.dim + NUMBERS * self.blocks.n_blocks) + prepared

    def visit(self, order, towards=False):
        """Decode the examples of `order` and step on their blocks; return the sum of the block gaps before the steps.

        With `towards` a step goes towards the new plane, otherwise towards the best plane of the block.
        """
        total, done = 0.0, 0
        while done < len(order):
            before = self.blocks.visits
            try:
                total += self._visit(order[done:], towards)
            finally:
                self.visits += self.blocks.visits - before
            done += self.blocks.visits - before
            if self._memory is not None:
                self._memory.keep(self.blocks)
        return total

    def value(self, w, stores=True):
        """Decode all examples at w, and store their planes if `stores`.

        Return R(w), a bound on its rounding error, and how far R(w) lies above the values of the labellings found.
        """
        weights, far = self.oracle.prepare(read_only(w)), norm(w)

        def look(rows):
            found, planes = self._ask(rows, weights)
            low = float(np.maximum(found.values, 0.0).sum())
            return self.oracle.total(rows, found.uppers, far), low, planes

        value, error, low = 0.0, 0.0, 0.0
        size, wave = (EXAMPLES, WAVE) if self._memory is None else (64, 1)      # memory is checked after each wave
        n = self.blocks.n_blocks
        shards = np.array_split(np.arange(n), -(-n // size))
        for first in range(0, len(shards), wave):
            for (part, part_error), part_low, planes in self._run(look, shards[first:first + wave]):
                value, error, low = value + part, error + part_error, low + part_low
                for each in planes if stores else ():
                    self.blocks.add(*each)
                self.visits += len(planes[-1][0])
            if self._memory is not None:
                self._memory.keep(self.blocks)
        return value, error, 0.0 if self.oracle.decodes_exactly else value - low

    def _visit(self, order, towards):
        """Do the same as `visit`, but end when the blocks exceed their memory; `blocks.visits` counts the steps."""
        most_bytes = np.inf if self._memory is None else self._memory.most
        if self.compiled is not None:
            return self.blocks.ask(self.compiled, order, self.batch, towards, most_bytes)
        total = 0.0
        for first in range(0, len(order), self.batch):
            shards = self._shards(order[first:first + self.batch])
            weights = self.oracle.prepare(read_only(self.blocks.w))
            answers = self._run(lambda shard, w=weights: self._ask(shard, w)[1], shards)
            places = [[self.blocks.add(*planes) for planes in answer][-1] for answer in answers]
            for shard, place in zip(shards, places, strict=True):
                total += self.blocks.steps(shard, place if towards else None)
            if self.blocks.bytes > most_bytes:
                break
        return total

    def _ask(self, rows, weights):
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
        """Divide the examples of a batch into shards by their work alone, so that any executor gives the same bits."""
        n = max(1, min(int(self.oracle.sizes[rows].sum()) // SHARD, MOST_SHARDS, len(rows)))
        return [rows[len(rows) * k // n:len(rows) * (k + 1) // n] for k in range(n)]
