"""One thread against two: batch passes, solves by block methods, and the memory bandwidth that limits both.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/threads.py [--repeats 40] [--only mnist ocr ...]

Passes take turns between one and two threads, and the least time of the repeats counts; so does the bandwidth, of NumPy
sums over 400 MB in float32. "CPU ratio" is what two threads would gain on idle processors, from the CPU seconds of the
threads: one thread's against those of the calling thread and of the busier of the two. A solve is by "prox-bcfw", to a
gap of 1e-2. Both numbers of threads must give the same bits, or the script ends with an error. Writes
results/threads.md.
"""

import argparse
import threading
import time

from common import RESULTS, data_file, table, version  # sets threads: before NumPy

# isort: split
import landmarks
import numpy as np
import race

import pybundle as pb
from pybundle.runtime.executors import make_executor, single_threaded_blas

SETS = {"mnist": (race.mnist, 10.0), "digit pairs": (None, 10.0), "ocr": (race.ocr, 62.51), "landmarks": (None, 1000.0)}
N_PARTS = 16


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--only", nargs="+", choices=list(SETS), default=list(SETS))
    arguments = parser.parse_args()
    rows, solve_repeats = [], max(2, arguments.repeats // 4)
    for name in arguments.only:
        make, lam = SETS[name]
        risk = (make or {"digit pairs": digit_pairs, "landmarks": faces}[name])()
        risk = (risk[0] if isinstance(risk, tuple) else risk).derive(n_parts=N_PARTS)
        for row in (*passes(name, risk, arguments.repeats), solves(name, risk, lam, solve_repeats)):
            rows.append(row)
            print(*row, sep=" | ", flush=True)
    bandwidths = bandwidth(arguments.repeats)       # last: the memory that it gives back would slow the next row down
    rows = [(*cells, rate if rate == "-" else f"{100.0 * rate / bandwidths[1]:.0f}") for *cells, rate in rows]
    text = TEXT.format(
        version=version(), table=table(HEADER, rows), one=bandwidths[0], two=bandwidths[1],
        ratio=bandwidths[1] / bandwidths[0], ceiling=ceiling(arguments.repeats), repeats=arguments.repeats,
        solves=solve_repeats)
    (RESULTS / "threads.md").write_text(text, encoding="utf-8")
    print(text)


HEADER = ("data", "what", "one thread, ms", "two threads, ms", "ratio", "CPU ratio", "of the bandwidth, %")


class Metered:
    """An executor that sums the CPU seconds of its threads."""

    def __init__(self, pool):
        self._pool, self.seconds, self.own = pool, {}, time.thread_time()

    def map(self, function, items):
        def timed(item):
            began = time.thread_time()
            answer = function(item)
            me = threading.get_ident()
            self.seconds[me] = self.seconds.get(me, 0.0) + time.thread_time() - began
            return answer
        return self._pool.map(timed, items)

    def path(self):
        """CPU seconds of the calling thread outside of work units, and of the thread busiest with them."""
        alone = time.thread_time() - self.own - self.seconds.get(threading.get_ident(), 0.0)
        return alone + max(self.seconds.values(), default=0.0)


def cpu_ratio(run):
    """What two threads would gain on idle processors without a limit of bandwidth, from their CPU seconds."""
    with single_threaded_blas():
        began = time.thread_time()
        run(make_executor(1))
        alone = time.thread_time() - began
        pool = make_executor(2)
        metered = Metered(pool)
        run(metered)
        path = metered.path()
    pool.close()
    return f"{alone / path:.2f}"


def digit_pairs():
    """MNIST digits two by two: 30000 examples of 1568 pixels and 100 labels."""
    single = race.mnist()[0]
    X, y = single.examples.X, single.labels
    return pb.risks.MulticlassHinge(np.concatenate([X[::2], X[1::2]], axis=1), 10 * y[::2] + y[1::2])


MIRRORED = [0, 2, 1, 4, 3, 6, 5, 7]     # landmarks in a mirrored face: left and right eye corners, and mouth corners


def faces(splits=(0,), mirrored=False):
    """The training faces of landmarks.py, or those of other splits with them; mirror images as well."""
    with np.load(data_file("lfw_landmarks", "lfw_landmarks.npz"), allow_pickle=False) as file:
        images, truth, split = file["X"], file["landmarks"].astype(np.float64), file["split"]
    images, truth = images[np.isin(split, splits)], truth[np.isin(split, splits)]
    if mirrored:
        images = np.concatenate([images, images[:, :, ::-1]])
        truth = np.concatenate([truth, truth[:, MIRRORED] * (-1.0, 1.0) + (images.shape[2] - 1.0, 0.0)])
    model = pb.models.Landmarks.from_examples(
        images.shape[1:], landmarks.PARENTS, truth, pb.features.CodeWindows(landmarks.WINDOWS, landmarks.MARGIN),
        margin=0, yardstick=landmarks.YARDSTICK, unit=100.0)
    return pb.risks.Structured(model, pb.features.lbp_maps(images, len(landmarks.WINDOWS), landmarks.MARGIN), truth)


def in_turns(run, repeats):
    """Least seconds of `run(executor)` with one and with two threads, which take turns; and both answers."""
    pools, seconds, answers = [make_executor(1), make_executor(2)], [np.inf, np.inf], [None, None]
    with single_threaded_blas():
        for _ in range(repeats):
            for k, pool in enumerate(pools):
                began = time.perf_counter()
                answers[k] = run(pool)
                seconds[k] = min(seconds[k], time.perf_counter() - began)
    for pool in pools:
        pool.close()
    return seconds, answers


def row_of(name, what, seconds, run, rate="-"):
    return (name, what, *(f"{1e3 * value:.1f}" for value in seconds), f"{seconds[0] / seconds[1]:.2f}", cpu_ratio(run),
            rate)


def passes(name, risk, repeats):
    """A pass at a random w, and one near the optimum, where few examples count."""
    rng = np.random.default_rng(0)
    near = pb.minimize(risk, lam=SETS[name][1], tol=0.1, time_limit=60.0).x
    for what, w in (("pass at a random w", 1e-2 * rng.normal(size=risk.dim)), ("pass near the optimum", near)):
        def run(pool, w=w):
            return risk.derive(executor=pool).planes(w)

        seconds, (one, two) = in_turns(run, repeats)
        same = (one.values == two.values).all() and (one.offsets == two.offsets).all() and abs(
            one.slopes - two.slopes).max() == 0.0
        if not same:
            raise SystemExit(f"{name}: two threads gave other planes than one")
        # X is read once in a pass
        yield row_of(name, what, seconds, run,
                     "-" if risk.examples is None else risk.examples.X.nbytes / seconds[1] / 1e9)


def solves(name, risk, lam, repeats):
    def run(pool):
        return pb.minimize(risk, lam=lam, method="prox-bcfw", executor=pool, tol=1e-2, max_iter=100)

    seconds, (one, two) = in_turns(run, repeats)
    if not (one.x == two.x).all() or one.lower_bound != two.lower_bound:
        raise SystemExit(f"{name}: two threads ended elsewhere than one")
    return row_of(name, f"prox-bcfw to 1e-2, {one.n_passes:.0f} passes", seconds, run)


def bandwidth(repeats):
    """GB/s of reading 400 MB by one and by two threads."""
    halves = np.array_split(np.ones(100_000_000, dtype=np.float32), 2)
    seconds, _ = in_turns(lambda pool: pool.map(np.sum, halves), repeats)
    return [0.4 / value for value in seconds]


def ceiling(repeats):
    """How much faster two threads are at products of matrices that stay in their caches."""
    A = np.full((192, 192), 1e-3, dtype=np.float32)

    def products(_):
        out = np.empty_like(A)
        for _ in range(150):
            np.matmul(A, A, out=out)

    (one, two), _ = in_turns(lambda pool: pool.map(products, range(2)), repeats)
    return one / two


TEXT = """\
# One thread and two

Least of {repeats} repeats in turns (solves: {solves}), P = 16. Bandwidth of reading 400 MB in float32: {one:.1f} GB/s
with one thread, {two:.1f} GB/s with two, a ratio of {ratio:.2f}; products of matrices in the cache gain {ceiling:.2f}:
no pass can gain more than these processors do. The bits of both are the same. "CPU ratio" comes from CPU seconds alone:
those of one thread against those of the calling thread and of the busier of two. "of the bandwidth" is the share of the
bandwidth of two threads at which the data were read by two. Written by `asv_benchmarks/reproduce/threads.py` with
pybundle {version}.

{table}

Threads share the shards of a batch pass, and so the passes of block methods that certify; batches of up to 32 examples
are shared where a model has no compiled pass and decoding takes milliseconds (landmarks, segmentation). All other steps
start from the w that the one before left, which is sequential by nature.
"""


if __name__ == "__main__":
    main()
