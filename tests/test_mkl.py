"""Online multiple kernel learning: kernels, groups, rounds, predictions."""

import pickle
import warnings
from collections import deque
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from reference.online_mkl import chain_groups, online_mkl
from scipy.optimize import minimize

import pybundle as pb
from pybundle.core.ragged import Ragged
from pybundle.mkl import B1Spline, Callable, Features, Gaussian, Linear, Mean, OnlineMKL, Polynomial, Precomputed
from pybundle.mkl.settings import Rate

PLAIN = {"normalise": False}


def chains(n=40, d=6, K=4, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((K, d))
    X = [rng.standard_normal((rng.integers(1, 6), d)) for _ in range(n)]
    return X, [np.argmax(x @ W.T + 0.5 * rng.standard_normal((len(x), K)), axis=1) for x in X]


def support_rows(support, kernel):
    """The support tokens, which hold the columns of their kernel alone, with all six columns."""
    if kernel.columns is None:
        return support
    rows = np.zeros((len(support), 6))
    rows[:, kernel.columns] = support
    return rows


def flat(n=60, d=6, K=3, seed=0):
    X, Y = chains(n, d, K, seed)
    return np.array([x[0] for x in X]), np.array([y[0] for y in Y])


GROUPS = {
    "kernels": [Linear(columns=slice(0, 3), **PLAIN), Linear(columns=slice(3, 6), **PLAIN)],
    "features": [Features(slice(0, 3)), Features([3, 4, 5])],
    "mixed": [Features([0, 1, 2]), Callable(lambda X, Z: X @ Z.T, columns=[3, 4, 5], **PLAIN)],
    "low rank": [Linear(columns=slice(0, 3), low_rank=40, **PLAIN), Features(slice(3, 6))],
}


@pytest.mark.parametrize("radius", [None, 0.8])
@pytest.mark.parametrize("name", GROUPS)
def test_chain_iterates_are_those_of_explicit_features(name, radius):
    # 160 rounds; scores of new tokens, norms and weights of all groups agree to 1e-10
    X, Y = chains()
    model = pb.models.Chain(4, 6)
    learner = OnlineMKL(GROUPS[name], model=model, lam=0.02, eta0=0.5, n_epochs=4, radius=radius, random_state=3)
    learner.fit(X, Y)
    rng = np.random.default_rng(3)
    order = np.concatenate([rng.permutation(len(X)) for _ in range(4)])
    labels = chain_groups(model, [0, 0, 0, 1, 1, 1])
    theta = online_mkl(model, labels, X, Y, order, Rate("invsqrt", 0.5)(1, len(order)), 0.02, radius or np.inf)[-1]
    new = chains(seed=1)[0]
    W, transition, start, end = model.split(theta)
    for x, scores in zip(new, learner.decision_function(new), strict=True):
        np.testing.assert_allclose(scores, x @ W.T, rtol=0, atol=1e-10)
    norms = [np.linalg.norm(theta[labels == g]) for g in range(3)]
    np.testing.assert_allclose(learner.norms_, norms, atol=1e-10)
    np.testing.assert_allclose(learner.weights_, norms / np.sum(norms), atol=1e-10)
    found = learner.link_weights()
    for ours, theirs in zip(found, (transition, start, end), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)
    for x, y in zip(new, learner.predict(new), strict=True):
        np.testing.assert_array_equal(y, model.decode(theta, x))


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("batch", [1, 7])
def test_kernels_and_features_agree_in_flat_use(loss, batch):
    X, y = flat()
    found = [OnlineMKL(GROUPS[name], lam=0.01, loss=loss, eta0=0.3, n_epochs=17, batch=batch, average=True,
                       random_state=0).fit(X, y) for name in ("kernels", "features", "mixed")]
    new = flat(seed=1)[0]
    for other in found[1:]:
        np.testing.assert_allclose(other.decision_function(new), found[0].decision_function(new), atol=1e-10)
        np.testing.assert_allclose(other.history_["online"], found[0].history_["online"], atol=1e-10)


def test_steps_of_the_log_loss_follow_its_gradient():
    X, Y = chains()
    model = pb.models.Chain(4, 6)
    risk = pb.risks.Structured(model, X, Y, loss="logistic")
    labels, lam, eta, theta = chain_groups(model, [0, 0, 0, 1, 1, 1]), 0.02, 1.5, np.zeros(model.dim)
    for _ in range(3):
        theta = pb.prox.SquaredL1(lam, labels).prox(theta - eta * risk.evaluate(theta)[1][0] / len(X), eta)
    for name in ("kernels", "mixed"):
        learner = OnlineMKL(GROUPS[name], model=model, lam=lam, loss="logistic", rate="fixed", eta0=eta, n_epochs=3,
                            batch=len(X), random_state=0).fit(X, Y)
        norms = [np.linalg.norm(theta[labels == g]) for g in range(3)]
        np.testing.assert_allclose(learner.norms_, norms, atol=1e-10)
        for x, scores in zip(X, learner.decision_function(X), strict=True):
            np.testing.assert_allclose(scores, x @ model.split(theta)[0].T, atol=1e-10)


def test_learners_can_be_pickled():
    X, Y = chains()
    for average in (False, True):
        learner = OnlineMKL([GROUPS["mixed"][0], Gaussian()], model=pb.models.Chain(4, 6), eta0=1.0, random_state=0,
                            average=average).fit(X[:20], Y[:20])
        twin = pickle.loads(pickle.dumps(learner))
        for one in (learner, twin):
            one.partial_fit(X[20:], Y[20:])
        for a, b in zip(learner.decision_function(X), twin.decision_function(X), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-13)


def test_average_is_the_mean_of_all_points_through_resets_and_refolds():
    # large rates and lam: groups are reset to 0 and come back, scales are folded in
    X, Y = chains(n=30)
    model = pb.models.Chain(4, 6)
    etas = Rate("fixed", 2.0)(1, 240)
    rng = np.random.default_rng(5)
    order = np.concatenate([rng.permutation(30) for _ in range(8)])
    labels = chain_groups(model, [0, 0, 0, 1, 1, 1])
    points = online_mkl(model, labels, X, Y, order, etas, 0.4)[1:]
    zeros = np.array([[np.linalg.norm(p[labels == g]) == 0.0 for g in range(3)] for p in points])
    assert (np.diff(zeros.astype(int), axis=0) != 0).sum() > 20
    W = model.split(np.mean(points, axis=0))[0]
    for name in ("kernels", "features", "mixed"):
        learner = OnlineMKL(GROUPS[name], model=model, lam=0.4, rate="fixed", eta0=2.0, n_epochs=8, average=True,
                            random_state=5).fit(X, Y)
        for x, scores in zip(X, learner.decision_function(X), strict=True):
            np.testing.assert_allclose(scores, x @ W.T, atol=1e-12)


@pytest.mark.parametrize("average", [False, True])
def test_partial_fit_goes_on_where_fit_stands(average):
    X, Y = chains(n=60)
    model = pb.models.Chain(4, 6)
    for groups in (GROUPS["kernels"], GROUPS["features"]):
        pieces = OnlineMKL(groups, model=model, lam=0.02, eta0=0.5, average=average, random_state=1)
        rng = np.random.default_rng(1)
        order = []
        for first in range(0, 60, 20):
            pieces.partial_fit(X[first:first + 20], Y[first:first + 20])
            order.append(first + rng.permutation(20))
        labels = chain_groups(model, [0, 0, 0, 1, 1, 1])
        points = online_mkl(model, labels, X, Y, np.concatenate(order), Rate("invsqrt", 0.5)(1, 60), 0.02)[1:]
        W = model.split(np.mean(points, axis=0) if average else points[-1])[0]
        for x, scores in zip(X, pieces.decision_function(X), strict=True):
            np.testing.assert_allclose(scores, x @ W.T, atol=1e-12)


def test_sparse_and_dense_gram_matrices_agree():
    X, y = flat(n=80, d=2)
    spline = B1Spline(width=0.7)
    sparse, dense = (OnlineMKL([kernel], random_state=0).fit(X, y)
                     for kernel in (spline, Callable(lambda X, Z: spline(X, Z))))
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-12)
    data, indices, indptr = spline.gram(X)
    np.testing.assert_array_equal(sp.csr_array((data, indices, indptr), shape=(80, 80)).toarray(), spline(X))
    share = 1.0 - len(B1Spline(sparsity=0.9).fit(X).gram(X)[0]) / 6400
    assert abs(share - 0.9) < 0.01


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(3), Gaussian(2.0), B1Spline(3.0), Linear(columns=[1, 2]),
                                    Mean([Gaussian(), Polynomial()])])
def test_gram_matrices_are_kernel_values(kernel):
    X = np.random.default_rng(0).standard_normal((700, 3))        # more than one block
    expected = kernel(X)
    gram = kernel.gram(X)
    found = gram[0] if len(gram) == 1 else sp.csr_array(gram, shape=(700, 700)).toarray()
    np.testing.assert_allclose(found, expected, atol=1e-14)
    np.testing.assert_allclose(found, found.T, atol=1e-14)
    np.testing.assert_allclose(np.diagonal(found), 1.0, atol=1e-14)
    np.testing.assert_allclose(kernel(sp.csr_array(X[:9]), sp.csr_array(X)), expected[:9], atol=1e-13)


def test_precomputed_kernels_take_numbers_of_tokens():
    X, y = flat()
    numbers = np.arange(len(X))[:, None]
    learner = OnlineMKL([Precomputed(Gaussian()(X))], eta0=1.0, random_state=0).fit(numbers[:40], y[:40])
    twin = OnlineMKL([Gaussian()], eta0=1.0, random_state=0).fit(X[:40], y[:40])
    np.testing.assert_allclose(learner.decision_function(numbers), twin.decision_function(X), atol=1e-12)


def test_radius_of_the_theorem_leaves_the_solution_where_it_was():
    X, Y = chains()
    bound = OnlineMKL(GROUPS["features"], model=pb.models.Chain(4, 6), lam=0.05, eta0=3.0, radius="auto",
                      n_epochs=3, random_state=0).fit(X, Y)
    assert np.linalg.norm(bound.norms_) <= np.sqrt(5 / 0.05)


def test_negligible_support_is_dropped():
    X, y = flat(n=200)
    plain = OnlineMKL([Gaussian()], eta0=1.0, n_epochs=10, random_state=0).fit(X, y)
    short = OnlineMKL([Gaussian()], eta0=1.0, n_epochs=10, random_state=0, drop=0.2).fit(X, y)
    assert 0 < len(short.functions()[0][1]) < len(plain.functions()[0][1])


class Generic(pb.models.StructuredModel):
    """A model that hides its structure."""

    def __init__(self, model):
        self._model, self.dim = model, model.dim

    def __getattr__(self, name):
        return getattr(self.__dict__["_model"], name)

    def joint_feature(self, x, y):
        return self._model.joint_feature(x, y)

    def loss(self, y, y_hat):
        return self._model.loss(y, y_hat)

    def decode(self, w, x):
        return self._model.decode(w, x)

    def loss_augmented_decode(self, w, x, y):
        return self._model.loss_augmented_decode(w, x, y)


@pytest.mark.parametrize(("batch", "average"), [(1, False), (3, True)])
def test_weights_of_any_model_in_groups(batch, average):
    X, Y = chains()
    model = pb.models.Chain(4, 6)
    labels = chain_groups(model, [0, 0, 0, 1, 1, 1])
    options = {"lam": 0.05, "eta0": 1.0, "n_epochs": 10, "batch": batch, "average": average, "random_state": 2}
    twin = OnlineMKL(GROUPS["features"], model=model, **options).fit(X, Y)
    learner = OnlineMKL(labels, model=Generic(model), **options).fit(X, Y)
    np.testing.assert_allclose(learner.history_["online"], twin.history_["online"], atol=1e-11)
    np.testing.assert_allclose(learner.norms_, twin.norms_, atol=1e-11)
    W = model.split(learner.coef_)[0]
    for x, scores in zip(X, twin.decision_function(X), strict=True):
        np.testing.assert_allclose(scores, x @ W.T, atol=1e-11)
    assert abs(learner.score(X, Y) - twin.score(X, Y)) < 1e-12
    if not average:
        np.testing.assert_allclose(learner.objective_, twin.objective_, atol=1e-10)
        assert 0.0 < learner.lower_bound_ < twin.objective_


@pytest.mark.parametrize("average", [False, True])
def test_templates_are_groups_of_a_parser(average):
    rng = np.random.default_rng(0)
    X = [rng.integers(0, 5, (rng.integers(2, 7), 2)) for _ in range(40)]
    Y = [np.concatenate([[-1, 0], np.arange(1, len(x))]) for x in X]
    templates = ("h.word m.word", "h.pos each.pos", "h.pos m.pos direction", "m.pos distance", "h.pos set.pos m.word")
    model = pb.models.Dependency.hashed(9, ("word", "pos"), templates, blocks=True)
    assert model.dim == 5 << 9
    options = {"lam": 0.3, "rate": "fixed", "eta0": 1.0, "n_epochs": 6, "average": average, "random_state": 0}
    learner = OnlineMKL(None, model=model, **options).fit(X, Y)
    order, rng = [], np.random.default_rng(0)
    for _ in range(6):
        order.append(rng.permutation(len(X)))
    labels = np.repeat(np.arange(5), 1 << 9)
    points = online_mkl(model, labels, X, Y, np.concatenate(order), np.ones(240), 0.3)[1:]
    zeros = np.array([[not p[labels == g].any() for g in range(5)] for p in points])
    assert (np.diff(zeros.astype(int), axis=0) > 0).sum() > 5         # groups that are reset, and come back
    np.testing.assert_allclose(learner.coef_, np.mean(points, axis=0) if average else points[-1],
                               atol=1e-11)
    # a feature of each template lies in its block
    feature = model.joint_feature(X[0], Y[0])
    assert set(feature.indices >> 9) <= set(range(5))
    assert model.template_names == [templates[k] for k in (0, 2, 3, 4, 1)]


@pytest.mark.parametrize("labels", [[0, 0, 0, 1, 1, 2, 2, 2, 2], [0, 1, 2, 0, 1, 2, 0, 1, 2]])
@pytest.mark.parametrize("average, dtype", [(False, np.float64), (True, np.float64), (False, np.float32)])
def test_groups_of_features_of_arcs(labels, average, dtype):
    """Groups are scaled in the decoder, in whatever order their weights are: as the formulas say."""
    rng = np.random.default_rng(0)
    X = [sp.csr_array(sp.random(n * n, 9, 0.4, random_state=rng)).astype(dtype) for n in rng.integers(2, 7, 40)]
    for x in X[::2]:                    # columns in any order
        x.indices[:] = np.concatenate([rng.permutation(9)[:k] for k in np.diff(x.indptr)])
        x.has_sorted_indices = False
    Y = [np.concatenate([[-1, 0], np.arange(1, int(x.shape[0] ** 0.5))]) for x in X]
    model, labels = pb.models.Dependency(9), np.array(labels)
    options = {"lam": 0.3, "rate": "fixed", "eta0": 1.0, "n_epochs": 6, "average": average, "random_state": 0}
    learner = OnlineMKL(labels, model=model, **options).fit(X, Y)
    order, rng = [], np.random.default_rng(0)
    for _ in range(6):
        order.append(rng.permutation(len(X)))
    points = online_mkl(model, labels, X, Y, np.concatenate(order), np.ones(240), 0.3)[1:]
    zeros = np.array([[not p[labels == g].any() for g in range(3)] for p in points])
    assert (np.diff(zeros.astype(int), axis=0) != 0).sum() > 5        # groups that are reset, and come back
    np.testing.assert_allclose(learner.coef_, np.mean(points, axis=0) if average else points[-1],
                               atol=1e-11)
    if not average:
        assert 0.0 <= learner.lower_bound_ <= learner.objective_
        assert learner.objective_ == pytest.approx(0.15 * learner.norms_.sum() ** 2 + np.mean([
            model.loss(y, found) + (model.joint_feature(x, found) - model.joint_feature(x, y)).toarray().ravel()
            @ points[-1] for x, y in zip(X, Y, strict=True)
            for found in [model.loss_augmented_decode(points[-1], x, y)]]), rel=1e-6)


COLUMNS = np.array([7, 300, 999, 1200, 1999, 2000, 2001, 2500, 2999])


def wide_arcs(n=40):
    """Sentences whose arcs have 9 of 3000 features, the same with features 0..8, and chains of heads."""
    rng = np.random.default_rng(3)
    X = [sp.csr_array(sp.random(k * k, 9, 0.4, random_state=rng)) for k in rng.integers(2, 7, n)]
    wide = [sp.csr_array((x.data.copy(), COLUMNS[x.indices], x.indptr), shape=(x.shape[0], 3000)) for x in X]
    return wide, X, [np.concatenate([[-1, 0], np.arange(1, int(x.shape[0] ** 0.5))]) for x in X]


def wide_learner(model=None, **options):
    options = {"lam": 0.05, "eta0": 1.0, "n_epochs": 3, "random_state": 0, **options}
    return OnlineMKL(np.arange(3000) // 1000, model=model or pb.models.Dependency(3000), **options)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_features_that_never_come_change_no_bit(loss):
    wide, X, Y = wide_arcs()
    few = OnlineMKL(np.array([0, 0, 0, 1, 1, 2, 2, 2, 2]), model=pb.models.Dependency(9), lam=0.05, loss=loss, eta0=1.0,
                    n_epochs=3, random_state=0).fit(X, Y)
    many = wide_learner(loss=loss).fit(wide, Y)
    np.testing.assert_array_equal(many.coef_[COLUMNS], few.coef_)
    assert np.count_nonzero(many.coef_) == np.count_nonzero(few.coef_) > 5
    # planes have 10 entries in place of 9: sums of them round as BLAS likes, and the last master may end elsewhere
    assert (many.objective_, many.lower_bound_) == pytest.approx((few.objective_, few.lower_bound_), rel=1e-8)
    assert many.predict(wide) == few.predict(X)
    assert many.predict(wide) == [heads.tolist() for heads in few.predict(X, output="array")]
    # a round of the log-loss and the plane of an epoch are as long as theta: the weights met, and weight 0
    assert many._learner.theta.n_rows == many._learner.bind(wide[:3], Y[:3]).dim == 10
    wide[30].data[0] = np.nan
    with pytest.raises(pb.ParameterError, match=rf"nan in X\[0\]\[0\], column {wide[30].indices[0]}"):
        many.partial_fit(wide[30:], Y[30:])


@pytest.mark.parametrize("average", [False, True])
def test_features_that_come_later(average):
    """Rows of theta in the order in which features are met learn what rows in the order of the weights learn."""
    wide, _, Y = wide_arcs()
    for k, x in enumerate(wide):        # 2000 and 7 come last, in this order
        x.data[np.isin(x.indices, [[7, 2000, 2500], [7, 2000], [7], []][k // 10])] = 0.0
        x.eliminate_zeros()
        if k % 2:
            x.indices = x.indices.astype(np.int64)
    parts = [slice(k, k + 10) for k in range(0, 40, 10)]
    learner, sizes = wide_learner(average=average).fit(wide[parts[0]], Y[parts[0]]), []
    for part in parts[1:]:
        sizes.append(learner._learner.theta.n_rows)
        learner.callback = lambda _: 1 / 0
        before = learner.coef_
        with pytest.raises(ZeroDivisionError):      # after its features were met
            learner.partial_fit(wide[part], Y[part])
        assert learner._learner.theta.n_rows == sizes[-1]
        np.testing.assert_array_equal(learner.coef_, before)
        learner.callback = None
        learner = pickle.loads(pickle.dumps(learner)).partial_fit(wide[part], Y[part])
    assert [*sizes, learner._learner.theta.n_rows] == [7, 8, 9, 10]
    twin = wide_learner(Generic(pb.models.Dependency(3000)), average=average).fit(wide[parts[0]], Y[parts[0]])
    for part in parts[1:]:
        twin.partial_fit(wide[part], Y[part])
    assert twin._learner.theta.n_rows == 3000
    weights = learner.coef_
    assert (weights != 0.0)[COLUMNS].sum() == np.count_nonzero(weights) == 9
    np.testing.assert_allclose(weights, twin.coef_, atol=1e-11)
    np.testing.assert_allclose(learner.norms_, twin.norms_, atol=1e-11)


class DenseArcs(pb.models.Dependency):
    """Makes its features where it is bound to examples."""

    def oracle(self, X, Y):
        return super().oracle([sp.csr_array(x) for x in X], Y)

    def decode(self, w, x):
        return super().decode(w, sp.csr_array(x))


def test_arcs_come_in_any_sequence():
    wide, _, Y = wide_arcs()
    objects = np.empty(len(wide), object)
    objects[:] = wide
    expected = wide_learner().fit(wide, Y)
    proximal = {"eta0": 1.0, "n_epochs": 2, "random_state": 0}
    R = pb.prox.SquaredLq(1.5, rate=0.01, groups=np.arange(3000) // 1000)
    coef = pb.mkl.OnlineProximal(pb.models.Dependency(3000), R, **proximal).fit(wide, Y).coef_
    models = {"DenseArcs": DenseArcs(3000)}
    for X in (tuple(wide), Ragged.of(wide), objects, deque(wide), [x.toarray() for x in wide]):
        model = models["DenseArcs"] if isinstance(X, list) else pb.models.Dependency(3000)
        learner = wide_learner(model).fit(X, Y)
        np.testing.assert_array_equal(learner.coef_, expected.coef_)
        assert learner.score(X, Y) == expected.score(wide, Y)
        found = pb.mkl.OnlineProximal(model, R, **proximal).fit(X, Y).coef_
        np.testing.assert_array_equal(found, coef)
    # one kind after another
    for X in (objects, wide):
        expected.partial_fit(X[:5], Y[:5])
    twin = wide_learner().fit(wide, Y).partial_fit(wide[:5], Y[:5]).partial_fit(wide[:5], Y[:5])
    np.testing.assert_array_equal(expected.coef_, twin.coef_)


@pytest.mark.parametrize("column", [-1, 3000])
def test_columns_outside_are_refused_where_features_are_met(column):
    wide, _, Y = wide_arcs(5)
    learner = wide_learner().fit(wide, Y)
    x = sp.csr_array((wide[2].data, np.where(np.arange(wide[2].nnz) == 1, column, wide[2].indices), wide[2].indptr),
                     shape=wide[2].shape)
    for use in (lambda: wide_learner().fit([x], Y[2:3]), lambda: learner.partial_fit([x], Y[2:3]),
                lambda: Ragged(x, [0, x.shape[0]])):
        with pytest.raises(pb.ParameterError, match=r"column indices in 0\.\.2999"):
            use()


def test_arcs_without_features():
    learner = wide_learner().fit([sp.csr_array((4, 3000))] * 3, [np.array([-1, 0, 1])] * 3)
    assert not learner.coef_.any() and learner.gap_ < 1e-12
    wide, _, Y = wide_arcs()
    assert learner.partial_fit(wide, Y).norms_.all()


def test_certified_weights_of_arcs_are_those_of_the_user():
    wide, _, Y = wide_arcs()
    certified = wide_learner(solver="certified", tol=1e-6).fit(wide, Y)
    assert certified.gap_ <= 1e-6
    value = pb.risks.Structured(certified.model, wide, Y).values(certified.coef_)[0].sum() / len(wide)
    assert certified.objective_ == pytest.approx(value + 0.025 * certified.norms_.sum() ** 2, rel=1e-6)


def test_scales_of_labelled_groups_are_folded_in_together():
    """A fixed rate and a large lam shrink scales until they are folded into the vectors, all groups at once."""
    X, y = flat(n=120)
    model, labels = pb.models.Multiclass(3, 6), np.arange(18) % 3
    learner = OnlineMKL(labels, model=model, lam=0.3, rate="fixed", eta0=1.0, n_epochs=3, average=True, random_state=0)
    learner.fit(X, y)
    rng = np.random.default_rng(0)
    order = np.concatenate([rng.permutation(120) for _ in range(3)])
    points = online_mkl(model, labels, X, y, order, np.ones(360), 0.3)[1:]
    np.testing.assert_allclose(learner.coef_, np.mean(points, axis=0), atol=1e-11)


def test_groups_of_weights_must_be_a_partition():
    X, Y = chains(n=5)
    model = Generic(pb.models.Chain(4, 6))
    with pytest.raises(pb.InputTypeError, match="kernels and Features"):
        OnlineMKL([Gaussian()], model=model).fit(X, Y)
    for groups, words in (([slice(0, 5), slice(3, model.dim)], "overlap"), ([slice(0, 5)], "feature"),
                          (None, "model without blocks")):
        with pytest.raises(pb.ParameterError, match=words):
            OnlineMKL(groups, model=model).fit(X, Y)


def test_threads_change_no_bit():
    X, y = flat(n=300)
    one, two = (OnlineMKL([Gaussian(), B1Spline()], random_state=0, n_jobs=n, n_epochs=2).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


def slsqp_optimum(features, y, lam):
    """min lam/2 sum_k |W_k|^2 / nu_k + mean hinge, as one smooth program over W, nu and slacks."""
    n, K = len(y), y.max() + 1
    sizes = [X.shape[1] * K for X in features]
    edges = np.cumsum([0, *sizes])
    p = len(features)

    def split(z):
        W = [z[a:b].reshape(K, -1) for a, b in pairwise(edges)]
        return W, z[edges[-1]:edges[-1] + p], z[edges[-1] + p:]

    def value(z):
        W, nu, slack = split(z)
        return 0.5 * lam * sum((w**2).sum() / b for w, b in zip(W, nu, strict=True)) + slack.mean()

    def margins(z):
        W, _, slack = split(z)
        scores = sum(X @ w.T for X, w in zip(features, W, strict=True))
        violation = scores - scores[np.arange(n), y][:, None] + (np.arange(K) != y[:, None])
        return (slack[:, None] - violation).ravel()

    start = np.concatenate([np.zeros(edges[-1]), np.full(p, 1.0 / p), np.ones(n)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Values in x were outside bounds", RuntimeWarning)    # of older SciPy
        found = minimize(value, start, method="SLSQP", options={"maxiter": 1000, "ftol": 1e-12},
                         bounds=[(None, None)] * edges[-1] + [(1e-9, 1.0)] * p + [(0.0, None)] * n,
                         constraints=[{"type": "ineq", "fun": margins},
                                      {"type": "eq", "fun": lambda z: split(z)[1].sum() - 1.0}])
    assert found.success, found.message
    return found.fun, split(found.x)[1]


@pytest.mark.parametrize("lam", [0.5, 0.05])
def test_certified_optimum_is_that_of_an_independent_solver(lam):
    X, y = flat(n=12, d=3)
    features = [X[:, :1], X[:, 1:], np.stack([X[:, 0] ** 2, np.sqrt(2.0) * X[:, 0] * X[:, 1], X[:, 1] ** 2], axis=1)]
    groups = [Features([0]), Linear(columns=[1, 2], **PLAIN), Polynomial(2, 0.0, columns=[0, 1], **PLAIN)]
    learner = OnlineMKL(groups, lam=lam, solver="certified", tol=1e-5, random_state=0).fit(X, y)
    value, nu = slsqp_optimum(features, y, lam)
    assert learner.lower_bound_ <= value * (1.0 + 1e-7)
    assert learner.objective_ >= value * (1.0 - 1e-7)
    assert learner.gap_ <= 1e-5
    np.testing.assert_allclose(learner.weights_, nu, atol=5e-3)


@pytest.mark.parametrize("name", ["kernels", "features", "mixed"])
def test_value_and_bound_enclose_the_optimum(name):
    X, Y = chains(n=25)
    model, options = pb.models.Chain(4, 6), {"lam": 0.05, "random_state": 0}
    best = OnlineMKL(GROUPS[name], model=model, solver="certified", tol=1e-4, **options).fit(X, Y)
    online = OnlineMKL(GROUPS[name], model=model, eta0=1.0, **options).fit(X, Y)
    assert best.gap_ <= 1e-4
    assert online.lower_bound_ <= best.objective_
    assert best.lower_bound_ <= online.objective_
    assert 0.0 < online.gap_ < 0.3
    # the value is what predictions and norms say
    transition, start, end = best.link_weights()
    hinge = 0.0
    for scores, y in zip(best.decision_function(X), Y, strict=True):
        costs = scores + (np.arange(4) != y[:, None])
        truth = scores[np.arange(len(y)), y].sum() + transition[y[:-1], y[1:]].sum() + start[y[0]] + end[y[-1]]
        hinge += (pb.oracles.viterbi(costs, transition, start, end)[1] - truth) / len(X)
    assert abs(0.025 * best.norms_.sum() ** 2 + hinge - best.objective_) < 1e-9
    assert (np.diff(best.history_["lower_bound"]) >= 0.0).all()


def test_nothing_is_certified_without_an_objective():
    X, y = flat()
    assert np.isnan(OnlineMKL([B1Spline()], random_state=0).fit(X, y).gap_)
    assert OnlineMKL([B1Spline(columns=[0])], random_state=0).fit(X, y).gap_ < 1.0
    with pytest.raises(pb.ParameterError, match="semidefinite"):
        OnlineMKL([Mean([Linear(), B1Spline(2.0)])], solver="certified").fit(X, y)


def test_normalised_features_are_the_normalised_linear_kernel():
    X, y = flat()
    X[7] = 0.0
    options = {"eta0": 1.0, "lam": 1e-2, "random_state": 0}
    kernel = OnlineMKL([Linear()], **options).fit(X, y)
    for data in (X, sp.csr_array(X)):
        features = OnlineMKL([Features(normalise=True)], **options).fit(data, y)
        np.testing.assert_allclose(features.decision_function(data), kernel.decision_function(X), atol=1e-10)


def test_unfinished_certified_runs_warn():
    X, Y = chains()
    with pytest.warns(pb.ConvergenceWarning, match="max_iter"):
        OnlineMKL(GROUPS["mixed"], model=pb.models.Chain(4, 6), lam=1e-3, solver="certified", max_iter=2).fit(X, Y)


BAD = np.array([[1.0, 2.0], [2.0, 1.0]])


def test_a_pair_beyond_its_diagonal_is_seen_in_a_large_matrix():
    for i in range(0, 40, 2):           # most of them are not among the rows whose eigenvalues are looked at
        matrix = np.eye(1500)
        matrix[i, i + 1] = matrix[i + 1, i] = 1.01
        with pytest.raises(pb.ParameterError, match="positive semidefinite"):
            Precomputed(matrix)


@pytest.mark.parametrize(("make", "words"), [
    (lambda: Precomputed(BAD), "positive semidefinite"),
    (lambda: Precomputed([[1.0, 0.2], [0.1, 1.0]]), "symmetric"),
    (lambda: Precomputed([[1.0, np.nan], [np.nan, 1.0]]), "NaN"),
    (lambda: Precomputed(np.ones((2, 3))), "square"),
    (lambda: Gaussian(0.0), "sigma"),
    (lambda: Polynomial(offset=-1.0), "offset"),
    (lambda: B1Spline(sparsity=1.5), "sparsity"),
])
def test_kernels_refuse(make, words):
    with pytest.raises(pb.ParameterError, match=words):
        make()


@pytest.mark.parametrize(("options", "words"), [
    ({"eta0": -1.0}, "eta0"), ({"eta0": np.nan}, "eta0"), ({"eta0": "fast"}, "eta0"), ({"rate": "slow"}, "rate"),
    ({"rate": "strong"}, "sigma"), ({"lam": 0.0}, "lam"), ({"loss": "square"}, "loss"), ({"radius": -1.0}, "radius"),
    ({"groups": []}, "groups"), ({"groups": [Gaussian]}, "class Gaussian itself"), ({"groups": [3]}, "groups"),
    ({"groups": [Callable(lambda X, Z: X @ Z.T + np.arange(len(Z)), normalise=False)]}, "symmetric"),
    ({"groups": [Callable(lambda X, Z: -X @ Z.T, normalise=False)]}, "semidefinite"),
    ({"groups": [Callable(lambda X, Z: X @ Z.T * np.nan, normalise=False)]}, "NaN"),
    ({"groups": [Callable(lambda X, Z: np.ones(3), normalise=False)]}, "shape"),
    ({"groups": [Linear(columns=[77])]}, "columns"), ({"solver": "exact"}, "solver"),
    ({"random_state": "a"}, "random_state"),
    ({"regulariser": pb.prox.L1([1.0, 2.0])}, "rate"), ({"groups": [Linear()], "eta0": 1e200}, "eta0"),
    ({"tol": 0.0}, "tol"),
    ({"regulariser": "l1"}, "regulariser"),
])
def test_bad_parameters_leave_the_learner_as_it_was(options, words):
    X, y = flat()
    learner = OnlineMKL([Gaussian()], eta0=1.0, random_state=0).fit(X, y)
    before = learner.decision_function(X)
    for name, value in options.items():
        setattr(learner, name, value)
    with pytest.raises(pb.BundleError, match=words):
        learner.fit(X, y)
    np.testing.assert_array_equal(learner.decision_function(X), before)


def test_unknown_classes_and_bad_data_leave_the_learner_as_it_was():
    X, y = flat()
    learner = OnlineMKL([Gaussian()], eta0=1.0, random_state=0).fit(X, y)
    before = learner.decision_function(X)
    for bad_X, bad_y, words in ((X, y + 5, "known classes"), (X[:, :2], y, "columns"), (X * np.nan, y, "finite"),
                                (X, y[:5], "one class for each"), (X[:0], y[:0], "at least one")):
        with pytest.raises(pb.ParameterError, match=words):
            learner.partial_fit(bad_X, bad_y)
        np.testing.assert_array_equal(learner.decision_function(X), before)
    with pytest.raises(pb.StateError, match="fit"):
        OnlineMKL([Gaussian()]).predict(X)


@pytest.mark.parametrize("group", [Gaussian(2.0), Polynomial(2, low_rank=8), Features(slice(0, 4)),
                                   Linear(columns=[1])])
def test_scores_are_those_of_the_functions_told(group):
    X, y = flat()
    learner = OnlineMKL([group, Linear()], eta0=1.0, random_state=0).fit(X, y)
    scores = 0.0
    for kernel, support, coefs in learner.functions():
        scores = scores + (X[:, kernel.columns] @ coefs if support is None else kernel(X, support_rows(support, kernel))
                           @ coefs)
    np.testing.assert_allclose(scores, learner.decision_function(X), atol=1e-9)


def test_functions_belong_to_kernels():
    images = pb.datasets.contrast_images(3, shape=(3, 3))
    model = pb.models.BinaryLabeling(images.X[0].nodes.shape[1], images.X[0].edge_features.shape[1])
    learner = OnlineMKL(model.nonneg.astype(int), model=model, lam=0.1, solver="certified", tol=0.1)
    with pytest.raises(pb.StateError, match="fit"):
        learner.functions()
    with pytest.raises(pb.ParameterError, match="functions are learnt for kernels and Features"):
        learner.fit(images.X, images.y).functions()


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_a_callback_that_teaches_other_features_is_told_so(loss):
    rng = np.random.default_rng(0)

    def sentences(columns):
        return [sp.csr_array((rng.random(16), columns[rng.integers(len(columns), size=16)], np.arange(17)),
                             shape=(16, 60)) for _ in range(5)], [np.array([-1, 0, 1, 2, 3])] * 5

    others = [sentences(np.arange(60))]

    def teach(learner):
        if others:
            learner.partial_fit(*others.pop())
    learner = OnlineMKL(np.arange(60) % 3, model=pb.models.Dependency(60), lam=0.1, loss=loss, eta0=1.0, n_epochs=3,
                        random_state=0, callback=teach)
    with pytest.raises(pb.StateError, match="callback"):
        learner.fit(*sentences(np.arange(10)))
    assert not hasattr(learner, "weights_")


def test_each_sentence_needs_a_labelling():
    """One for all of them was read again and again, beyond its end."""
    X, learner = [np.full((2, 2), k) for k in range(400)], pb.mkl.OnlineMKL(
        [pb.mkl.Features([0, 1])], model=pb.models.Chain(2, 2), solver="online", n_epochs=1, eta0=1.0, certify=False)
    with pytest.raises(pb.ParameterError, match="Y must have 400 labellings, one for each example of X, got 1"):
        learner.fit(X, [np.array([0, 1])])


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("solver", ["online", "certified"])
def test_labels_that_a_chain_forbids_are_never_found(loss, solver):
    pairs = np.ones((4, 4), dtype=bool)
    pairs[0, 3] = pairs[2] = False
    pairs[2, 2] = True
    model = pb.models.Chain(4, 6, allowed=(pairs, np.array([True, True, True, False]), None))
    X, Y = chains()
    w = np.concatenate([np.random.default_rng(5).standard_normal(24), np.zeros(model.dim - 24)])
    Y = [model.decode(w, x) for x in X]
    learner = OnlineMKL(GROUPS["features"], model=model, lam=0.02, loss=loss, eta0=0.5, n_epochs=15, random_state=0,
                        solver=solver, tol=1e-3).fit(X, Y)
    free = OnlineMKL(GROUPS["features"], model=pb.models.Chain(4, 6), lam=0.02, loss=loss, eta0=0.5, n_epochs=15,
                     random_state=0, solver=solver, tol=1e-3).fit(X, Y)
    new = chains(seed=1)[0]
    for y in learner.predict(new):
        assert y[0] != 3 and pairs[y[:-1], y[1:]].all()
    assert any(y[0] == 3 or not pairs[y[:-1], y[1:]].all() for y in free.predict(new))
    assert (learner.link_weights()[0][~pairs] == 0.0).all() and learner.lower_bound_ <= free.objective_
    # the value in exact features: those of both groups, and of pairs with first and last labels
    theta = np.zeros(model.dim)
    W, transition, start, end = model.split(theta)
    W[:] = np.array(learner.decision_function(np.eye(6)[:, None])).reshape(6, 4).T
    for part, weights in zip((transition, start, end), learner.link_weights(), strict=True):
        part[:] = weights
    labels = chain_groups(model, [0, 0, 0, 1, 1, 1])
    risk = pb.risks.Structured(model, X, Y, loss=loss)
    value = risk.evaluate(theta)[0].sum() / len(X) + pb.prox.SquaredL1(0.02, labels).value(theta)
    assert learner.objective_ == pytest.approx(value, rel=1e-8) and learner.lower_bound_ <= value
