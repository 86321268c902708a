"""Files of named arrays with a JSON header: `.npz` without pickled objects, written completely or not at all.

    header.npy     a JSON text: format, version, pybundle (the version that wrote it), arrays (all names), and more
    <name>.npy     one entry for each array

Entries are not compressed, so that no entry can be larger than the file, and every entry has a checksum. An array whose
size does not match its entry is refused before memory is allocated for it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import secrets
import stat
import zipfile
from zlib import crc32

import numpy as np

from .exceptions import StateError
from .validation import check_path
from .version import __version__

HEADER = "header"
MOST_EXPANSION = 100
"""Largest compression ratio of arrays that users pass: pixels and counts have less, a zip bomb has about 1000."""


def write_archive(path, kind, version, header, arrays):
    """Write a file of arrays; `header` is a dictionary of JSON values, and no array may have the name "header"."""
    header = {"format": kind, "version": version, "pybundle": __version__, **header, "arrays": sorted(arrays)}
    text = np.array(json.dumps(header))
    write_atomically(path, lambda file: np.savez(file, **{HEADER: text}, **arrays))


def read_archive(path, kind, version):
    """Read the header and the arrays of a file that `write_archive` wrote.

    Raises
    ------
    StateError
        If the file is of another kind, or damaged.
    OSError
        If it cannot be read.
    """
    arrays = read_npz(path, most_expansion=1, error=StateError)
    with refusing(f"{name_of(path)}: not a file of {kind}", StateError):
        text = arrays.pop(HEADER, None)
        if text is None or text.dtype.kind != "U" or text.ndim != 0:
            raise ValueError("it has no header")
        header = json.loads(str(text))
        if not isinstance(header, dict) or header.get("format") != kind:
            raise ValueError("its contents do not match its header")
        found = header.get("version")
        if not isinstance(found, int) or not 1 <= found <= version:
            raise StateError(f"{name_of(path)}: version {found!r:.40} of {kind}, written by pybundle "
                             f"{header.get('pybundle')!r:.40}, is unknown; this version reads 1 to {version}; install "
                             "the newer one")
        if header.get("arrays") != sorted(arrays):
            raise ValueError("it does not hold the arrays of its header")
    return header, arrays


def digest(said, arrays):
    """Return a hash of `said`, a JSON value, and of the arrays.

    It is stored in files whose numbers are trusted when they are read, because checksums of entries are easy to change.
    """
    mark = hashlib.blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        mark.update(f"{name} {array.dtype.str} {array.shape}".encode())
        mark.update(array.reshape(-1).view(np.uint8))
    return mark.hexdigest()


def read_npz(path, names=None, *, most_expansion=MOST_EXPANSION, error=StateError):
    """Return a dictionary of the arrays in a `.npz` file, of numbers and texts; with `names`, only of those.

    Sizes in the directory of the file and in the headers of the arrays are compared with the file before an array is
    read. `path` may be an open binary file. The function raises `error` for an invalid file, and OSError if the file
    cannot be opened.
    """
    if not hasattr(path, "read"):
        check_path("path", path)
    with contextlib.ExitStack() as stack:
        file = path if hasattr(path, "read") else stack.enter_context(open(path, "rb", opener=_open))
        with refusing(f"{name_of(path)}: not a readable .npz file", error):
            if file is not path and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("it is not a regular file")       # a device or a pipe may have no end
            size = file.seek(0, os.SEEK_END)
            archive = stack.enter_context(zipfile.ZipFile(file))
            entries = archive.infolist()
            if len({entry.filename for entry in entries}) != len(entries):
                raise ValueError("names occur twice")
            arrays, total = {}, 0
            for entry in entries:
                name = entry.filename.removesuffix(".npy")
                if names is not None and name not in names:
                    continue
                total += entry.file_size
                _check_entry(entry, total, size, most_expansion)
                with archive.open(entry) as stream:
                    arrays[name] = _array(stream.read(), name)
            return arrays


def _check_entry(entry, total, size, most_expansion):
    kinds = (zipfile.ZIP_STORED,) if most_expansion == 1 else (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    if not entry.filename.endswith(".npy"):
        raise ValueError(f"entry {entry.filename!r:.60} is no array")
    if entry.compress_type not in kinds or entry.flag_bits & 0x1:
        raise ValueError(f"entry {entry.filename!r:.60} is compressed in an unknown way, or encrypted")
    if total > most_expansion * size:
        raise ValueError(f"its arrays claim {total} bytes, in a file of {size}"
                         + ("; save it with numpy.savez" if most_expansion > 1 else ""))


def _array(raw, name):
    """Return the array in the bytes of a .npy file, in the byte order of this machine."""
    stream = io.BytesIO(raw)
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"array {name!r:.60} has the unknown version {version}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(stream)
    if dtype.kind not in "biufU" or dtype.subdtype is not None or dtype.itemsize == 0:
        raise ValueError(f"array {name!r:.60} must hold numbers or texts, got dtype {dtype}")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(raw) - stream.tell():
        raise ValueError(f"array {name!r:.60} of shape {shape} and dtype {dtype} does not fit its "
                         f"{len(raw) - stream.tell()} bytes")
    if math.prod(shape) == 0:
        return np.empty(shape, dtype.newbyteorder("="))
    array = np.frombuffer(raw, dtype, offset=stream.tell()).reshape(shape, order="F" if is_fortran else "C")
    array = np.array(array, dtype=dtype.newbyteorder("="), order="C")
    if dtype.kind == "U" and array.reshape(-1).view(np.uint32).max() > 0x10FFFF:
        raise ValueError(f"array {name!r:.60} holds no valid text")
    if dtype.kind == "b" and array.reshape(-1).view(np.uint8).max() > 1:
        raise ValueError(f"array {name!r:.60} holds neither True nor False")
    return array


@contextlib.contextmanager
def refusing(what, error):
    """Turn any exception in a `with` block into `error`: for damaged files zipfile, json and NumPy raise many kinds."""
    try:
        yield
    except error:
        raise
    except Exception as problem:
        text = " ".join(str(problem).split()) or type(problem).__name__
        raise error(f"{what} ({text:.200})") from problem


def name_of(path):
    """Return the name of a path or an open file for messages."""
    return str(getattr(path, "name", "file") if hasattr(path, "read") else path)


def write_atomically(path, save):
    """Call `save(file)` on a new file in the folder of `path`, which then replaces `path`.

    If that fails, the new file is removed, and an OSError names `path`. A device, a pipe or /dev/stdout must not be
    replaced by a file, so `save` writes into it directly.
    """
    check_path("path", path)
    try:
        _write(path, save)
    except OSError as problem:
        if problem.errno is not None:       # without a number it prints no name of a file
            problem.filename = os.fspath(path)
        raise


def _write(path, save):
    mode = None         # kind and permissions of an existing file
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(path).st_mode
    if mode is not None and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        with open(path, "wb") as file:
            save(file)
        return
    target = os.path.realpath(path)         # the file to which a link leads is replaced, and not the link
    name = f"{hidden_name(target)}.{secrets.token_hex(8)}"
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            save(file)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(name, stat.S_IMODE(mode))
        os.replace(name, target)
        _sync_folder(os.path.dirname(target))
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def hidden_name(path):
    """Return the prefix of hidden temporary files in the folder of `path`.

    Different paths have different prefixes, even if their names are long and begin alike.
    """
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name[:50]}.{crc32(os.fsencode(name)):08x}")


def _open(path, flags):
    """Open a file for the built-in `open`; if it is a pipe, do not wait for its writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _sync_folder(path):
    """Flush a folder to disk if the system can, so that a new name in it survives a crash of the machine."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

