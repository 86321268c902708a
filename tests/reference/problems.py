"""Random small problems for the proofs: a risk of the package, its exact twin, and what to ask of it.

Data come on scales of 1e-8 to 1e8, with ties, duplicates, contradicting labels, zero rows, single classes and weights
of 0; lam from 1e-10 to 1e8. Everything follows from a seed and a number.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import scipy.sparse as sp

import pybundle as pb

from . import exact

BUNDLE = ("oca", "bmrm", "prox-bmrm")
BLOCKS = ("prox-bcfw", "alm", "bcfw", "mp-bcfw", "frank-wolfe", "sgd")
SMOOTH = ("auto", "lbfgs", *BUNDLE, "frank-wolfe")
HINGE = ("auto", *BUNDLE, *BLOCKS)
FREE = ("auto", *BUNDLE)
"""Methods that need no labellings of examples and no lower bound."""


@dataclass
class Problem:
    """A risk with its twin; `size` is about the norm of a row."""

    name: str
    risk: Any
    twin: exact.Risk
    methods: tuple
    size: float
    nonneg: Any = None
    n: int = 1
    lams: list = field(default_factory=list)
    radius: float | None = None
    words: str = ""


def matrix(rng, n, d):
    """Rows with ties, duplicates, zeros, unequal sizes."""
    kind = rng.choice(["normal", "integers", "clusters", "signs"])
    if kind == "normal":
        X = rng.standard_normal((n, d))
    elif kind == "integers":
        X = rng.integers(-2, 3, (n, d)).astype(float)
    elif kind == "clusters":
        X = 5.0 * rng.standard_normal((3, d))[rng.integers(0, 3, n)] + 0.3 * rng.standard_normal((n, d))
    else:
        X = rng.choice([-1.0, 1.0], (n, d))
    if rng.random() < 0.35:
        X *= 10.0 ** rng.uniform(-3, 3, (n, 1))
    if rng.random() < 0.1:
        X *= 10.0 ** rng.uniform(-3, 3, d)
    if n > 1 and rng.random() < 0.3:
        X[rng.integers(n)] = X[rng.integers(n)]
    if rng.random() < 0.1:
        X[rng.integers(n)] = 0.0
    if rng.random() < 0.1:
        X[:, rng.integers(d)] = 1.0
    return X * scale_of(rng)


def scale_of(rng):
    return 1.0 if rng.random() < 0.5 else float(10.0 ** rng.uniform(-8, 8))


def stored(rng, X, sparse=True):
    """(as the package gets it, the same numbers as float64); precision and storage at random."""
    kind = rng.choice(["float64", "float64", "float32", "uint8", "csr", "csr32"] if sparse else ["float64", "float32"])
    if kind == "uint8":
        X = (np.abs(X) / max(np.abs(X).max(), 1e-300) * rng.choice([1, 3, 255])).astype(np.uint8)
    elif kind in ("float32", "csr32"):
        X = X.astype(np.float32)
    given = sp.csr_array(X) if kind.startswith("csr") else X
    return given, X.astype(np.float64)


def labels(rng, X, K):
    """Classes: random, of a linear map, all the same, or contradicting for equal rows."""
    n, kind = len(X), rng.random()
    if kind < 0.4:
        return rng.integers(0, K, n)
    if kind < 0.5:
        return np.full(n, rng.integers(K))
    return np.argmax(X / max(np.abs(X).max(), 1e-300) @ rng.standard_normal((X.shape[1], K)), axis=1)


def contradict(rng, X, Y, K):
    """Sometimes the last example is the first one with another label, so that the risk stays above 0."""
    if len(X) > 1 and rng.random() < 0.5:
        X[-1], Y[-1] = X[0], (Y[0] + 1) % K
    return X, Y


def sample_weights(rng, n):
    kind = rng.random()
    if kind < 0.65:
        return None
    c = rng.uniform(0.0, 2.0, n)
    if kind < 0.8:
        c[rng.random(n) < 0.4] = 0.0
    if kind > 0.95:
        c *= 10.0 ** rng.uniform(-6, 6)
    return c


def cost_matrix(rng, K):
    if rng.random() < 0.6:
        return None
    costs = rng.integers(0, 4, (K, K)) * 0.5
    return costs * (1.0 - np.eye(K))


def flat_options(rng, X, n):
    options = {"weights": sample_weights(rng, n)}
    if X.dtype == np.uint8 or rng.random() < 0.1:
        options["scale"] = 1.0 / 255.0 if rng.random() < 0.7 else 3.0
    if rng.random() < 0.2:
        options["bias"] = float(rng.choice([1.0, 0.1, 100.0]))
    return options


def as_given(options):
    """The options of a twin under the names of the package."""
    return {{"weights": "sample_weight"}.get(name, name): value for name, value in options.items()}


def multiclass_hinge(rng):
    n, d, K = int(rng.integers(1, 10)), int(rng.integers(1, 6)), int(rng.integers(2, 5))
    X = matrix(rng, n, d)
    X, y = contradict(rng, X, labels(rng, X, K), K)
    given, X = stored(rng, X)
    options, costs = flat_options(rng, given, n), cost_matrix(rng, K)
    risk = pb.risks.MulticlassHinge(given, y, n_classes=K, loss=costs, **as_given(options))
    return risk, exact.multiclass(X, y, K, costs, **options), HINGE


def binary_data(rng, most):
    n, d = int(rng.integers(1, most)), int(rng.integers(1, 9))
    X = matrix(rng, n, d)
    if most > 20 and rng.random() < 0.5:        # many rows of unequal size make masters ill-conditioned
        n, d = int(rng.integers(10, 30)), int(rng.integers(2, 12))
        X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3, 3, (n, 1))
    X, y = contradict(rng, X, labels(rng, X, 2), 2)
    given, X = stored(rng, X)
    return given, X, y, flat_options(rng, given, n)


def binary_hinge(rng):
    given, X, y, options = binary_data(rng, 24)
    risk = pb.risks.BinaryHinge(given, y, n_classes=2, **as_given(options))
    return risk, exact.binary(X, 2 * y - 1, **options), HINGE


def logistic(rng):
    given, X, y, options = binary_data(rng, 12)
    risk = pb.risks.Logistic(given, y, n_classes=2, **as_given(options))
    return risk, exact.binary(X, 2 * y - 1, smooth=True, **options), (*SMOOTH, "newton", "sgd")


def structured(rng, model, X, Y, twin, smooth):
    """The risk of a model and its twin, with weights of examples."""
    weights = sample_weights(rng, len(Y))
    risk = pb.risks.Structured(model, X, Y, loss="logistic" if smooth else "hinge", sample_weight=weights)
    return risk, twin(weights=weights, smooth=smooth), SMOOTH if smooth else HINGE


def classes(rng, smooth, slack=False):
    n, d, K = int(rng.integers(1, 8)), int(rng.integers(1, 5)), int(rng.integers(2, 5))
    X = matrix(rng, n, d)
    X, y = contradict(rng, X, labels(rng, X, K), K)
    given, X = stored(rng, X)
    costs = None if smooth else cost_matrix(rng, K)
    model = pb.models.Multiclass(K, d, loss=costs, rescaling="slack" if slack else "margin")
    return structured(rng, model, given, y,
                      lambda **more: exact.multiclass(X, y, K, costs, slack=slack, **more), smooth)


def chain(rng, smooth, slack=False):
    n, K, d = int(rng.integers(1, 5)), int(rng.integers(2, 4)), int(rng.integers(1, 4))
    sizes = rng.integers(1, 4, n)
    tokens = matrix(rng, int(sizes.sum()), d)
    Y = np.split(labels(rng, tokens, K), np.cumsum(sizes)[:-1])
    given, tokens = stored(rng, tokens)
    cuts = [slice(b - s, b) for b, s in zip(np.cumsum(sizes), sizes, strict=True)]
    X, exact_X = [given[cut] for cut in cuts], [tokens[cut] for cut in cuts]
    if n > 1 and rng.random() < 0.6:
        X[-1], exact_X[-1], Y[-1] = X[0], exact_X[0], (Y[0] + 1) % K
    costs = None if smooth or slack else cost_matrix(rng, K)
    ends = {"normalised": bool(rng.random() < 0.3), "start": bool(rng.random() < 0.5), "end": bool(rng.random() < 0.5)}
    model = pb.models.Chain(K, d, "hamming" if costs is None else costs, rescaling="slack" if slack else "margin",
                            **ends)
    support = None
    if sp.issparse(given) and any(x.count_nonzero() for x in X) and rng.random() < 0.7:     # some weights of tokens
        support = model.occurring(X, Y).token_support
        if rng.random() < 0.3:
            support = support[rng.random(len(support)) < 0.7] if len(support) > 3 else support[:1]
            support = support if len(support) else np.array([[0, K - 1]])
        model = pb.models.Chain(K, d, "hamming" if costs is None else costs, token_support=support,
                                rescaling="slack" if slack else "margin", **ends)
    costs = 1 - np.eye(K, dtype=int) if costs is None else costs
    return structured(rng, model, X, Y, lambda **more: exact.chain(exact_X, Y, K, costs, slack=slack, support=support,
                                                                   **ends, **more), smooth)


def dependency(rng, smooth, R=1):
    counts = str(rng.choice(["both", "heads", "relations"])) if R > 1 and not smooth else "both"
    single, n_sentences = bool(rng.random() < 0.7), int(rng.choice([1, 2, 2, 3]))
    d = int(rng.integers(1, 7))
    X, exact_X, Y, factor = [], [], [], scale_of(rng)
    is_free = rng.random() < 0.5                # every arc has a weight of its own
    for _ in range(n_sentences):
        n = 2 if is_free else int(rng.choice([1, 2, 2, 3, 3, 4] if not smooth and R == 1 else [1, 2, 2, 3, 3]))
        d = 4 if is_free else d
        if is_free:
            x = np.eye(4)
        elif rng.random() < 0.4:
            x = rng.integers(-1, 2, (n * n, d)) * 1.0
        else:
            x = rng.standard_normal((n * n, d))
        if rng.random() < 0.3:
            x = x * 10.0 ** rng.uniform(-2, 2, (n * n, 1))
        x = (x * factor).astype(rng.choice([np.float32, np.float64]))
        trees = labelled_trees(rng, n, single, R)
        X.append(x)
        Y.append(trees[rng.integers(len(trees))])
    if n_sentences > 1 and rng.random() < 0.8:
        others = [tree for tree in labelled_trees(rng, len(Y[0]) - 1, single, R) if (tree != Y[0]).any()]
        X[-1], Y[-1] = X[0], others[rng.integers(len(others))] if others else Y[0]
    kind = X[0].dtype
    X = [sp.csr_array(x.astype(kind)) for x in X]
    exact_X = [x.toarray().astype(float) for x in X]
    more = {} if R == 1 else {"n_relations": R, "counts": counts}
    model = pb.models.Dependency(d, single_root=single, **more)
    return structured(rng, model, X, Y, lambda **more: exact.dependency(exact_X, Y, single, R, counts, **more), smooth)


def labelled_trees(rng, n, single, R):
    """All trees of n words, as codes of heads and of random relations."""
    return [np.array([-1, *(R * heads[1:] + rng.integers(0, R, n))]) for heads in exact.all_trees(n, single)]


def landmarks(rng, smooth):
    L, n, d = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    shape, parents = (3, 3), [-1, 0, int(rng.integers(2))][:L]
    size = rng.integers(1, 3, (L, 2))
    low = np.stack([rng.integers(0, 4 - s) for s in size])
    boxes = np.hstack([low, size])
    anchors, spreads = rng.integers(-2, 3, (L, 2)) / 2.0, rng.choice([0.5, 1.0, 2.0], (L, 2))
    unit = float(rng.choice([1.0, 0.5, 100.0]))
    given, maps = stored(rng, matrix(rng, n * 9, d), sparse=False)
    given, maps = given.reshape(n, 9, d), maps.reshape(n, 9, d)
    Y = low + rng.integers(0, size, (n, L, 2))
    if n > 1 and rng.random() < 0.5:
        given[-1], maps[-1] = given[0], maps[0]
    nonneg = not smooth and bool(rng.random() < 0.5)
    model = pb.models.Landmarks(shape, parents, pb.features.MapFeatures(d), boxes=boxes, anchors=anchors,
                                spreads=spreads, unit=unit, nonneg=nonneg)
    return structured(rng, model, given, Y, lambda **more: exact.landmarks(
        maps, Y, shape, parents, boxes.tolist(), anchors, spreads, unit, **more), smooth)


def segmentation(rng, slack=False):
    n, K, height = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    widths = rng.integers(1, 3, K)
    symbols = rng.integers(0, 2, K) if rng.random() < 0.5 else np.arange(K)
    fillers = np.flatnonzero(rng.random(K) < 0.2)
    loss = str(rng.choice(["start", "symbol"]))
    Y = [rng.integers(0, K, rng.integers(1, 4)) for _ in range(n)]
    sizes = [int(widths[y].sum()) for y in Y]
    given, X = stored(rng, matrix(rng, sum(sizes), height), sparse=False)
    given, X = (np.split(a, np.cumsum(sizes)[:-1]) for a in (given, X))
    model = pb.models.Segmentation(height, widths, symbols=symbols, fillers=fillers, loss=loss,
                                   rescaling="slack" if slack else "margin")
    return structured(rng, model, given, Y, lambda **more: exact.segmentation(
        X, Y, height, widths, symbols, set(fillers.tolist()), loss, slack=slack, **more), False)


def labeling(rng):
    n, d, p, loss = int(rng.integers(1, 5)), int(rng.integers(1, 4)), int(rng.integers(1, 3)), str(
        rng.choice(["mean", "hamming", "balanced"]))
    factor, graphs, Y = scale_of(rng), [], []
    for _ in range(n):
        size = int(rng.integers(1, 5))
        m = int(rng.integers(0, 2 * size)) if size > 1 else 0
        a = rng.integers(0, size, m)
        edges = np.column_stack([a, (a + rng.integers(1, max(size, 2), m)) % size])
        nodes = factor * (rng.integers(-2, 3, (size, d)) if rng.random() < 0.3 else rng.standard_normal((size, d)))
        graphs.append(pb.models.Graph(nodes, edges, factor * rng.random((m, p))))
        Y.append(rng.integers(0, 2, size))
    factors = (1.0, 1.0) if rng.random() < 0.7 else (0.5, 2.0)
    model = pb.models.BinaryLabeling(d, p, loss, factors)
    return structured(rng, model, graphs, Y, lambda **more: exact.labeling(
        graphs, Y, loss, class_weights=factors, **more), False)


class Table(pb.models.StructuredModel):
    """A model in plain Python: x is the matrix of Psi(x, y), y a row of it."""

    def __init__(self, dim, costs, rescaling):
        self.dim, self.costs, self.rescaling = dim, costs, rescaling

    def joint_feature(self, x, y):
        return x[y]

    def loss(self, y, y_hat):
        return float(self.costs[y, y_hat])

    def decode(self, w, x):
        return int(np.argmax(x @ w))

    def loss_augmented_decode(self, w, x, y):
        scores = (x - x[y]) @ w
        return int(np.argmax(self.costs[y] * (1.0 + scores) if self.rescaling == "slack" else self.costs[y] + scores))


def plain_python(rng, slack=False):
    n, K, d = int(rng.integers(1, 6)), int(rng.integers(2, 6)), int(rng.integers(1, 6))
    X = matrix(rng, n * K, d).reshape(n, K, d)
    Y, costs = rng.integers(0, K, n).tolist(), cost_matrix(rng, K)
    costs = 1.0 - np.eye(K) if costs is None else costs
    model = Table(d, costs, "slack" if slack else "margin")
    return structured(rng, model, list(X), Y, lambda **more: exact.table(X, Y, costs, slack=slack, **more), False)


class Pieces:
    """The maximum of affine functions as a callable: values are the exact ones, rounded once."""

    def __init__(self, twin):
        self.twin = twin
        self.slopes = (twin.A / twin.D).astype(float)

    def __call__(self, w):
        W, k = exact.lift(w)
        heights = self.twin.A @ W + (self.twin.offsets << k)
        best = [max(range(a, b), key=heights.__getitem__) for a, b in self.twin.groups()]
        return (np.array([float(Fraction(heights[r], self.twin.D << k)) for r in best]), self.slopes[best])


def function(rng):
    P, d = int(rng.choice([1, 1, 2, 4])), int(rng.integers(1, 6))
    is_positive, factor, parts = bool(rng.random() < 0.4), scale_of(rng), []
    for _ in range(P):
        m = int(rng.integers(1, 7))
        slopes = rng.integers(-3, 4, (m, d)) * 1.0 if rng.random() < 0.5 else rng.standard_normal((m, d))
        if rng.random() < 0.2:
            slopes *= 10.0 ** rng.uniform(-3, 3, (m, 1))
        offsets = rng.standard_normal(m) * (1.0 if rng.random() < 0.7 else 10.0 ** rng.uniform(-3, 4))
        if is_positive:
            offsets[0], slopes[0] = 0.0, 0.0
        parts.append(list(zip(offsets.tolist(), factor * slopes, strict=True)))
    twin = exact.pieces(parts)
    declared = is_positive and rng.random() < 0.7
    risk = pb.risks.Function(Pieces(twin), d, P, lower_bounds=0.0 if declared else None)
    return risk, twin, (*FREE, "frank-wolfe") if declared else FREE


KINDS = {
    "MulticlassHinge": (12, multiclass_hinge),
    "BinaryHinge": (16, binary_hinge),
    "Logistic": (8, logistic),
    "Multiclass, logistic": (8, lambda rng: classes(rng, True)),
    "Chain, logistic": (8, lambda rng: chain(rng, True)),
    "Dependency, logistic": (12, lambda rng: dependency(rng, True)),
    "Landmarks, logistic": (6, lambda rng: landmarks(rng, True)),
    "Multiclass": (3, lambda rng: classes(rng, False)),
    "Multiclass, slack": (3, lambda rng: classes(rng, False, True)),
    "Chain": (4, lambda rng: chain(rng, False)),
    "Chain, slack": (3, lambda rng: chain(rng, False, True)),
    "Dependency, relations, logistic": (6, lambda rng: dependency(rng, True, 2)),
    "Dependency, relations": (4, lambda rng: dependency(rng, False, 2)),
    "Dependency": (4, lambda rng: dependency(rng, False)),
    "Landmarks": (4, lambda rng: landmarks(rng, False)),
    "Segmentation": (3, segmentation),
    "Segmentation, slack": (3, lambda rng: segmentation(rng, True)),
    "BinaryLabeling": (4, labeling),
    "plain Python": (4, plain_python),
    "plain Python, slack": (3, lambda rng: plain_python(rng, True)),
    "Function": (6, function),
}


def make(seed, index, kinds=KINDS):
    """Problem number `index`, and the generator that goes on."""
    rng = np.random.default_rng([seed, index])
    shares = np.array([share for share, _ in kinds.values()], dtype=float)
    name = list(kinds)[rng.choice(len(kinds), p=shares / shares.sum())]
    risk, twin, methods = kinds[name][1](rng)
    norms = np.sqrt((((twin.A / twin.D).astype(float) if len(twin.A) else np.zeros((1, 1))) ** 2).sum(axis=1))
    size = float(norms.max(initial=0.0)) or 1.0
    nonneg = getattr(risk, "nonneg", None)
    if nonneg is None and rng.random() < 0.1:
        nonneg = rng.random(risk.dim) < 0.5
        nonneg = nonneg if nonneg.any() else None
    problem = Problem(name, risk, twin, methods, size, nonneg)
    if nonneg is not None:
        problem.methods = tuple(m for m in methods if m != "alm")
    if not twin.smooth and rng.random() < 0.06:
        problem.radius, problem.methods = float(10.0 ** rng.uniform(-2, 3) / size), ("cutting-plane", "auto")
        problem.lams = [None]
        return problem, rng
    if rng.random() < 0.1:
        problem.n = risk.n_examples
    problem.lams = [lam_of(rng, size, (-20, -10) if twin.smooth and rng.random() < 0.5 else (-6, 1))]
    if rng.random() < 0.5:
        problem.lams.append(problem.lams[0] * float(10.0 ** rng.uniform(-3, 3)))
    return problem, rng


def start(rng, problem, lam=None):
    """A point up to 1e8 away.

    Often along directions that leave the risk as it is, and so far that lam just does not mind: then labellings tie at
    scores that are large, and what is computed there is worth most.
    """
    dim = problem.risk.dim
    w = 10.0 ** rng.uniform(-2, 8) * rng.standard_normal(dim) / (problem.size if rng.random() < 0.6 else 1.0)
    if rng.random() < 0.7 and len(problem.twin.A):
        _, values, basis = np.linalg.svd((problem.twin.A / problem.twin.D).astype(float) / problem.size)
        flat = basis[np.count_nonzero(values > 1e-12):]
        far, near = 10.0 ** rng.uniform(1, 8), rng.integers(2) * 10.0 ** rng.uniform(-1, 1.5)
        if lam is not None and rng.random() < 0.7:
            far = min(sqrt(10.0 ** rng.uniform(-6, 0) / lam) * problem.size, 1e8)
        along, across = flat.T @ (flat @ rng.standard_normal(dim)), near * rng.standard_normal(dim)
        w = (far * along + across) / problem.size if len(flat) else w
    if problem.nonneg is not None:
        w[problem.nonneg] = np.abs(w[problem.nonneg])
    return np.clip(w, -1e50, 1e50)


def lam_of(rng, size, ends):
    """Most of them on the scale of the data, where the optimum is neither 0 nor far away."""
    lam = 10.0 ** rng.uniform(*ends) * size**2 if rng.random() < 0.7 else 10.0 ** rng.uniform(-10, 8)
    return float(np.clip(lam, 1e-40, 1e40))
