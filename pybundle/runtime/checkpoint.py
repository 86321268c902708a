"""Write and read the file from which a run resumes; Ctrl-C waits until a write has ended.

    header    terms of the run (data, parameters), status, number of iterations, the state of the run in the form of
              `core.kept`, and a digest of all these and of the arrays
    arrays    the arrays of the state

A new file is written beside the old one, flushed to the disk and renamed, so that the file is complete whenever the
process ends.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time
import warnings
from typing import Any, NamedTuple

from ..core.archive import digest, hidden_name, read_archive, refusing, write_archive
from ..core.exceptions import StateError
from ..core.kept import decode, encode
from ..core.version import __version__
from .file_lock import FileLock

FORMAT, VERSION = "pybundle checkpoint", 1
EVERY = 60.0
"""Seconds between two checkpoints by default."""
SHARE = 0.05
"""Largest fraction of the time spent on writing: if a write takes long, the default interval is longer."""


class CheckpointContents(NamedTuple):
    """Contents of a checkpoint: the values of the run by name, and the header."""

    run: dict[str, Any]
    header: dict[str, Any]


class CheckpointFile:
    """A checkpoint file, and the time of its next write.

    Parameters
    ----------
    path : str or path
    every : float or None
        Seconds between two writes; None is `EVERY`, or more if writing takes long.
    terms : dict
        Data and parameters of the run in JSON form; a file with other terms is refused.
    records : tuple of type
        Named tuples and dataclasses that the file may contain, see `core.kept`.
    report : RunLog or None
        Told of every write but the first.
    """

    def __init__(self, path, every, terms, records, report=None):
        self.path = os.path.abspath(os.fspath(path))
        self._every, self._terms, self._records, self._report = every, terms, records, report
        self._hidden = hidden_name(os.path.realpath(self.path))     # name of the file while it is written
        self._lock = FileLock(self._hidden + ".lock")
        self._next = -float("inf")
        self.n_iter = None          # number of iterations of the run in the file

    def read(self):
        """Read the file; return a `CheckpointContents`, or None if there is no file.

        Raises
        ------
        StateError
            If the file is damaged, is no checkpoint, was written by another version, or belongs to another run.
        """
        if not os.path.exists(self.path):
            return None
        with refusing(f"checkpoint {self.path}: not readable; delete it, or choose another path", StateError):
            try:
                header, arrays = read_archive(self.path, FORMAT, VERSION)
            except StateError as problem:
                raise StateError(f"checkpoint {problem}; delete it, or choose another path") from problem
            if header["pybundle"] != __version__:
                raise StateError(f"checkpoint {self.path} was written by pybundle {header['pybundle']!r:.40}, and only "
                                 f"that version can resume; this is {__version__}: delete it, or install that")
            if header["digest"] != _digest(header, arrays):
                raise ValueError("it is not what was written: its digest does not fit")
            mine, theirs = self._terms, header["terms"]
            names = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
            if names:
                what = "; ".join(f"{name} is {_short(theirs.get(name))} there and {_short(mine.get(name))} here"
                                 for name in names)
                raise StateError(f"checkpoint {self.path} belongs to another problem: {what}; delete it, or choose "
                                 "another path")
            run = decode(header["run"], arrays, self._records)
            if not isinstance(run, dict):
                raise ValueError("it holds no run")
            self.n_iter = header["n_iter"]
        return CheckpointContents(run, header)

    def write(self, run, n_iter, **more):
        """Replace the file; a failure of the first write raises an error, a later failure gives a warning."""
        start = time.monotonic()
        try:
            tree, arrays = encode(run, self._records)
            header = {"terms": self._terms, "n_iter": n_iter, **more, "run": tree}
            write_archive(self.path, FORMAT, VERSION, header | {"digest": _digest(header, arrays)}, arrays)
        except OSError as problem:
            if self.n_iter is None:         # nothing was read or written before
                raise StateError(f"checkpoint {self.path} cannot be written ({problem}); choose another path") \
                    from problem
            warnings.warn(f"pybundle: checkpoint {self.path} could not be written ({problem}); it holds iteration "
                          f"{self.n_iter}, and the run continues", RuntimeWarning, stacklevel=2)
        else:
            if self._report is not None and self.n_iter is not None:
                self._report.say(f"{self.path}: written after {n_iter} iterations")
            self.n_iter = n_iter
        now = time.monotonic()
        self._next = now + (max(EVERY, (now - start) / SHARE) if self._every is None else self._every)

    def is_due(self):
        """Return whether it is time for the next write."""
        return time.monotonic() >= self._next

    def lock(self):
        """Lock the file against other runs, and remove unfinished files of processes that were killed.

        Raises
        ------
        StateError
            If another run holds the lock.
        """
        if not self._lock.take():
            raise StateError(f"checkpoint {self.path}: another run writes it now; wait for its end, or choose another "
                             "path")
        if self._lock.is_held:
            for leftover in glob.glob(glob.escape(self._hidden) + ".????????????????"):
                with contextlib.suppress(OSError):
                    os.unlink(leftover)

    def close(self):
        """Unlock the file for other runs."""
        self._lock.release()


def _digest(header, arrays):
    """Return the digest of all that a resumed run takes over without a proof, such as bounds."""
    return digest({name: header[name] for name in ("terms", "n_iter", "status", "settings", "run")}, arrays)


def _short(value):
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
