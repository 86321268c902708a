"""Exact passes over blocks by an oracle in Python, which is asked for a batch of examples at a time."""

from __future__ import annotations

from itertools import pairwise
from time import perf_counter

import numpy as np

from ..core.validation import read_only

PIECE = 2048        # work, in the sizes of the oracle, from which the examples of a batch are decoded in pieces,
MOST_PIECES = 2     # by threads if there are any: a piece costs 0.2 ms of Python, in which the others wait,
THREADS_PAY = 2e-3  # and if the batch before took so many seconds


class BatchPass:
    """As `OraclePass`, by the batches of `oracle`, of which `n_best` labellings of an example are learnt.

    Attributes
    ----------
    most_bytes : float
        Of the blocks: a pass ends with the batch that makes them larger. Infinite to begin with.
    visits : int
        Examples so far, on whose blocks steps were taken.
    """

    def __init__(self, blocks, oracle, hands, batch, n_best=1):
        self.blocks, self.oracle, self.batch, self.n_best = blocks, oracle, batch, n_best
        self._hands, self.most_bytes, self.visits = hands, np.inf, 0
        self._seconds = 0.0             # of the last batch of decodings

    def working_bytes(self):
        """What is needed beside the blocks: prepared weights."""
        return 8 * self.oracle.dim

    def visit(self, order, towards=False, run=map):
        """Asks for each example of `order` and takes a step on its block, till memory is full; the sum of the gaps."""
        total = 0.0
        for first in range(0, len(order), self.batch):
            rows = order[first:first + self.batch]
            for piece, places in self._learn(rows, self.oracle.prepare(read_only(self.blocks.w)), run):
                total += self.blocks.climb(piece, places if towards else None)
                self.visits += len(piece)
            if self.blocks.bytes > self.most_bytes:
                break
        return total

    def _learn(self, rows, weights, run):
        """Learns planes of a batch in pieces that depend on nothing but their work: examples and places of each."""
        seconds = []

        def look(piece, learn):
            began = perf_counter()
            found, *further = ask(self.oracle, piece, weights, self.n_best)
            for planes in further:
                learn(*planes)
            places = learn(piece, *self.oracle.planes(piece, found.labellings))
            seconds.append(perf_counter() - began)
            return piece, places

        n_pieces = max(1, min(int(self.oracle.sizes[rows].sum()) // PIECE, MOST_PIECES, len(rows)))
        edges = [len(rows) * k // n_pieces for k in range(n_pieces + 1)]
        pieces = [rows[first:last] for first, last in pairwise(edges)]
        # a sampled example may come twice: threads would meet at its block
        if n_pieces > 1 and self._seconds > THREADS_PAY and len(set(rows.tolist())) == len(rows):
            with self._hands.shift() as learn:
                answers = list(run(lambda piece: look(piece, learn), pieces))
        else:
            answers = [look(piece, self.blocks.learn) for piece in pieces]
        self._seconds = sum(seconds)
        return answers


def ask(oracle, rows, weights, n_best=1):
    """Decodings of the examples `rows`, then further planes of theirs as arguments of `learn`, if any."""
    if n_best == 1:
        return oracle.solve_batch(rows, weights),
    found, owners, further = oracle.best_batch(rows, weights, n_best)
    rows = np.asarray(rows)[owners]
    return found, (rows, *oracle.planes(rows, further))
