"""Memory: runs under a quarter of what they take when they are free, and data larger than the memory of the process.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/memory.py [--only limit mapped] [--megabytes 1200]

limit: MNIST (784 features, 10 classes) and generated letter sequences, each free and with `memory_limit` at 25 % of the
peak of the free run. A process for each; the peak is that of its resident memory (VmHWM) above what it held before the
solve, the data among it, after a solve of a tenth of the data, which loads code and buffers of libraries. It is set
against the limit alone, and with the bytes of X against the limit plus X.

mapped: a generated file of float32 rows, mapped by `numpy.memmap`, in a process that may have a quarter of its size in
anonymous memory (RLIMIT_DATA, the interpreter with all libraries included). Before each pass its pages are dropped from
the page cache, so that every pass reads the file. Sequential reads of the whole file with read(2) before and after the
run are what its speed is compared with; bytes read are those of the process in /proc (block device).

Linux only. Writes results/memory.md.
"""

import argparse
import ctypes
import gc
import json
import mmap
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings

from common import Page, data_file, table, version  # sets threads: before NumPy

# isort: split
import numpy as np

import pybundle as pb

MB = 2.0**20
SHARE = 0.25
FEATURES, CLASSES = 784, 10
LIMIT_HEADER = ("data", "X, MB", "method", "memory_limit, MB", "peak, MB", "peak / limit", "(peak + X) / (limit + X)",
                "gap", "reached", "passes", "seconds", "planes")
MAPPED_HEADER = ("X, MB", "anonymous memory allowed, MB", "method", "gap", "certified", "passes", "read, MB", "seconds",
                 "MB/s", "sequential, MB/s before, after", "share")


def mnist(share):
    """The risk of the first `share` of the data, and the bytes of X."""
    with np.load(data_file("mnist", "mnist.npz")) as file:
        names = [next(name for name in file.files if name.lower() == key) for key in ("x_train", "y_train")]
        X, y = (file[name] for name in names)
    n = int(share * len(X))
    X = X[:n].reshape(n, -1).copy()
    return pb.risks.MulticlassHinge(X, y[:n], scale=1.0 / 255.0), X.nbytes


def sequences(share):
    """As `mnist`."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(rng.integers(4, 12), 60)) for _ in range(int(share * 2000))]
    W = rng.normal(size=(60, 10))
    Y = [np.argmax(x @ W + 3.0 * rng.gumbel(size=(len(x), 10)), axis=1) for x in X]
    return pb.risks.Structured(pb.models.Chain(10, 60), X, Y), sum(x.nbytes for x in X)


CASES = {
    ("mnist", "oca"): (mnist, {"lam": 100.0, "tol": 1e-2}),
    ("mnist", "bmrm"): (mnist, {"lam": 1000.0, "tol": 1e-2}),
    ("mnist", "auto"): (mnist, {"lam": 100.0, "tol": 1e-2}),
    ("sequences", "oca"): (sequences, {"lam": 10.0, "tol": 1e-3}),
    ("sequences", "prox-bcfw"): (sequences, {"lam": 10.0, "tol": 1e-3}),
    ("sequences", "auto"): (sequences, {"lam": 10.0, "tol": 1e-3}),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=("limit", "mapped"), default=["limit", "mapped"])
    parser.add_argument("--megabytes", type=int, default=1200, help="size of the mapped file (default 1200)")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps({"limit": limit_child, "mapped": mapped_child}[arguments.child[0]](*arguments.child[1:])))
        return
    page = Page("memory.md", HEAD.format(version=version()), ("memory_limit", "A mapped file"))
    if "limit" in arguments.only:
        page.replace("memory_limit", table(LIMIT_HEADER, [row for case in CASES for row in limit_rows(*case)]))
    if "mapped" in arguments.only:
        page.replace("A mapped file", table(MAPPED_HEADER, mapped_rows(arguments.megabytes)))
    print(page.path.read_text(encoding="utf-8"))


def child(*arguments):
    done = subprocess.run([sys.executable, __file__, "--child", *map(str, arguments)], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


# ---------------------------------------------------------------------- memory_limit
def limit_rows(data, method):
    free = child("limit", data, method, "0")
    yield limit_cells(data, method, None, free)
    limit = int(SHARE * free["peak"])
    yield limit_cells(data, method, limit, child("limit", data, method, limit))


def limit_cells(data, method, limit, found):
    peak, X = found["peak"], found["X"]
    return (data, f"{X / MB:.1f}", method, "-" if limit is None else f"{limit / MB:.1f}", f"{peak / MB:.1f}",
            "-" if limit is None else f"{peak / limit:.2f}",
            "-" if limit is None else f"{(peak + X) / (limit + X):.2f}", f"{found['gap']:.1e}",
            "yes" if found["success"] else "no", f"{found['passes']:.0f}", f"{found['seconds']:.1f}", found["planes"])


def limit_child(data, method, limit):
    warnings.simplefilter("ignore", pb.ConvergenceWarning)
    make, options = CASES[data, method]
    limit = int(limit) or None
    pb.minimize(make(0.1)[0], method=method, memory_limit=limit, max_iter=20, time_limit=20.0, **options)
    risk, size = make(1.0)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)        # free memory that is resident would hide what the run takes
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    result = pb.minimize(risk, method=method, memory_limit=limit, time_limit=120.0, **options)
    return {"peak": status("VmHWM") - before, "X": size, "gap": result.gap, "success": result.success,
            "passes": result.n_passes, "seconds": result.seconds["total"], "planes": result.max_planes}


def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))


# ---------------------------------------------------------------------- a mapped file
def mapped_rows(megabytes):
    with tempfile.TemporaryDirectory() as folder:
        path, n = os.path.join(folder, "X.dat"), int(megabytes * MB) // (4 * FEATURES)
        write(path, n)
        allowed = int(SHARE * megabytes * MB)
        found = child("mapped", path, n, allowed)
    share = found["speed"] / np.mean(found["sequential"])
    return [(megabytes, f"{allowed / MB:.0f}", found["method"], f"{found['gap']:.1e}", found["certified"],
             f"{found['passes']:.0f}", f"{found['read'] / MB:.0f}", f"{found['seconds']:.1f}", f"{found['speed']:.0f}",
             ", ".join(f"{speed:.0f}" for speed in found["sequential"]), f"{100.0 * share:.0f} %")]


def write(path, n):
    centres = np.random.default_rng(0).normal(size=(CLASSES, FEATURES)).astype(np.float32)
    with open(path, "wb") as file:
        for start in range(0, n, 20000):
            rng = np.random.default_rng(start)
            y = labels(n)[start:start + 20000]
            file.write((0.12 * centres[y] + rng.standard_normal((len(y), FEATURES), dtype=np.float32)).tobytes())
        file.flush()
        os.fsync(file.fileno())


def labels(n):
    return np.random.default_rng(1).integers(0, CLASSES, n)


def mapped_child(path, n, allowed):
    warnings.simplefilter("ignore", pb.ConvergenceWarning)
    n = int(n)
    resource.setrlimit(resource.RLIMIT_DATA, (int(allowed), int(allowed)))
    try:
        np.ones((n, FEATURES), np.float32)
        raise RuntimeError("X fits into the memory allowed")
    except MemoryError:
        pass
    before = sequential(path)
    X = np.memmap(path, np.float32, "r", shape=(n, FEATURES))
    risk = pb.risks.MulticlassHinge(X, labels(n))

    def drop(progress):
        X._mmap.madvise(mmap.MADV_DONTNEED)
        forget(path)
    drop(None)
    read, start = bytes_read(), time.perf_counter()
    result = pb.minimize(risk, lam=3e4, tol=1e-2, callback=drop, time_limit=400.0)
    seconds, read = time.perf_counter() - start, bytes_read() - read
    return {"gap": result.gap, "certified": bool(result.success), "passes": result.n_passes, "seconds": seconds,
            "read": read, "speed": read / MB / seconds, "sequential": [before, sequential(path)],
            "method": result.message.split("auto chose ")[1].split(":")[0].strip("'")}


def bytes_read():
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("read_bytes"))


def forget(path):
    handle = os.open(path, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def sequential(path):
    """MB/s of reading the file once, from the disk."""
    forget(path)
    handle, buffer, start = os.open(path, os.O_RDONLY), bytearray(1 << 22), time.perf_counter()
    while os.readv(handle, [buffer]):
        pass
    os.close(handle)
    return os.path.getsize(path) / MB / (time.perf_counter() - start)


HEAD = """# Memory

Peaks are those of resident memory above what the process held before the solve, where the data were already; the limit
is 25 % of the peak of the free run in the row above. `memory_limit` is about what a run adds to the data: peak / limit
is the strict quotient. (peak + X) / (limit + X) is that of all there is in memory, the data X included on both sides.
Not counted by the limit, so that either may be above 1: tables of decoders, Python's own objects, buffers of BLAS, part
of the holes in the heap; they weigh most where the limit is small. One thread. The mapped file is read from the disk in
each pass; the speed is what was read by the seconds of the whole run, beside reading the file once with read(2), whose
speed varies: the share is that of the mean of both. Written by
`asv_benchmarks/reproduce/memory.py` with pybundle {version}.
"""


if __name__ == "__main__":
    main()
