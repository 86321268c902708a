"""Log-losses of two classes, several classes and chains: "auto" and "lbfgs", scikit-learn and python-crfsuite.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/log_losses.py [--only digits mnist ocr ...]

`lam/2 |w|^2 - sum_i log p(y_i | x_i)`. With free intercepts ("free ..."): wine, raw and standardised, iris, the digits,
made data of 20000 x 50 with 5 classes and of 20000 x 16 with 26, and the last with uneven columns. A row of them is
`MulticlassLogistic()` beside `LogisticRegression()`, both with their defaults. Without intercepts: two classes of
scikit-learn's breast cancer data and of its digits (0-4 against 5-9), raw and standardised, and of a9a, all dense;
classes of MNIST (pixels / 255) and of the digits, chains of the OCR letters (weights for every pair of feature and
letter and for all transitions). Our methods run to certified gaps. A peer has no certificate: the clock is that of a
run that ends as soon as its objective is within the same gap of our lower bound. scikit-learn's LogisticRegression
runs at falling tolerances until it is, python-crfsuite (L-BFGS) reports its objective after each iteration, and a
second run of that many iterations is timed. Processor time, one thread, cold starts; the median of five runs that
take less than three seconds. `ratio` is the fastest peer over "auto". Memory is the growth of the peak of the process
during one fit, in a process of its own, beside the data that were read before it. Writes results/log_losses.md.
"""

import argparse
import ctypes
import itertools
import multiprocessing
import resource
import statistics
import tempfile
import time
import warnings
from pathlib import Path

from common import Page, data_file, table, version  # sets threads: before NumPy

# isort: split
import numpy as np

import pybundle as pb
from pybundle.core.ragged import Ragged

GAPS = (1e-2, 1e-3, 1e-6)
METHODS = ("auto", "lbfgs")
SETS = {"cancer raw": (1.0, 0.01), "cancer": (1.0, 0.01), "halves raw": (10.0, 0.1), "halves": (10.0, 0.1),
        "a9a": (10.0, 0.1), "free iris": (1.0,), "free wine raw": (1.0,), "free wine": (1.0,), "free digits": (1.0,),
        "free 5": (1.0,), "free 26": (1.0,), "free uneven": (1.0,),
        "digits": (10.0, 0.1), "mnist": (10.0,), "ocr": (10.0, 1.0)}
PEERS = ("sklearn lbfgs", "sklearn newton-cg")
BINARY = (*PEERS, "sklearn newton-cholesky", "sklearn liblinear")
TOLERANCES = tuple(10.0 ** (-0.5 * k) for k in range(2, 20))
LARGE = 10**7       # entries of X from which every other tolerance is tried
ITERATIONS = 1000
LIMIT = 120.0
SLOW = 20.0     # seconds of a fit after which a peer with intercepts is asked for no more


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SETS), default=list(SETS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    page = Page("log_losses.md", TEXT, SETS)
    problems = {name: MAKERS[name]() for name in arguments.only}
    # before any fit, whose memory would be used again
    memory = {name: peaks(name, problem, SETS[name][-1]) for name, problem in problems.items()}
    for name, problem in problems.items():
        rows = [row for lam in SETS[name] for row in compare(name, problem, lam)]
        page.replace(name, "\n\n".join((
            f"pybundle {version()}.", table(("lam", "", *(f"seconds (passes) to {gap:g}" for gap in GAPS)), rows),
            table(("lam", "", "MB beside the data"), memory[name]))))


# ---------------------------------------------------------------------- problems
class Classes:
    """Rows X and classes y."""

    peers = PEERS

    def __init__(self, X, y):
        self.X, self.y = X, y
        self.risk = pb.risks.Structured(pb.models.Multiclass(int(y.max()) + 1, X.shape[1]), X, y, loss="logistic")

    def times(self, peer, lam, goals):
        """Seconds (and iterations) to objectives of at most the goals, falling; None where they are not reached."""
        from sklearn.linear_model import LogisticRegression

        def fit():
            return LogisticRegression(C=1.0 / lam, solver=peer.split()[1], fit_intercept=False, tol=TOLERANCES[k],
                                      max_iter=10000).fit(self.X, self.y)

        found, k = [None] * len(goals), 0
        for at, goal in enumerate(goals):
            while k < len(TOLERANCES):
                seconds, model = timed(fit)
                if self.objective(model.coef_.ravel(), lam) <= goal:
                    found[at] = seconds, int(np.max(model.n_iter_))
                    break
                k += 2 if self.X.size >= LARGE else 1
        return found

    def fit(self, peer, lam):
        from sklearn.linear_model import LogisticRegression

        LogisticRegression(C=1.0 / lam, solver=peer.split()[1], fit_intercept=False, tol=1e-3,
                           max_iter=10000).fit(self.X, self.y)

    def solve(self, lam, **options):
        return pb.minimize(self.risk, lam=lam, **options)

    def objective(self, w, lam):
        return 0.5 * lam * float(w @ w) + float(self.risk.evaluate(w)[0].sum())


class Intercepts(Classes):
    """Rows X and classes y; the weights of a last column of ones have no penalty, and the first is 0."""

    peers = ("sklearn lbfgs",)

    def __init__(self, X, y):
        super().__init__(np.hstack([X, np.ones((len(X), 1))]), y)

    def solve(self, lam, **options):
        rates = np.full((int(self.y.max()) + 1, self.X.shape[1]), lam)
        rates[:, -1] = 0.0
        bounds = np.where(np.arange(rates.size) == rates.shape[1] - 1, 0.0, np.inf)
        penalty = pb.prox.Separable(l2=rates.ravel(), lower=-bounds, upper=bounds)
        return pb.minimize(self.risk, penalty=penalty, **options)

    def times(self, peer, lam, goals):
        found, k = [None] * len(goals), 0
        for at, goal in enumerate(goals):
            while k < len(TOLERANCES):
                seconds, model = timed(lambda: self.fit(peer, lam, TOLERANCES[k]))      # noqa: B023
                if self.value(model, lam) <= goal:
                    found[at] = seconds, int(np.max(model.n_iter_))
                    break
                if seconds > SLOW:
                    return found
                k += 1
        return found

    def fit(self, peer, lam, tol=1e-3):
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=1.0 / lam, tol=tol, max_iter=10000).fit(self.X[:, :-1], self.y)

    def value(self, model, lam):
        W = np.hstack([model.coef_, model.intercept_[:, None]])
        return 0.5 * lam * float(np.sum(model.coef_**2)) + float(self.risk.evaluate(W.ravel())[0].sum())

    def defaults(self):
        """A row of seconds and true gaps of both defaults."""
        from sklearn.linear_model import LogisticRegression

        ours, model = timed(lambda: pb.MulticlassLogistic().fit(self.X[:, :-1], self.y))
        theirs, peer = timed(lambda: LogisticRegression().fit(self.X[:, :-1], self.y))
        bound = self.solve(1.0, tol=1e-6, time_limit=LIMIT).lower_bound
        gaps = [(fun - bound) / fun for fun in (model.objective_, self.value(peer, 1.0))]
        return ("1", "defaults", f"{ours:.3g} ({model.n_passes_:.0f}, gap {gaps[0]:.1e})",
                f"peer {theirs:.3g} ({int(np.max(peer.n_iter_))}, gap {gaps[1]:.1e})", f"ratio {theirs / ours:.2f}")


class Signs(Classes):
    """Rows X, raw or standardised, and y of two classes."""

    peers = BINARY

    def __init__(self, X, y, is_standardised=False):
        if is_standardised:
            X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0)
        self.X, self.y = X, y
        self.risk = pb.risks.Logistic(X, np.where(y, 1, -1))


class Words:
    """Chains of tokens, dense or sparse; `attributes` and `tags` are those of python-crfsuite."""

    peers, solve = ("crfsuite",), Classes.solve

    def __init__(self, risk, attributes, tags):
        self.risk, self.attributes, self.tags = risk, attributes, tags

    def times(self, peer, lam, goals):
        losses = self.train(lam, ITERATIONS)[1]
        found = []
        for goal in goals:
            within = [k for k, loss in enumerate(losses, 1) if loss <= goal]
            found.append((self.train(lam, within[0])[0], within[0]) if within else None)
        return found

    def fit(self, peer, lam):
        self.train(lam, 20)

    def train(self, lam, n, **options):
        """Seconds of at most n iterations, and the objective after each."""
        import pycrfsuite

        class Recorded(pycrfsuite.Trainer):
            def message(self, line):
                if line.lower().startswith("loss:"):
                    losses.append(float(line.split(":")[1].split()[0]))

        losses, trainer = [], Recorded(verbose=True)
        for attributes, tags in zip(self.attributes(), self.tags, strict=True):
            trainer.append(attributes, tags)
        trainer.set_params({"c1": 0.0, "c2": 0.5 * lam, "feature.possible_transitions": True, "max_iterations": n,
                            "feature.possible_states": True, "epsilon": 1e-12, "delta": 0.0, "num_memories": 6}
                           | options)
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            trainer.train(str(Path(folder) / "crfsuite"))
            return time.process_time() - start, losses


def digits():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return Classes(X / 16.0, y)


def mnist():
    with np.load(data_file("mnist", "mnist.npz"), allow_pickle=False) as file:
        X, y = file["X_train"].reshape(60000, -1), file["y_train"]
    return Classes((X / np.float32(255.0)).astype(np.float32), y.astype(np.int64))


def ocr():
    import pycrfsuite

    with np.load(data_file("ocr_letters", "ocr_letters.npz"), allow_pickle=False) as file:
        X, offsets, y = file["X"], file["offsets"].astype(np.int64), file["y"].astype(np.int32)
    X = np.hstack([X, np.ones((len(X), 1), np.uint8)])
    risk = pb.risks.Structured(pb.models.Chain(26, X.shape[1], start=False, end=False), Ragged(X, offsets),
                               Ragged(y, offsets), loss="logistic")

    def attributes():
        for first, last in itertools.pairwise(offsets):
            yield pycrfsuite.ItemSequence([[str(k) for k in np.flatnonzero(x)] for x in X[first:last]])

    return Words(risk, attributes, [[str(k) for k in y[first:last]]
                                    for first, last in itertools.pairwise(offsets)])


def cancer(is_standardised):
    from sklearn.datasets import load_breast_cancer

    return Signs(*load_breast_cancer(return_X_y=True), is_standardised)


def halves(is_standardised):
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return Signs(X, y < 5, is_standardised)


def free(name):
    from sklearn import datasets

    if name in ("5", "26", "uneven"):
        shape = {"n_informative": 10, "n_classes": 5} if name == "5" else {
            "n_informative": 12, "n_redundant": 2, "n_classes": 26, "n_clusters_per_class": 1}
        X, y = datasets.make_classification(20000, 50 if name == "5" else 16, random_state=0, **shape)
        return Intercepts(X * np.geomspace(0.1, 100.0, 16) + 50.0 if name == "uneven" else X, y)
    X, y = getattr(datasets, f"load_{name.split()[0]}")(return_X_y=True)
    X = X / 16.0 if name == "digits" else (X - X.mean(axis=0)) / X.std(axis=0) if name == "wine" else X
    return Intercepts(X, y)


def a9a():
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(data_file("libsvm", "a9a.svm.gz")))
    return Signs(X.toarray(), y > 0)


MAKERS = {"cancer raw": lambda: cancer(False), "cancer": lambda: cancer(True), "halves raw": lambda: halves(False),
          "halves": lambda: halves(True), "a9a": a9a, "digits": digits, "mnist": mnist, "ocr": ocr}
MAKERS |= {name: lambda name=name: free(name.removeprefix("free ")) for name in SETS if name.startswith("free ")}


# ---------------------------------------------------------------------- measurements
def compare(name, problem, lam):
    """Rows of our methods and of the peers."""
    seconds, passes, bounds = {}, {}, {}
    for method in METHODS:
        for gap in GAPS:
            spent, result = timed(lambda method=method, gap=gap: problem.solve(
                lam, method=method, tol=gap, time_limit=LIMIT))
            if result.success:
                seconds[method, gap], passes[method, gap] = spent, result.n_passes
            if method == "auto":
                bounds[gap] = result.lower_bound
            if not result.success:
                break
    best = max(bounds.values())
    for peer in problem.peers:
        found = problem.times(peer, lam, [best * (1.0 + gap) for gap in GAPS])
        for gap, one in zip(GAPS, found, strict=True):
            if one is not None:
                seconds[peer, gap], passes[peer, gap] = one
    rows = [(f"{lam:g}", method, *(f"{seconds[method, gap]:.3g} ({passes[method, gap]:.0f})"
                                   if (method, gap) in seconds else "-" for gap in GAPS))
            for method in (*METHODS, *problem.peers)]
    ratios = [min((seconds[peer, gap] for peer in problem.peers if (peer, gap) in seconds), default=np.nan)
              / seconds.get(("auto", gap), np.nan) for gap in GAPS]
    rows.append((f"{lam:g}", "ratio", *("-" if np.isnan(ratio) else f"{ratio:.1f}" for ratio in ratios)))
    if isinstance(problem, Intercepts):
        rows.append(problem.defaults())
    for row in rows:
        print(name, *row, sep=" | ", flush=True)
    return rows


def timed(work):
    """Processor time and result of a call: the median of five if they are short."""
    times = []
    while len(times) < 5:
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
        if times[0] >= 3.0:
            break
    return statistics.median(times), result


def peaks(name, problem, lam):
    """Rows of the memory that one fit takes."""
    rows = []
    for who in ("auto", "lbfgs", *problem.peers):
        rows.append((f"{lam:g}", who, f"{peak(fit, problem, who, lam):.0f}"))
        print(name, *rows[-1], sep=" | ", flush=True)
    return rows


def fit(problem, who, lam):
    if who in METHODS:
        problem.solve(lam, method=who, tol=1e-2, time_limit=LIMIT)
    else:
        problem.fit(who, lam)


def peak(work, *arguments):
    """Growth of the peak of memory during a call in a process of its own, in MB."""
    def child():
        ctypes.CDLL(None).malloc_trim(0)        # memory that others gave back is not to be used again unseen
        before = resident()
        work(*arguments)
        there.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0 - before)

    here, there = multiprocessing.get_context("fork").Pipe()
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    grown = here.recv()
    process.join()
    return grown


def resident():
    """Memory of this process in MB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024.0
    return 0.0


TEXT = """# Log-losses

`python asv_benchmarks/reproduce/log_losses.py`, processor time of one thread. Our seconds include the certificate;
those of the peers are to an objective within the gap of our best lower bound. Iterations of the peers in brackets.
The ratio is the seconds of the best peer over those of "auto". Memory is that of one fit to 1e-2 (python-crfsuite: 20
iterations, its own copy of the data included). "halves" are the digits 0 to 4 against 5 to 9. A peer that takes 20 s
for a fit with intercepts is asked for no more.
"""

if __name__ == "__main__":
    main()
