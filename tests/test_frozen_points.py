"""What the caller can change must not change the proof: points, weights of examples, arrays in reused buffers."""

import functools
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb

SEED = np.random.default_rng(0)
X, Y = SEED.standard_normal((40, 5)), SEED.integers(0, 3, 40)


class Classes(pb.models.StructuredModel):
    """Three classes in plain Python."""

    dim = 15

    def joint_feature(self, x, y):
        return np.kron(np.eye(3)[y], x)

    def loss(self, y, y_hat):
        return float(y != y_hat)

    def decode(self, w, x):
        return int(np.argmax(w.reshape(3, 5) @ x))

    def loss_augmented_decode(self, w, x, y):
        return int(np.argmax(w.reshape(3, 5) @ x + (np.arange(3) != y)))


class Hinge:
    """A risk of one's own in two parts, whose answers are written into the same arrays again and again."""

    dim, n_examples, n_parts, lower_bounds = 15, 40, 2, np.zeros(2)
    n_parts_given = True

    def __init__(self, is_sparse=False):
        self.is_sparse, self.values_, self.slopes = is_sparse, np.zeros(2), np.zeros((2, 15))
        self.kept = sp.csr_array(np.ones((2, 15)))

    def evaluate(self, w):
        scores = X @ w.reshape(3, 5).T + (np.arange(3) != Y[:, None])
        margins = scores - scores[np.arange(40), Y][:, None]
        best = margins.argmax(axis=1)
        G = np.eye(3)[best] - np.eye(3)[Y]
        for p in range(2):
            self.values_[p] = margins[p::2].max(axis=1).sum()
            self.slopes[p] = (G[p::2].T @ X[p::2]).ravel()
        if not self.is_sparse:
            return self.values_, self.slopes
        self.kept.data[:] = self.slopes.ravel()
        return self.values_, self.kept


def smooth(w):
    scores = X[:, :4] @ w * np.where(Y > 0, 1.0, -1.0)
    share = 1.0 / (1.0 + np.exp(scores))
    return np.logaddexp(0.0, -scores).sum(), -(share * np.where(Y > 0, 1.0, -1.0)) @ X[:, :4]


RISKS = {
    "multiclass": lambda: pb.risks.MulticlassHinge(X, Y),
    "binary": lambda: pb.risks.BinaryHinge(X, np.where(Y > 0, 1, -1)),
    "logistic": lambda: pb.risks.Logistic(X, np.where(Y > 0, 1, -1)),
    "chain": lambda: pb.risks.Structured(pb.models.Chain(3, 5), list(X[:, None]), list(Y[:, None])),
    "model": lambda: pb.risks.Structured(Classes(), X, Y.tolist()),
    "class": Hinge,
    "function": lambda: pb.risks.Function(smooth, 4, lower_bounds=0.0, smooth=True),
}


@functools.cache
def minimum():
    return pb.minimize(RISKS["multiclass"](), lam=0.2, tol=1e-9)


HINGES = ("oca", "bmrm", "prox-bmrm", "frank-wolfe")
BLOCKS = ("auto", "prox-bcfw", "bcfw", "mp-bcfw", *HINGES)
PAIRS = [(name, method) for name, methods in {
    "multiclass": (*BLOCKS, "alm", "sgd"), "binary": (*BLOCKS, "alm", "sgd"),
    "logistic": ("auto", "lbfgs", "newton", "oca"),
    "chain": (*BLOCKS, "sgd"), "model": (*BLOCKS, "sgd"), "class": HINGES, "function": ("lbfgs", "oca")}.items()
    for method in methods]


@pytest.mark.parametrize("name, method", PAIRS)
def test_a_callback_cannot_move_the_best_point(name, method):
    """A callback that clipped `progress.x` in place got `certified=True` with the value of the point before."""
    arguments = {"lam": 0.2, "tol": 1e-3, "method": method, "random_state": 0, "max_iter": 5}
    plain, kept, w0 = pb.minimize(RISKS[name](), **arguments), [], np.zeros(RISKS[name]().dim)

    def clip(progress):
        with pytest.raises(ValueError, match="read-only"):
            progress.x[:] = 0.0
        with pytest.raises(ValueError, match="read-only"):
            np.multiply(progress.x, 0.9, out=progress.x)
        w0[:] = 7.0
        kept.append((progress.x, progress.x.copy(), progress.fun))

    result = pb.minimize(RISKS[name](), w0, callback=clip, **arguments)
    assert (result.fun, result.lower_bound, result.certified) == (plain.fun, plain.lower_bound, True)
    np.testing.assert_array_equal(result.x, plain.x)
    assert all(np.array_equal(w, copied) for w, copied, _ in kept)
    result.x[:] = 0.0               # a copy, for whoever wants to change it
    assert np.array_equal(result.state.w, plain.x)

    def scale(progress):
        progress.x *= 0.9

    with pytest.raises(ValueError, match="read-only") as caught:
        pb.minimize(RISKS[name](), callback=scale, **arguments)
    early = caught.value.result
    risk = RISKS[name]()
    value = 0.1 * float(early.x @ early.x) + float(risk.evaluate(early.x)[0].sum())
    assert early.fun == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("place", ["decode", "feature", "evaluate", "oracle"])
@pytest.mark.parametrize("method", BLOCKS)
def test_code_of_users_cannot_write_into_the_point(place, method):
    class Spoiling(Classes):
        def loss_augmented_decode(self, w, x, y):
            found = super().loss_augmented_decode(w, x, y)
            if place == "decode":
                w *= 0.5
            return found

        def joint_feature(self, x, y):
            found = super().joint_feature(x, y)
            if place == "feature":          # an array that it has returned before
                self.last = getattr(self, "last", found)
                self.last[:] = found
                return self.last
            return found

    class Own(Hinge):
        def evaluate(self, w):
            found = super().evaluate(w)
            if place == "evaluate":
                w[:] = 0.0
            return found

        def oracle(self):
            oracle = pb.risks.Structured(Classes(), X, Y.tolist()).oracle()

            class Single:
                n_examples, dim, plane = oracle.n_examples, oracle.dim, oracle.plane

                def solve(self, i, w):
                    found = oracle.solve(i, w)
                    w *= 0.5
                    return found

            return Single()

    is_own = place in ("evaluate", "oracle")
    if (place == "evaluate" and "bcfw" in method) or (place == "oracle" and method in HINGES) or (
            is_own and method == "auto"):
        pytest.skip("not asked")
    risk = Own() if is_own else pb.risks.Structured(Spoiling(), X, Y.tolist())
    arguments = {"lam": 0.2, "tol": 1e-3, "method": method, "max_iter": 20}
    if place != "feature":
        with pytest.raises(ValueError, match="read-only"):
            pb.minimize(risk, **arguments)
        return
    result = pb.minimize(risk, **arguments)
    best = minimum()
    assert result.certified and result.lower_bound <= best.fun * (1.0 + 1e-12)
    assert best.lower_bound <= result.fun * (1.0 + 1e-12)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("method", HINGES)
def test_answers_in_a_buffer_that_is_used_again_are_copied(method, is_sparse):
    result = pb.minimize(Hinge(is_sparse), lam=0.2, tol=1e-5, method=method, max_iter=500)
    best = minimum()
    assert result.certified and result.lower_bound <= best.fun * (1.0 + 1e-12)
    assert best.lower_bound <= result.fun * (1.0 + 1e-12)
    assert result.gap <= (1e-5 if method != "frank-wolfe" else 0.05)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_pass_for_limits_of_free_weights_does_not_change_planes_in_a_buffer(is_sparse):
    """The pass far out overwrote the slopes of the last one before they were stored: a certified bound was too high."""
    targets = X @ np.arange(5.0) + np.random.default_rng(1).standard_normal(40)
    answer = sp.csr_array(np.ones((1, 5))) if is_sparse else np.ones((1, 5))
    buffer = answer.data if is_sparse else answer[0]

    class Errors:
        dim, n_examples, n_parts, lower_bounds = 5, 40, 1, np.zeros(1)

        def evaluate(self, w):
            errors = X @ w - targets
            buffer[:] = X.T @ np.sign(errors)
            return np.abs(errors).sum(keepdims=True), answer

    lam = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    result = pb.minimize(Errors(), lam=lam, tol=1e-5, method="oca")
    best = pb.minimize(pb.risks.Absolute(X, targets), lam=lam, tol=1e-8)
    assert best.success and result.success
    assert result.lower_bound <= best.fun * (1.0 + 1e-12) and best.lower_bound <= result.fun * (1.0 + 1e-12)


@pytest.mark.parametrize("as_pair", [False, True])
def test_labellings_in_a_buffer_that_is_used_again_are_copied(as_pair):
    """A labelling that changed after it was returned stood beside the loss of another: its plane lay too high."""
    buffer = np.zeros(1, dtype=int)

    class Filled(Classes):
        def joint_feature(self, x, y):
            return super().joint_feature(x, int(np.ravel(y)[0]))

        def loss(self, y, y_hat):
            return super().loss(y, int(np.ravel(y_hat)[0]))

        def loss_augmented_decode(self, w, x, y):
            buffer[0] = super().loss_augmented_decode(w, x, y)
            return buffer

    model = Filled()

    def decode(w, x, y):
        y_hat = model.loss_augmented_decode(w, x, y)
        return y_hat, model.loss(y, y_hat)

    risk = pb.risks.Structured((model.joint_feature, decode) if as_pair else model, X, Y.tolist())
    plain = pb.risks.Structured(Classes(), X, Y.tolist())
    for method in ("oca", "auto"):
        found, wanted = (pb.minimize(r, lam=0.2, tol=1e-4, method=method) for r in (risk, plain))
        assert (found.fun, found.lower_bound) == (wanted.fun, wanted.lower_bound)


@pytest.mark.parametrize("name", ["multiclass", "binary", "logistic", "chain", "model"])
def test_weights_of_examples_are_frozen(name):
    """Planes and multipliers of a run are made with the weights that the risk had when they were met."""
    risk = RISKS[name]()
    with pytest.raises(ValueError, match="read-only"):
        risk.sample_weight[:] = 0.0
    if hasattr(risk, "labels"):
        with pytest.raises(ValueError, match="read-only"):
            risk.labels[0] = 1


def test_the_value_belongs_to_the_point_that_is_returned():
    """F of the returned point in exact arithmetic, for integer data."""
    A, b = np.rint(4 * X), np.where(Y > 0, 1, -1)

    def exact(w):
        w = [Fraction(v) for v in w]
        losses = (max(Fraction(0), 1 - int(s) * sum(int(a) * v for a, v in zip(row, w, strict=True)))
                  for row, s in zip(A, b, strict=True))
        return sum(v * v for v in w) / 10 + sum(losses)

    for method in (*BLOCKS, "alm"):
        result = pb.minimize(pb.risks.BinaryHinge(A, b), lam=0.2, method=method, tol=1e-2)
        value = exact(result.x)
        assert result.lower_bound <= value <= Fraction(result.fun) + Fraction(result.error)
