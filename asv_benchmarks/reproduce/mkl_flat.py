"""Flat multiple kernel learning beside scikit-learn, and rounds of explicit groups against the number of features.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/mkl_flat.py

USPS digits, 1500 of the training part: linear, quadratic and two Gaussian kernels. The certified learner finds kernel
weights and classifier; scikit-learn then gets the weighted sum kernel: LinearSVC with Crammer and Singer's hinge, which
is the same objective, on a Cholesky factor of the kernel, and SVC (one against one). Then the classifier with its
defaults, online and "auto", beside SVC with its default Gaussian kernel. Then tokens with 20 indicator features each,
of 10^5 to 10^7. Writes results/mkl_flat.md.
"""

import time
import warnings

from common import RESULTS, data_file, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

import pybundle as pb
from pybundle import mkl

N_TRAIN, LAM = 1500, 1e-3


def main():
    text = TEXT.format(version=version(), n=N_TRAIN, lam=LAM, peers=peers(*usps(N_TRAIN)), defaults=defaults(),
                       rounds=rounds())
    (RESULTS / "mkl_flat.md").write_text(text, encoding="utf-8")
    print(text)


def usps(n):
    """The first n rows of the training part in random order, and the test part."""
    with np.load(data_file("usps", "usps.npz"), allow_pickle=False) as file:
        X, y, Xt, yt = (file[name] for name in ("X_train", "y_train", "X_test", "y_test"))
    chosen = np.random.default_rng(0).permutation(len(y))[:n]
    return X[chosen] / 1000.0, y[chosen].astype(int), Xt / 1000.0, yt.astype(int)


def digits():
    """Half of scikit-learn's digits, and the other half."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    X, Xt, y, yt = train_test_split(X / 16.0, y, test_size=0.5, random_state=0)
    return X, y, Xt, yt


def made(n, noise, n_classes=26, n_modes=4, d=16):
    """Rows of integers 0..15, as the letters of UCI have them: each class is a mixture of Gaussians."""
    rng = np.random.default_rng(0)
    centres = 7.5 + 2.3 * rng.standard_normal((n_classes, n_modes, d))

    def draw():
        y, mode = rng.integers(n_classes, size=n), rng.integers(n_modes, size=n)
        return np.clip(np.rint(centres[y, mode] + noise * rng.standard_normal((n, d))), 0, 15), y

    return *draw(), *draw()


def defaults():
    """The classifier online and by default, and SVC, at two values of C."""
    from sklearn.svm import SVC

    rows = []
    for name, (X, y, Xt, yt) in (("digits", digits()), ("USPS", usps(4000)), ("made, noise 1.6", made(4000, 1.6)),
                                 ("made, noise 2.2", made(4000, 2.2)), ("made, noise 1.6", made(9000, 1.6))):
        for C in (1.0, 100.0):
            for what, machine in (("SVC", SVC(C=C)), ("online", pb.OnlineMKLClassifier(C=C, solver="online")),
                                  ("auto", pb.OnlineMKLClassifier(C=C))):
                began = time.thread_time()
                machine.fit(X, y)
                seconds = time.thread_time() - began
                solver = getattr(machine, "solver_", "")
                rows.append((f"{name}, {len(y)} x {X.shape[1]}", f"{C:g}",
                             f"auto: {solver}" if what == "auto" else what, f"{seconds:.2f}",
                             f"{machine.gap_:.1e}" if solver else "", f"{100 * machine.score(Xt, yt):.2f}"))
                print(*rows[-1], flush=True)
    return table(("set", "C", "", "seconds", "gap", "accuracy, %"), rows)


def peers(X, y, Xt, yt):
    from sklearn.svm import SVC, LinearSVC

    kernels = [mkl.Linear(), mkl.Polynomial(2), mkl.Gaussian(4.0), mkl.Gaussian(8.0)]
    rows = []
    for name, options in (("OnlineMKL, 20 epochs", {"solver": "online"}),
                          ("OnlineMKL, certified", {"solver": "certified", "tol": 1e-3})):
        began = time.thread_time()
        learner = mkl.OnlineMKL(kernels, lam=LAM, random_state=0, **options).fit(X, y)
        seconds = time.thread_time() - began
        rows.append((name, f"{seconds:.2f}", f"{learner.objective_:.5f}", f"{learner.gap_:.1e}",
                     " ".join(f"{w:.3f}" for w in learner.weights_), f"{100 * learner.score(Xt, yt):.2f}"))
    nu = learner.weights_
    began = time.thread_time()
    K = sum(b * kernel(X) for b, kernel in zip(nu, kernels, strict=True))
    made = time.thread_time() - began
    Kt = sum(b * kernel(Xt, X) for b, kernel in zip(nu, kernels, strict=True))
    began = time.thread_time()
    L = sla.cholesky(K + 1e-9 * np.eye(len(K)), lower=True)
    Zt = sla.solve_triangular(L, Kt.T, lower=True).T
    made_factor = time.thread_time() - began
    began = time.thread_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        linear = LinearSVC(multi_class="crammer_singer", C=1.0 / (LAM * len(y)), fit_intercept=False, tol=1e-3,
                           max_iter=20000, random_state=0).fit(L, y)
    seconds = time.thread_time() - began
    scores = L @ linear.coef_.T
    margins = scores - scores[np.arange(len(y)), y][:, None] + (np.arange(10) != y[:, None])
    value = 0.5 * LAM * (linear.coef_**2).sum() + margins.max(axis=1).mean()
    rows.append(("LinearSVC (Crammer, Singer), weights given", f"{made + made_factor + seconds:.2f}", f"{value:.5f}",
                 "", "given", f"{100 * np.mean(linear.predict(Zt) == yt):.2f}"))
    began = time.thread_time()
    machine = SVC(kernel="precomputed", C=1.0 / (LAM * len(y))).fit(K, y)
    rows.append(("SVC (one against one), weights given", f"{made + time.thread_time() - began:.2f}", "", "", "given",
                 f"{100 * np.mean(machine.predict(Kt) == yt):.2f}"))
    return table(("", "seconds", "objective", "gap", "kernel weights", "accuracy, %"), rows)


def rounds(n=4000, active=20, n_groups=8):
    """Microseconds of a round on tokens with `active` indicators each, whatever their number."""
    rows, first = [], None
    for d in (10**5, 10**6, 10**7):
        rng = np.random.default_rng(0)
        # features of a token as words have them: few frequent ones, many rare ones
        ranks = np.minimum(rng.zipf(1.3, (n, active)) - 1, d - 1)
        columns = np.sort((ranks * 2654435761) % d, axis=1)
        X = sp.csr_array((np.ones(columns.size), columns.ravel(), np.arange(0, columns.size + 1, active)), shape=(n, d))
        X.sum_duplicates()
        y = rng.integers(4, size=n)             # nothing to learn: rounds go on to step
        parts = [mkl.Features(slice(k * d // n_groups, (k + 1) * d // n_groups)) for k in range(n_groups)]
        times = []

        def tick(learner, times=times):
            times.append(time.thread_time())

        mkl.OnlineMKL(parts, lam=1e-5, eta0=1.0, n_epochs=6, certify=False, callback=tick, random_state=0).fit(X, y)
        least = float(np.diff(times).min()) / n
        first = first or least
        rows.append((f"{d:.0e}", n_groups, f"{1e6 * least:.1f}", f"{least / first:.2f}"))
    return table(("features", "groups", "microseconds a round", "the first as 1"), rows)


TEXT = """\
# Flat multiple kernel learning

Written by `asv_benchmarks/reproduce/mkl_flat.py` with pybundle {version}; one thread.

## Beside scikit-learn

{n} USPS digits, four kernels, lam = {lam:g} in mean scale; Gram matrices count in the seconds. The peers are given the
kernel weights that the certified learner found: the first minimises the same objective then, on a Cholesky factor.

{peers}

## Defaults of the classifier

`pb.OnlineMKLClassifier(C)` with its five kernels: 20 online epochs, eta_0 tried out before, and the default, "auto";
beside `SVC(C)`. The made sets have 26 classes, four Gaussians each, rounded to integers 0 to 15.

{defaults}

## Rounds of explicit groups

Tokens with 20 indicators each, Zipf-distributed over all features, four classes at random, the fastest of five epochs
of 4000 rounds after the first.

{rounds}
"""


if __name__ == "__main__":
    main()
