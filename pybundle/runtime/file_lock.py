"""`FileLock` lets one process or thread at a time write a file."""

import contextlib
import os

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
    HAS_LOCKS = True
except ImportError:                 # Windows
    HAS_LOCKS = False


class FileLock:
    """A lock that the system releases when its process ends, however it ends.

    The lock is on a separate file, since the file that it guards is replaced. If the system or the folder has no locks,
    `take` refuses nobody.

    Parameters
    ----------
    path : str
        The lock file, which `release` removes.

    Examples
    --------
    >>> import os, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> first, second = (FileLock(os.path.join(folder.name, "lock")) for _ in range(2))
    >>> first.take(), second.take()
    (True, False)
    >>> first.release()
    >>> second.take()
    True
    >>> second.release()
    >>> folder.cleanup()
    """

    def __init__(self, path):
        self.path, self._handle = path, None

    @property
    def is_held(self):
        """Whether the lock was taken; False if the system or the folder has no locks."""
        return self._handle is not None

    def take(self):
        """Take the lock; return False if another process holds it."""
        while HAS_LOCKS and self._handle is None:
            try:
                handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError:
                break
            try:
                flock(handle, LOCK_EX | LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                return False
            except OSError:                 # some network folders have no locks
                os.close(handle)
                break
            try:
                is_there = os.path.samestat(os.fstat(handle), os.stat(self.path))
            except FileNotFoundError:
                is_there = False
            if is_there:
                self._handle = handle
            else:                           # the last owner removed the file between our two calls
                os.close(handle)
        return True

    def release(self):
        """Release the lock and remove its file."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            with contextlib.suppress(OSError):
                os.unlink(self.path)
            os.close(handle)
