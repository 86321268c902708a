"""Arrays in memory that two processes see."""

from __future__ import annotations

from contextlib import suppress
from multiprocessing.shared_memory import SharedMemory

import numpy as np

ALIGNMENT = 64


class Block:
    """A block of shared memory that the driver owns; it grows by being replaced.

    Attributes
    ----------
    name : str or None
        What the other process opens; another one after `reserve` had to replace the block.
    """

    def __init__(self):
        self._memory = None

    @property
    def name(self):
        return None if self._memory is None else self._memory.name

    def reserve(self, nbytes):
        """Make room for so many bytes; the contents are lost if the block has to grow."""
        if self._memory is None or self._memory.size < nbytes:
            self.close()
            self._memory = SharedMemory(create=True, size=max(int(1.25 * nbytes), 4096))

    def write(self, arrays):
        """Copy arrays into the block; return their layout."""
        self.reserve(size_of(arrays))
        return write(self._memory, arrays)

    def read(self, layout):
        """Copies of the arrays of a layout."""
        return read(self._memory, layout)

    def close(self):
        """Gives the memory back."""
        if self._memory is not None:
            self._memory.close()
            with suppress(FileNotFoundError):       # of an earlier call that was interrupted
                self._memory.unlink()
            self._memory = None


class Window:
    """The block of another process, opened by name and kept open until the name changes."""

    def __init__(self):
        self._memory = None

    def open(self, name):
        """The memory of that name, or None."""
        if self._memory is not None and self._memory.name != name:
            self._memory.close()
            self._memory = None
        if self._memory is None and name is not None:
            self._memory = SharedMemory(name)
        return self._memory


def size_of(arrays):
    """Bytes that `write` takes for these arrays."""
    return sum(_padded(array.nbytes) for array in arrays)


def write(memory, arrays):
    """Copy arrays one after another into shared memory; return (dtype, shape) of each."""
    start = 0
    for array in arrays:
        np.ndarray(array.shape, array.dtype, memory.buf, start)[...] = array
        start += _padded(array.nbytes)
    return [(array.dtype.str, array.shape) for array in arrays]


def read(memory, layout):
    """Copies of arrays that `write` left."""
    arrays, start = [], 0
    for dtype, shape in layout:
        arrays.append(np.ndarray(shape, dtype, memory.buf, start).copy())
        start += _padded(arrays[-1].nbytes)
    return arrays


def _padded(nbytes):
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
