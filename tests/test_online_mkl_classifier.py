"""The kernel classifier: scikit-learn's checks, the problem that is documented, pieces, files."""

import json
import pickle
import warnings
from itertools import count

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import pybundle as pb
from pybundle import mkl
from pybundle.core.archive import digest
from pybundle.estimators.kernels import KINDS, described, listed, made
from pybundle.estimators.saving import COVERED
from pybundle.mkl.certified import POINTS
from pybundle.mkl.descent import _Descent

FEW = [mkl.Linear(), mkl.Gaussian(2.0)]


def xor(n=90, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.array(["b", "a"])[(X[:, 0] * X[:, 1] > 0).astype(int)]


def three(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.standard_normal((n, 4)) + np.eye(4)[y], np.array([3, 7, 9])[y]


@parametrize_with_checks([pb.OnlineMKLClassifier(kernels=FEW, solver="online", n_epochs=10),
                          pb.OnlineMKLClassifier(kernels=FEW),
                          pb.OnlineMKLClassifier(kernels=FEW, solver="certified", tol=1e-2)])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.parametrize("data", [xor, three])
def test_certified_is_the_problem_that_is_documented(data):
    X, y = data()
    svm = pb.OnlineMKLClassifier(C=2.0, kernels=FEW, solver="certified", tol=1e-4).fit(X, y)
    assert svm.lower_bound_ <= svm.objective_ and svm.gap_ <= 1e-4 and svm.certified_ and svm.converged_
    scores, squares = 0.0, []
    for kernel, support, coefs in zip(svm.kernels_, svm.support_vectors_, svm.dual_coef_, strict=True):
        scores = scores + kernel(X, support) @ coefs
        squares.append((coefs * (kernel(support) @ coefs)).sum())
    rows, codes = np.arange(len(y)), np.searchsorted(svm.classes_, y)
    losses = ((np.arange(len(svm.classes_)) != codes[:, None]) + scores - scores[rows, codes][:, None]).max(axis=1)
    assert svm.objective_ == pytest.approx(np.sqrt(squares).sum()**2 / 4.0 + losses.sum(), rel=1e-6)
    np.testing.assert_allclose(svm.norms_, np.sqrt(squares), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(svm.kernel_weights_, svm.norms_ / svm.norms_.sum())
    expected = scores if len(svm.classes_) > 2 else scores[:, 1] - scores[:, 0]
    np.testing.assert_allclose(svm.decision_function(X), expected, atol=1e-9)
    online = pb.OnlineMKLClassifier(C=2.0, kernels=FEW, solver="online", n_epochs=40).fit(X, y)
    assert online.solver_ == "online"
    assert online.objective_ >= svm.lower_bound_ and online.lower_bound_ <= svm.objective_


def test_learns_what_a_linear_classifier_cannot():
    X, y = xor(200)
    svm = pb.OnlineMKLClassifier(kernels=[mkl.Linear(), mkl.Polynomial(2, offset=0.0)]).fit(X[:120], y[:120])
    assert svm.score(X[120:], y[120:]) > 0.85 and svm.kernel_weights_.argmax() == 1
    assert pb.OnlineMKLClassifier(n_epochs=5).fit(X[:120], y[:120]).score(X[120:], y[120:]) > 0.75


def test_probabilities_belong_to_the_log_loss():
    X, y = three()
    model = pb.OnlineMKLClassifier(loss="logistic", kernels=FEW).fit(X, y)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))
    assert model.certified_ and 0.0 <= model.gap_ < 1.0
    assert not hasattr(pb.OnlineMKLClassifier(), "predict_proba")
    assert not hasattr(pb.OnlineMKLClassifier(solver="certified"), "partial_fit")


def test_pieces_are_those_of_the_learner():
    X, y = three()
    svm = pb.OnlineMKLClassifier(kernels=FEW, eta0=1.0, random_state=3)
    learner = mkl.OnlineMKL(FEW, lam=1.0 / 20, eta0=1.0, random_state=3)
    for rows in (slice(0, 20), slice(20, 60)):
        svm.partial_fit(X[rows], y[rows], classes=[3, 7, 9])
        learner.partial_fit(X[rows], y[rows], classes=[3, 7, 9])
    np.testing.assert_allclose(svm.decision_function(X), learner.decision_function(X), atol=1e-12)
    assert svm.n_iter_ == 2 and len(svm.history_["weights"]) == 2
    assert svm.set_params(solver="online").fit(X, y).n_iter_ == 20      # from scratch


@pytest.mark.parametrize("kernels", [
    None, [mkl.Features([0, 1]), mkl.Linear(columns=[2, 3])], [mkl.Gaussian(1.0, low_rank=8), mkl.B1Spline()],
    [mkl.Mean([mkl.Linear(), mkl.Gaussian(columns=slice(0, 2))], columns=slice(1, None)), mkl.Features(normalise=True)],
], ids=["default", "columns", "low rank", "mean"])  # fmt: skip
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_predictions_are_those_of_the_learner_and_of_the_file(kernels, form, tmp_path):
    X, y = three()
    X = form(X)
    svm = pb.OnlineMKLClassifier(kernels=kernels, solver="online", n_epochs=3, n_jobs=2).fit(X, y)
    expected = svm.decision_function(X)
    np.testing.assert_allclose(expected, svm._mkl.decision_function(X), atol=1e-10)
    svm.save(tmp_path / "svm.npz")
    again = pb.load(tmp_path / "svm.npz")
    np.testing.assert_array_equal(again.decision_function(X), expected)
    assert [type(kernel) for kernel in again.kernels_] == [type(kernel) for kernel in svm.kernels_]
    assert again.gap_ == svm.gap_ or np.isnan(svm.gap_)
    with pytest.raises(pb.StateError, match="comes from a file"):
        again.partial_fit(X, y)
    assert again.fit(X, y).partial_fit(X, y).n_iter_ == 4
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(svm)).decision_function(X), expected)


def test_every_kernel_survives_a_file():
    kernels = [mkl.B1Spline(2.0), mkl.Features(slice(1, 3)), mkl.Gaussian(3.0, columns=[1]), mkl.Linear(False),
               mkl.Mean([mkl.Linear(), mkl.Polynomial(3, 0.5)]), mkl.Polynomial(2),
               mkl.Precomputed(np.eye(4), column=2)]
    assert {type(kernel) for kernel in kernels} == set(KINDS.values())
    Z = np.abs(np.random.default_rng(0).standard_normal((4, 3)))
    Z[:, 2] = np.arange(4)
    for kernel in kernels:
        twin = made(described(kernel))
        assert described(twin).keys() == described(kernel).keys()
        if isinstance(kernel, mkl.Kernel):
            np.testing.assert_array_equal(twin(Z), kernel(Z))
    assert len(listed({"0": "Linear", "0.normalise": True, "0.columns": None, "0.low_rank": None})) == 1


def test_code_is_not_saved(tmp_path):
    X, y = three()
    svm = pb.OnlineMKLClassifier(kernels=[lambda X, Z: X @ Z.T], n_epochs=2).fit(X, y)
    with pytest.raises(pb.StateError, match="a kernel that is code cannot be saved"):
        svm.save(tmp_path / "svm.npz")


@pytest.mark.parametrize("name, change, match", [
    ("0.coef", lambda a: a[:-1], "must be"), ("0.coef", lambda a: a * np.nan, "must be"),
    ("0.support", lambda a: a[:, :1], "do not fit"), ("0.support", None, "must be"),
    ("7.coef", lambda a: np.ones(3), "no kernel"),
])  # fmt: skip
def test_files_that_do_not_fit_are_refused(name, change, match, tmp_path):
    svm = pb.OnlineMKLClassifier(kernels=FEW, n_epochs=2).fit(*three())
    svm.save(tmp_path / "svm.npz")
    with np.load(tmp_path / "svm.npz") as file:
        content = {key: file[key] for key in file.files}
    old = content.pop(f"dual_coef_/{name}", None)
    if change is not None:
        content[f"dual_coef_/{name}"] = change(old)
    header = json.loads(str(content.pop("header"))) | {"arrays": sorted(content)}
    header["digest"] = digest({key: header[key] for key in COVERED}, content)
    np.savez(tmp_path / "other.npz", header=np.array(json.dumps(header)), **content)
    with pytest.raises(pb.StateError, match=match):
        pb.load(tmp_path / "other.npz")


def test_inside_scikit_learn():
    X, y = xor(60)
    search = GridSearchCV(make_pipeline(StandardScaler(), pb.OnlineMKLClassifier(kernels=FEW, n_epochs=3)),
                          {"onlinemklclassifier__C": [0.1, 10.0]}, cv=2).fit(X, y)
    assert search.best_estimator_[-1].kernel_weights_.shape == (2,)


def test_the_default_is_certified_if_what_it_holds_fits(monkeypatch):
    X, y = three()
    svm = pb.OnlineMKLClassifier(kernels=FEW).fit(X, y)
    assert svm.solver_ == "certified" and svm.converged_
    twin = pb.OnlineMKLClassifier(kernels=FEW, solver="certified").fit(X, y)
    np.testing.assert_array_equal(svm.decision_function(X), twin.decision_function(X))
    assert pb.OnlineMKLClassifier(kernels=[mkl.B1Spline()], n_epochs=1).fit(X, y).solver_ == "online"
    assert pb.OnlineMKLClassifier(kernels=FEW, n_epochs=1).partial_fit(X, y).solver_ == "online"
    seen = []
    watched = pb.OnlineMKLClassifier(kernels=FEW, n_epochs=2, callback=seen.append).fit(X, y)
    assert watched.solver_ == "online" and len(seen) == 2
    # two Gram matrices of 60 rows, and points of two kernels, 60 rows, 3 classes
    grams, points = 2 * 60**2, POINTS["hinge"] * 2 * 2 * 60 * 3
    for limit, precision, solver in ((8 * (grams + points), "float64", "certified"),
                                     (8 * (grams + points) - 1, "float64", "online"),
                                     (8 * (grams + points) - 1, "float32", "certified")):
        monkeypatch.setattr("pybundle.mkl.tokens.LARGEST", limit)
        assert pb.OnlineMKLClassifier(kernels=FEW, precision=precision, n_epochs=1).fit(X, y).solver_ == solver
    features = [mkl.Features(), mkl.Gaussian(1.0, low_rank=8)]          # no Gram matrices
    assert pb.OnlineMKLClassifier(kernels=features).fit(X, y).solver_ == "certified"


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("kernels", [FEW, [mkl.Features(), mkl.Gaussian(1.0, low_rank=8)]])
def test_rounds_go_on_from_a_certified_point(kernels, loss, monkeypatch):
    """An epoch over the same examples stays near the minimum; a learner that forgot it would not."""
    X, y = three(90)
    svm = pb.OnlineMKLClassifier(kernels=kernels, loss=loss).fit(X, y)
    assert svm.solver_ == "certified"
    scores, kept = svm.decision_function(X), pickle.loads(pickle.dumps(svm))
    svm.partial_fit(X, y)
    assert svm.solver_ == "online" and not svm.certified_ and svm.eta0_ > 0.0 and svm.n_iter_ == 1
    moved, size = svm.decision_function(X), np.abs(scores).max()
    assert 0.0 < np.abs(moved - scores).max() < 0.5 * size
    np.testing.assert_array_equal(kept.partial_fit(X, y).decision_function(X), moved)
    # what fails leaves the certified point
    svm.fit(X, y)
    with pytest.raises(ValueError, match="known classes"):
        svm.partial_fit(X, y + 1)
    np.testing.assert_array_equal(svm.decision_function(X), scores)
    assert svm.solver_ == "certified" and svm.certified_
    # and so does Ctrl-C while the step is chosen, but its certificate is not of the new data
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("pybundle.mkl.online_learner.best_rate", stopped_after_a_trial)
        svm.partial_fit(X[:30], y[:30])
    np.testing.assert_array_equal(svm.decision_function(X), scores)
    assert not svm.certified_ and np.isnan(svm.objective_)
    assert svm.partial_fit(X, y).n_iter_ == 1


def stopped_after_a_trial(trial):
    trial(1.0)
    raise KeyboardInterrupt


def interrupted(function, n_calls):
    """The function, with Ctrl-C in its call n_calls + 1."""
    def call(*arguments):
        if next(numbers) == n_calls:
            raise KeyboardInterrupt
        return function(*arguments)

    numbers = count()
    return call


def test_interrupts_and_limits(monkeypatch):
    X, y = three()

    def interrupt(learner):
        if learner.n_rounds_ > 100:
            raise KeyboardInterrupt

    svm = pb.OnlineMKLClassifier(kernels=FEW, callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        svm.fit(X, y)
    assert svm.score(X, y) > 0.5
    # a certified run hands its best point over, too
    svm = pb.OnlineMKLClassifier(kernels=FEW, solver="certified", loss="logistic", tol=1e-12)
    monkeypatch.setattr("pybundle.mkl.descent._Descent.iterate", interrupted(_Descent.iterate, 5))
    with pytest.raises(KeyboardInterrupt):
        svm.fit(X, y)
    assert svm.score(X, y) > 0.5 and svm.certified_ and not svm.converged_
    assert 0.0 < svm.lower_bound_ <= svm.objective_ < len(y) * np.log(3.0)
    svm = pb.OnlineMKLClassifier(kernels=FEW)           # a callback makes it online
    limit = pb.callbacks.TimeLimit(0.0)
    assert clone(svm).set_params(callback=limit).fit(X, y).n_iter_ == 1 and limit.deadline is None


@pytest.mark.parametrize("parameters, error, match", [
    ({"C": 0.0}, ValueError, "C must be"), ({"kernels": []}, TypeError, "kernels must be a list"),
    ({"kernels": [3]}, TypeError, "must be a kernel"), ({"loss": "log"}, ValueError, "loss must be"),
    ({"solver": "best"}, ValueError, "solver must be"), ({"callback": 3}, TypeError, "callback must be"),
    ({"n_epochs": 0}, ValueError, "n_epochs must be"),
])  # fmt: skip
def test_wrong_parameters_are_named_and_leave_the_model(parameters, error, match):
    X, y = three()
    svm = pb.OnlineMKLClassifier(kernels=FEW, n_epochs=2).fit(X, y)
    before = svm.predict(X)
    with pytest.raises(error, match=match):
        svm.set_params(**parameters).fit(X[:, :2], y)
    np.testing.assert_array_equal(svm.predict(X), before)


def test_columns_of_other_sizes_are_named():
    """As for other estimators: a column of seconds since 1970 hides the others."""
    X, y = three()
    X[:, 2] = 1.7e9 + 1e6 * X[:, 2]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = pb.OnlineMKLClassifier(kernels=[mkl.Linear()], C=1e3, max_iter=3, solver="certified").fit(X, y)
    words = [str(warning.message) for warning in caught]
    assert not model.converged_ and sum("have means" in text and "scale them (StandardScaler" in text
                                        for text in words) == 1
