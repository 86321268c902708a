"""Data that are changed in place between two runs: planes of the old ones prove nothing for the new ones."""

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.core.checksum import checksum

Y = np.random.default_rng(0).integers(0, 3, 30)


class Classes(pb.models.StructuredModel):
    """Three classes in plain Python."""

    dim = 12

    def joint_feature(self, x, y):
        return np.kron(np.eye(3)[y], x)

    def loss(self, y, y_hat):
        return float(y != y_hat)

    def decode(self, w, x):
        return int(np.argmax(w.reshape(3, 4) @ x))

    def loss_augmented_decode(self, w, x, y):
        return int(np.argmax(w.reshape(3, 4) @ x + (np.arange(3) != y)))


def rows():
    return np.random.default_rng(1).standard_normal((30, 4))


def dense(dtype=np.float64):
    X = rows().astype(dtype)
    return X, X, lambda X: pb.risks.MulticlassHinge(X, Y)


def sparse():
    X = sp.csr_array(rows())
    X.indices = X.indices.astype(np.int32)
    return X, X.data, lambda X: pb.risks.MulticlassHinge(X, Y)


def signs():
    X = rows()
    return X, X, lambda X: pb.risks.BinaryHinge(X, np.where(Y > 0, 1, -1))


def smooth():
    X = rows()
    return X, X, lambda X: pb.risks.Logistic(X, np.where(Y > 0, 1, -1))


def structured():
    X = rows()
    return X, X, lambda X: pb.risks.Structured(pb.models.Multiclass(3, 4), X, Y)


def chains():
    X = pb.core.ragged.Ragged(rows(), np.arange(0, 31, 5))
    labels = [Y[k:k + 5] for k in range(0, 30, 5)]
    return X, X.values, lambda X: pb.risks.Structured(pb.models.Chain(3, 4), X, labels)


def landmarks():
    X = np.random.default_rng(2).standard_normal((6, 4, 3))
    points = np.random.default_rng(3).integers(0, 2, (6, 2, 2))
    model = pb.models.Landmarks((2, 2), [-1, 0], pb.features.MapFeatures(3))
    return X, X, lambda X: pb.risks.Structured(model, X, points)


def sentences():
    X = pb.core.ragged.Ragged(sp.csr_array(np.random.default_rng(4).standard_normal((20, 3))), np.arange(0, 21, 4))
    X.values.indices = X.values.indices.astype(np.int32)
    return X, X.values.data, lambda X: pb.risks.Structured(pb.models.Dependency(3), X, [np.array([-1, 0, 1])] * 5)


def in_python():
    X = rows()
    return X, X, lambda X: pb.risks.Structured(Classes(), X, Y.tolist())


def pair():
    X, model = rows(), Classes()

    def decode(w, x, y):
        y_hat = model.loss_augmented_decode(w, x, y)
        return y_hat, model.loss(y, y_hat)

    return X, X, lambda X: pb.risks.Structured((model.joint_feature, decode), X, Y.tolist())


HINGES = ("auto", "prox-bcfw", "bcfw", "mp-bcfw", "oca", "bmrm", "prox-bmrm", "frank-wolfe")
CASES = [(kind, method) for kinds, methods in (
    ((dense, signs), (*HINGES, "alm", "sgd")), ((sparse, structured, chains), ("auto", "bmrm", "oca")),
    ((landmarks, sentences, in_python, pair), ("auto", "bmrm")), ((smooth,), ("lbfgs", "bmrm")),
) for kind in kinds for method in methods]


def numbers(result):
    return result.fun, result.lower_bound, result.gap, result.x.tolist()


@pytest.mark.parametrize("kind, method", CASES)
def test_states_of_data_that_were_changed_in_place_are_refused(kind, method, tmp_path):
    """X *= .3 after a run went unseen: "bmrm" certified the old planes' bound 53.79, the minimum being 52.03."""
    X, numbers_of, make = kind()
    risk = make(X)
    arguments = {"lam": 0.2, "tol": 1e-3, "method": method, "random_state": 0, "max_iter": 15}
    first = pb.minimize(risk, **arguments)
    pb.minimize(risk, checkpoint=tmp_path / "run.npz", **arguments)
    again = pb.minimize(risk, warm_start=first, **arguments)
    assert again.certified
    numbers_of *= 0.5
    with pytest.raises(pb.ParameterError, match="changed in place"):
        pb.minimize(risk, warm_start=first, **arguments)
    with pytest.raises(pb.StateError):
        pb.minimize(risk, checkpoint=tmp_path / "run.npz", **arguments)
    changed, fresh = pb.minimize(risk, **arguments), pb.minimize(make(X), **arguments)
    assert numbers(changed) == numbers(fresh)
    assert pb.minimize(risk, warm_start=changed, **arguments).certified
    numbers_of *= 2.0
    assert pb.minimize(risk, warm_start=first, **arguments).certified          # the data are those of the first run
    with pytest.raises(pb.ParameterError, match="changed in place"):
        pb.minimize(risk, warm_start=changed, **arguments)


@pytest.mark.parametrize("kind", [dense, sparse, signs, smooth, structured, chains, landmarks, sentences, in_python])
def test_rounding_errors_are_those_of_the_data_as_they_are(kind):
    """Norms of rows were kept from before, so that after X *= 1e6 a millionth of the rounding was counted."""
    X, numbers_of, make = kind()
    risk = make(X)
    before = pb.minimize(risk, lam=0.2, tol=1e-3)
    numbers_of *= 2.0**20
    assert numbers(pb.minimize(risk, lam=1e9, tol=1e-3)) == numbers(pb.minimize(make(X), lam=1e9, tol=1e-3))
    numbers_of *= 2.0**-20
    assert numbers(pb.minimize(risk, lam=0.2, tol=1e-3)) == numbers(before)


def test_what_changed_is_checked_again():
    X = rows()
    risk = pb.risks.MulticlassHinge(X, Y)
    X[3, 1] = np.nan
    with pytest.raises(pb.ParameterError, match="X must be finite, got nan in row 3, column 1"):
        pb.minimize(risk, lam=1.0)


def test_a_path_and_an_estimator_see_the_data_of_each_run():
    X = rows()
    risk = pb.risks.MulticlassHinge(X, Y)
    path = pb.path(risk, [1.0, 0.1], tol=1e-3)
    X[:] = X[::-1].copy()
    with pytest.raises(pb.ParameterError, match="changed in place"):
        pb.minimize(risk, lam=0.1, warm_start=path[-1])
    again, fresh = pb.path(risk, [1.0, 0.1], tol=1e-3), pb.path(pb.risks.MulticlassHinge(X, Y), [1.0, 0.1], tol=1e-3)
    assert [numbers(result) for result in again] == [numbers(result) for result in fresh]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("shape", [(1,), (40,), (4072,), (100_003,), (700, 509), (700, 512), (3000, 783), (0,), (5, 0)])
def test_checksums_tell_arrays_apart(shape, dtype):
    rng = np.random.default_rng(0)
    x = (255 * rng.random(shape)).astype(dtype) if dtype is np.uint8 else rng.standard_normal(shape).astype(dtype)
    marks, others = {checksum(x)}, [x]
    if x.size > 30:
        changed = x.copy()
        changed[-1] += 1
        others += [x[::-1], np.roll(x, 1, 0), rng.permutation(x), changed]
        others += [x[:, ::-1], np.roll(x, 1, 1), x[:, rng.permutation(x.shape[1])]] if x.ndim == 2 else []
        if dtype is not np.uint8:
            others += [-x, x + x.dtype.type(1)] + [x * x.dtype.type(2.0**k) for k in (-64, -8, -1, 1, 2, 8, 9, 16, 64)]
    marks = [checksum(np.ascontiguousarray(other)) for other in others]
    assert len(set(marks)) == len(others) and checksum(x.copy()) == marks[0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_checksums_tell_powers_of_two_apart(dtype):
    """Scaled by them, all words grow alike."""
    ones = np.ones(4 * 509 * 512, dtype)
    assert len({checksum(ones * dtype(2.0**k)) for k in range(-100, 100, 4)}) == 50
