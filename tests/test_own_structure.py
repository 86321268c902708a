"""A structure of one's own, in the layout of those of the package: a folder with a model and its oracle."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import pybundle as pb

FILES = {
    "__init__.py": '''
from .model import Subsets

__all__ = ["Subsets"]
''',
    "model.py": '''
import numpy as np
import pybundle as pb
from .oracle import SubsetsOracle


class Subsets(pb.models.StructuredModel):
    """k of the rows of x (n, d), as a sorted array; <w, Psi(x, y)> is the sum of their scores."""

    def __init__(self, n_features, k):
        self.dim, self.k = n_features, k

    def joint_feature(self, x, y):
        return x[y].sum(axis=0)

    def loss(self, y, y_hat):
        return float(len(np.setdiff1d(y, y_hat)))

    def decode(self, w, x):
        return best(x @ w, self.k)

    def loss_augmented_decode(self, w, x, y):
        scores = x @ w
        scores[y] -= 1.0
        return best(scores, self.k)

    def oracle(self, X, Y):
        return SubsetsOracle(self, X, Y)


def best(scores, k):
    return np.sort(np.argsort(-scores, kind="stable")[:k])
''',
    "oracle.py": '''
import numpy as np
import pybundle as pb


class SubsetsOracle(pb.models.BatchOracle):
    """`Subsets` bound to an array X (N, n, d) and Y (N, k): all examples of a batch at once."""

    def __init__(self, model, X, Y):
        self.X, self.Y, self.k = np.asarray(X), np.asarray(Y), model.k
        self.n_examples, self.dim = len(self.Y), model.dim
        self.sizes, self.fingerprint = np.full(self.n_examples, self.X.shape[1]), hash((self.X.sum(), self.Y.sum()))

    def _decode(self, rows, weights, loss):
        scores = self.X[rows] @ weights
        truth = np.take_along_axis(scores, self.Y[rows], axis=1).sum(axis=1)
        if loss:
            np.put_along_axis(scores, self.Y[rows], np.take_along_axis(scores, self.Y[rows], axis=1) - 1.0, axis=1)
        found = np.sort(np.argsort(-scores, axis=1, kind="stable")[:, :self.k], axis=1)
        values = np.take_along_axis(scores, found, axis=1).sum(axis=1) - truth + self.k * loss
        return pb.core.protocols.Decodings(found, values, values)

    def _add_planes(self, rows, labellings, scales, slope):
        total = 0.0
        for i, y_hat, scale in zip(rows, labellings, scales, strict=True):
            slope += scale * (self.X[i][y_hat].sum(axis=0) - self.X[i][self.Y[i]].sum(axis=0))
            total += scale * len(np.setdiff1d(self.Y[i], y_hat))
        return total
''',
}


@pytest.fixture
def subsets(tmp_path, monkeypatch):
    """The model, and examples from planted weights."""
    folder = tmp_path / "subsets"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    model = importlib.import_module("subsets").Subsets(4, 3)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 8, 4))
    Y = [model.decode(np.arange(4.0), x + 0.3 * rng.normal(size=x.shape)) for x in X]
    yield model, X, Y
    for name in [name for name in sys.modules if name.partition(".")[0] == "subsets"]:
        del sys.modules[name]


@pytest.mark.parametrize("method", ["bmrm", "prox-bcfw"])
def test_a_structure_in_a_folder_of_its_own_is_checked_and_solved(subsets, method):
    model, X, Y = subsets
    report = pb.check_oracle(model, X, Y)
    assert report, str(report)
    result = pb.minimize(pb.risks.Structured(model, X, Y), lam=2.0, tol=1e-4, method=method)
    model.oracle = lambda X, Y: pb.models.StructuredModel.oracle(model, X, Y)       # the five methods, one by one
    assert pb.check_oracle(model, X, Y)
    plain = pb.minimize(pb.risks.Structured(model, X, Y), lam=2.0, tol=1e-4, method=method)
    assert result.certified and plain.certified
    assert max(result.lower_bound, plain.lower_bound) <= min(result.fun, plain.fun)
    assert result.fun == pytest.approx(plain.fun, rel=2e-4)


def test_an_oracle_without_planes_says_what_it_lacks(subsets):
    class Half(pb.models.BatchOracle):
        n_examples, dim, sizes = 1, 2, np.ones(1)

        def _decode(self, rows, weights, loss):
            return pb.core.protocols.Decodings([0], np.ones(1), np.ones(1))

    for call in (lambda: Half().planes([0], [0]), lambda: Half().plane(0, 0), lambda: Half().losses([0], [0])):
        with pytest.raises(NotImplementedError, match="Half must have _add_planes or _planes"):
            call()


def test_all_structures_have_one_layout():
    """A folder with model.py and oracle.py, and kernels beside them; it passes on its model."""
    root = Path(pb.models.__file__).parent
    models = {value for name in pb.models.__all__ if isinstance(value := getattr(pb.models, name), type)
              and issubclass(value, pb.models.StructuredModel) and value is not pb.models.StructuredModel}
    folders = [path for path in root.iterdir() if (path / "__init__.py").exists()]
    assert len(folders) == len(models)
    for folder in folders:
        name = f"pybundle.models.{folder.name}"
        passed_on = importlib.import_module(name)
        (model,) = {value for name in passed_on.__all__ if isinstance(value := getattr(passed_on, name), type)} & models
        assert model.__module__ == f"{name}.model"
        oracle = importlib.import_module(f"{name}.oracle")
        assert issubclass(getattr(oracle, f"{model.__name__}Oracle"), pb.models.BatchOracle)
    assert not list(root.glob("_*.pyx"))


@pytest.mark.parametrize("sizes", [0.001, -1.0, np.inf, np.nan])
def test_sizes_of_an_oracle_are_counts(sizes):
    """Roundings are counted by them: in another unit the certificate was wrong by a factor of 50."""
    class Model(pb.models.Chain):
        def oracle(self, X, Y):
            made = super().oracle(X, Y)
            made.sizes = sizes * np.ones(len(Y))
            return made

    with pytest.raises(pb.ParameterError, match="sizes of the oracle must be 1 whole numbers >= 0"):
        pb.risks.Structured(Model(2, 3), [np.eye(3)], [[0, 1, 0]])


def test_weights_of_examples_are_part_of_what_a_structure_of_ones_own_returns(subsets):
    """The structure writes decodings and planes alone; the base class multiplies, and checks numbers of examples."""
    model, X, Y = subsets
    c = np.arange(40.0) % 3
    plain, weighted = (pb.risks.Structured(model, X, Y, sample_weight=some).oracle() for some in (None, c))
    w, rows = np.arange(4.0), np.array([5, 3, 39])
    found, heavy = (oracle.solve_batch(rows, oracle.prepare(w)) for oracle in (plain, weighted))
    np.testing.assert_array_equal(heavy.values, c[rows] * found.values)
    (losses, slopes), (heavy_losses, heavy_slopes) = (o.planes(rows, found.labellings) for o in (plain, weighted))
    np.testing.assert_array_equal(heavy_losses, c[rows] * losses)
    np.testing.assert_array_equal(heavy_slopes.toarray(), c[rows][:, None] * slopes.toarray())
    assert weighted.solve(5, w).value == heavy.values[0] and weighted.plane(5, found.labellings[0]).offset == 2.0 * (
        plain.plane(5, found.labellings[0]).offset)
    with pytest.raises(pb.ParameterError, match=r"rows must be numbers of examples 0\.\.39, got 40"):
        model.oracle(X, Y).solve_batch([40], w)


@pytest.mark.parametrize("where", ["class", "object"])
def test_a_replaced_method_that_knows_no_weights_is_refused(subsets, where):
    """Values of an oracle whose public method was replaced came without weights: a bound of another risk."""
    model, X, Y = subsets
    make = type(model).oracle

    def patched(X, Y):
        oracle = make(model, X, Y)
        if where == "object":
            oracle.solve_batch = oracle.solve_batch
        else:
            replaced = {"solve_batch": lambda self, *given: self._decode(*given)}
            oracle.__class__ = type("Other", (type(oracle),), replaced)
        return oracle

    model.oracle = patched
    with pytest.raises(pb.ParameterError, match="sample_weight is unknown to solve_batch of"):
        pb.risks.Structured(model, X, Y, sample_weight=2.0 * np.ones(40)).oracle()
    assert pb.risks.Structured(model, X, Y).oracle() is not None
