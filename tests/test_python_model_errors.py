"""Rounding in values and slopes of models in plain Python and of plain callables, against exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from reference.workers import InTurn

import pybundle as pb
from pybundle.core.exceptions import ContradictionError
from pybundle.core.plane import Planes
from pybundle.core.protocols import Decodings
from pybundle.models.batch_oracle import batched
from pybundle.runtime.lower_bound import certify
from pybundle.solvers.problem.problem import Problem

METHODS = ("auto", "prox-bcfw", "bcfw", "mp-bcfw", "oca", "bmrm", "prox-bmrm", "frank-wolfe", "sgd")


class Classes(pb.models.StructuredModel):
    """Classes of vectors in plain Python; the decoder is exact up to the rounding of its own scores."""

    def __init__(self, n_classes, n_features, rescaling="margin", sparse=False):
        self.n_classes, self.dim = n_classes, n_classes * n_features
        self.rescaling, self.sparse = rescaling, sparse

    def joint_feature(self, x, y):
        feature = np.zeros((self.n_classes, len(x)))
        feature[y] = x
        feature[0] += 0.1 * x           # in all classes alike, so that differences are rounded
        return sp.csr_array(feature.reshape(1, -1)) if self.sparse else feature.ravel()

    def loss(self, y, y_hat):
        return float(y != y_hat)

    def decode(self, w, x):
        raise NotImplementedError

    def loss_augmented_decode(self, w, x, y):
        margins = w.reshape(self.n_classes, -1) @ x
        costs = np.array([self.loss(y, z) for z in range(self.n_classes)])
        values = costs * (1.0 + margins - margins[y]) if self.rescaling == "slack" else costs + margins - margins[y]
        near = np.flatnonzero(values >= values.max() - 1e-9 * (1.0 + np.abs(w).max() * np.abs(x).max())).tolist()
        return near[0] if len(near) == 1 else max(near, key=lambda z: self.exact(w, x, y, z))

    def feature(self, x, y):
        found = self.joint_feature(x, y)
        return found.toarray().ravel() if self.sparse else found

    def exact(self, w, x, y, z):
        """The value of a labelling as a fraction."""
        psi = [Fraction(a) - Fraction(b) for a, b in zip(self.feature(x, z), self.feature(x, y), strict=True)]
        score, cost = sum(a * Fraction(b) for a, b in zip(psi, w, strict=True)), Fraction(self.loss(y, z))
        return cost * (1 + score) if self.rescaling == "slack" else cost + score


def exact_dot(a, w):
    return sum(Fraction(x) * Fraction(v) for x, v in zip(a, w, strict=True))


def exact_objective(model, X, Y, weights, lam, w):
    """F(w) as a fraction."""
    risk = sum(Fraction(c) * max(model.exact(w, x, y, z) for z in range(model.n_classes))
               for c, x, y in zip(weights, X, Y, strict=True))
    return Fraction(lam) / 2 * exact_dot(w, w) + risk


def separable(seed, scale):
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.standard_normal((3, 4))
    Y = rng.integers(0, 3, 9)
    return scale * (centres[Y] + 0.1 * rng.standard_normal((9, 4))), Y.tolist(), rng.uniform(0.5, 2.0, 9)


@pytest.mark.parametrize("rescaling, sparse", [("margin", True), ("slack", False)])
@pytest.mark.parametrize("method", METHODS)
def test_no_exact_value_is_above_what_is_certified(method, rescaling, sparse):
    """On separable data F is tiny: `certified` stood beside values 5e-9 of F and more below the exact ones.

    The package forms <w, psi> of such models itself, and did not count its rounding.
    """
    model = Classes(3, 4, rescaling, sparse)
    for seed, scale, lam in ((0, 1.0, 1e-12), (2, 30.0, 1e-14)):
        X, Y, weights = separable(seed, scale)
        risk = pb.risks.Structured(model, X, Y, sample_weight=weights)
        result = pb.minimize(risk, lam=lam, method=method, tol=1e-6, max_iter=20)
        assert result.certified
        value = exact_objective(model, X, Y, weights, lam, result.x)
        assert Fraction(result.lower_bound) <= value
        assert value <= Fraction(result.fun) + Fraction(result.error)


@pytest.mark.parametrize("rescaling, sparse", [("margin", False), ("margin", True), ("slack", False)])
def test_values_and_slopes_are_exact_up_to_what_is_counted(rescaling, sparse):
    model, rng = Classes(3, 4, rescaling, sparse), np.random.default_rng(0)
    for seed in range(10):
        X, Y, weights = separable(seed, 10.0 ** rng.integers(-6, 7))
        risk = pb.risks.Structured(model, X, Y, 2, sample_weight=weights)
        w = 10.0 ** rng.integers(-3, 9) * rng.standard_normal(risk.dim)
        planes, (values, errors) = risk.planes(w), risk.values(w)
        for p, rows in enumerate(risk.parts):
            slope, value = [Fraction(0)] * risk.dim, Fraction(0)
            for i in rows:
                z = model.loss_augmented_decode(w, X[i], Y[i])
                cost = Fraction(model.loss(Y[i], z)) if rescaling == "slack" else 1
                psi = zip(model.feature(X[i], z), model.feature(X[i], Y[i]), strict=True)
                slope = [s + Fraction(weights[i]) * cost * (Fraction(a) - Fraction(b))
                         for s, (a, b) in zip(slope, psi, strict=True)]
                value += Fraction(weights[i]) * model.exact(w, X[i], Y[i], z)
            assert value <= Fraction(values[p]) + Fraction(errors[p])
            size = np.linalg.norm(w) * risk.slope_errors[p] / 2**-53
            assert values[p] <= float(value) + 1e-13 * (len(rows) + size)
            found = planes.slopes[p].toarray().ravel() if sp.issparse(planes.slopes) else planes.slopes[p]
            off = sum((Fraction(a) - b) ** 2 for a, b in zip(found, slope, strict=True))
            assert off <= Fraction(risk.slope_errors[p]) ** 2


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("as_pair", [False, True])
def test_a_loss_below_zero_by_rounding_is_zero_and_counts(as_pair, rescaling):
    """A loss that is a difference, as c.v - z of an optimiser is, was refused at -4e-16."""
    class Rounded(Classes):
        lowest = -4e-16

        def loss(self, y, y_hat):
            return self.lowest if y_hat == y else 1.0

    if as_pair and rescaling == "slack":
        pytest.skip("a pair of callables has no rescaling")
    model, (X, Y, _) = Rounded(3, 4, rescaling), separable(0, 1.0)
    spoken = (model.joint_feature, lambda w, x, y: (z := model.loss_augmented_decode(w, x, y), model.loss(y, z)))
    risk = pb.risks.Structured(spoken if as_pair else model, X, Y)
    for method in ("oca", "bcfw"):
        assert pb.minimize(risk, lam=1e-1, tol=1e-2, method=method).success
    result = pb.minimize(risk, lam=1e-2, tol=1e-4)
    oracle = batched(risk.oracle())
    found = oracle.solve_batch(np.arange(len(X)), oracle.prepare(result.x))
    at_truth = found.values == 0.0
    assert at_truth.any() and (found.uppers[at_truth] >= 4e-16).all()
    Rounded.lowest = -1e-6
    with pytest.raises(pb.OracleError, match="loss must be a finite number >= 0"):
        pb.minimize(risk, lam=1e-3)


def test_a_value_below_its_lower_bound_by_rounding_is_the_bound_and_counts():
    """A callable that ends at -4e-16 where R >= 0 was left without a certificate."""
    risk = pb.risks.Function(lambda w: (np.abs(w).sum() - 4e-16, np.sign(w)), dim=2, lower_bounds=0.0)
    result = pb.minimize(risk, lam=1.0)
    assert result.certified and result.fun >= result.lower_bound >= 0.0
    bound = result.state.bound
    certificate = certify(risk, Problem(pb.prox.Box().canonical(2), 0.0), np.zeros(2), bound)
    assert certificate.fun == 0.0 and certificate.error >= 4e-16 and certificate.certified
    wrong = pb.risks.Function(lambda w: (np.abs(w).sum() - 1e-3, np.sign(w)), dim=2, lower_bounds=0.0)
    with pytest.raises(ContradictionError, match="below its lower bound"):
        pb.minimize(wrong, lam=1.0)


@pytest.mark.parametrize("n_parts", [1, 3])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dim", [1, 7, 130, 4000])
def test_planes_of_subgradients_lie_below_the_exact_ones(dim, sparse, n_parts):
    """The offset R(w) - <g, w> of a callable loses what its rounding may have added, in all sizes and storages."""
    rng = np.random.default_rng(dim)
    for _ in range(5 if dim < 1000 else 1):
        w = rng.standard_normal(dim) * 10.0 ** rng.uniform(-8, 8, dim)
        slopes = rng.standard_normal((n_parts, dim)) * 10.0 ** rng.uniform(-8, 8, (n_parts, dim))
        slopes *= rng.random((n_parts, dim)) < 0.7
        products = [exact_dot(slope, w) for slope in slopes]
        values = np.array([float(product) for product in products]) * (1.0 + 1e-12)     # nearly all cancels
        planes = Planes.from_subgradients(values, sp.csr_array(slopes) if sparse else slopes, w)
        for p in range(n_parts):
            lost = Fraction(values[p]) - products[p] - Fraction(planes.offsets[p])
            size = sum(abs(Fraction(a) * Fraction(b)) for a, b in zip(slopes[p], w, strict=True))
            terms = 4 * dim + 80 if sparse else 100
            assert 0 <= lost <= terms * Fraction(2) ** -53 * (size + abs(Fraction(values[p])))


def test_rounding_of_slopes_is_counted_where_workers_make_them():
    """Norms of psi become known with the planes, hence at the workers."""
    X, Y, weights = separable(0, 1.0)
    for method in ("oca", "bmrm", "prox-bmrm"):
        risk = pb.risks.Structured(Classes(3, 4), X, Y, 2, sample_weight=weights)
        here, there = (pb.minimize(risk, lam=0.1, tol=1e-3, method=method, executor=where)
                       for where in (None, InTurn(2, pickled=True)))
        assert (there.fun, there.lower_bound, there.gap) == (here.fun, here.lower_bound, here.gap)
        assert (here.state.errors[0] > 0.0).all()
        np.testing.assert_array_equal(there.state.errors[0], here.state.errors[0])


def test_a_decoder_may_round_as_much_as_its_scores_do():
    """Far out, where scores cancel, a labelling that ties with the truth was refused as worse than the truth."""
    x, w = np.array([1.0, 1.0, 1.0]), np.array([0.0, 0.0, 0.0, 1e16, -1e16, -1.5])

    class Tied(Classes):
        def loss_augmented_decode(self, w, x, y):
            return 1

    risk = pb.risks.Structured(Tied(2, 3), [x], [0])
    value, error = risk.values(w)
    assert value[0] + error[0] >= 0.0
    near = np.array([0.0, 0.0, 0.0, 1.0, -1.0, -1.5])
    with pytest.raises(pb.OracleError, match="at least as good as the truth"):
        risk.values(near)


@pytest.mark.filterwarnings("ignore:pybundle. no evidence:RuntimeWarning")
@pytest.mark.parametrize("method", ["auto", "oca"])
def test_pairs_of_a_labelling_and_its_loss_are_no_evidence(method):
    """Two callables tell the loss of decoded labellings only; kept as arrays, `verify` could not read them."""
    model, (X, Y, _) = Classes(3, 4), separable(0, 1.0)
    pair = (model.joint_feature, lambda w, x, y: (z := model.loss_augmented_decode(w, x, y), model.loss(y, z)))
    risk = pb.risks.Structured(pair, X, Y)
    certificate = pb.minimize(risk, lam=1.0, tol=1e-3, evidence=True, method=method).certificate
    assert (certificate.evidence is None) == (method == "auto")         # points, of "oca"
    assert pb.verify(certificate, risk, lam=1.0).ok == (method == "oca")
    if method == "oca":
        with pytest.raises(pb.ParameterError, match="exact=True"):
            pb.verify(certificate, risk, lam=1.0, exact=True)


def test_a_decoder_of_ones_own_is_not_believed_to_count_rounding():
    """Values of an oracle in float32 replaced the exact ones of its risk: F lay above what was certified."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 4))
    y = np.where(rng.random(20) < 0.5, 1.0, -1.0)

    class Rough(pb.models.BatchOracle):
        n_examples, dim, sizes, fingerprint = 20, 4, np.ones(20, dtype=np.int64), 1

        def _decode(self, rows, weights, loss):
            margins = y[rows].astype(np.float32) * (X[rows].astype(np.float32) @ weights.astype(np.float32))
            values = np.maximum(1.0 - margins, 0.0).astype(float)
            return Decodings((values > 0.0).astype(np.int64), values, values)

        def _planes(self, rows, labellings):
            found = np.asarray(labellings, dtype=float)
            return found, sp.csr_array((-found * y[rows])[:, None] * X[rows])

    class Exact:
        dim, n_examples, n_parts, lower_bounds = 4, 20, 1, np.zeros(1)
        parts, sample_weight = [np.arange(20)], np.ones(20)

        def evaluate(self, w):
            inside = 1.0 - y * (X @ w) > 0.0
            return np.array([(1.0 - y * (X @ w))[inside].sum()]), -(y[inside] @ X[inside])[None]

        def oracle(self):
            return Rough()

    result = pb.minimize(Exact(), np.zeros(4), lam=0.3, method="prox-bcfw", tol=1e-4)
    w = [Fraction(v) for v in result.x]
    margins = [Fraction(t) * sum(Fraction(a) * v for a, v in zip(x, w, strict=True))
               for x, t in zip(X.tolist(), y.tolist(), strict=True)]
    value = Fraction(0.3) / 2 * sum(v * v for v in w) + sum(max(Fraction(0), 1 - m) for m in margins)
    assert result.certified and abs(value - Fraction(result.fun)) <= Fraction(result.error) + Fraction(1, 10**13)
