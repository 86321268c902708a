"""The record of a run with `evidence=True`: points of its planes, and labellings of planes of single examples."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

import numpy as np

MOST_BYTES = 1 << 26
"""Largest size of messages in a certificate."""


class Record:
    """Stores points of planes by index, and labellings by example and plane.

    `FoundLabellings` may take the place of a point: then the plane is the sum of the planes of these labellings.
    """

    def __init__(self):
        self.points, self.labellings, self._next = {}, {}, 0

    def point(self, w):
        """Store a point and return its index."""
        self.points[self._next] = np.array(w)
        self._next += 1
        return self._next - 1

    def labels(self, labellings):
        """Store labellings whose planes were added up, one or None for each example; return the index."""
        self.points[self._next] = FoundLabellings(labellings)
        self._next += 1
        return self._next - 1

    def note(self, rows, labellings, losses, slopes):
        """Store the labelling of each plane of an example."""
        for name, labelling in zip(names_of(rows, losses, slopes), labellings, strict=True):
            self.labellings.setdefault(name, labelling)

    def keep(self, numbers):
        """Drop all points but those with the indices `numbers`."""
        self.points = {k: self.points[k] for k in set(numbers) & self.points.keys()}


def messages_of(risk):
    """Return a copy of the messages that prove the values of the last pass, or None if missing or too large."""
    if risk.decodes_exactly or risk.oracle is None:
        return None
    messages = getattr(risk.oracle(), "dual_point", None)
    return None if messages is None or messages.nbytes > MOST_BYTES else messages.copy()


class FoundLabellings(NamedTuple):
    """The labellings of all examples, None for examples without a labelling."""

    labellings: list


def names_of(rows, offsets, slopes):
    """Yield a name for each plane of an example; equal planes have equal names."""
    slopes = slopes.tocsr()
    for j, (i, offset) in enumerate(zip(np.asarray(rows).tolist(), np.asarray(offsets).tolist(), strict=True)):
        inside = slice(slopes.indptr[j], slopes.indptr[j + 1])
        data, used = slopes.data[inside], slopes.data[inside] != 0.0
        digest = blake2b(data[used].tobytes(), digest_size=16)
        digest.update(slopes.indices[inside][used].astype(np.int64).tobytes())
        yield i, offset, digest.digest()
