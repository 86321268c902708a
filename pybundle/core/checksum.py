"""Checksums of large arrays; they show whether the data of a run were changed."""

from __future__ import annotations

from zlib import crc32

import numpy as np

READ_AHEAD = 1 << 20
"""Bytes of a piece of an array. A piece fits into the cache, so memory is read once for row and column sums."""
WIDTH = 509
"""Number of words in a row, a prime: if one constant is added to all words, as by scaling by 2, the row sums change."""


def checksum(array, mark=0):
    """Return a checksum of all bytes of a contiguous array, four times as fast as their CRC.

    >>> import numpy as np
    >>> x = np.arange(10.0)
    >>> checksum(x) == checksum(x.copy()), checksum(x) == checksum(x[::-1].copy())
    (True, False)
    """
    for piece in pieces(array):
        mark = piece_checksum(piece, mark)
    return mark


def pieces(array):
    """Yield pieces of whole rows of the array, of about `READ_AHEAD` bytes."""
    step = max(1, READ_AHEAD // max(1, array[:1].nbytes))
    for start in range(0, len(array), step):
        yield array[start:start + step]


def piece_checksum(piece, mark=0):
    """Return the CRC of row and column sums of the 64-bit words, in rows of `WIDTH`, and of the remaining bytes."""
    data = piece.reshape(-1).view(np.uint8)
    size = len(data) // (8 * WIDTH) * 8 * WIDTH
    words = data[:size].view(np.uint64).reshape(-1, WIDTH)
    for sums in (words.sum(axis=1), words.sum(axis=0)):
        mark = crc32(sums, mark)
    return crc32(data[size:], mark)
