"""`MetricSVM`: scikit-learn's checks, scores and thresholds, searches, refusals."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import fbeta_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import pybundle as pb
from pybundle.callbacks import EarlyStopping
from pybundle.core.exceptions import InputTypeError, ParameterError

METRICS = ("f1", "fbeta", "precision_at_k", "roc_auc")


def data(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    return X, np.where(X[:, 0] - 0.5 * X[:, 1] + 0.2 * rng.standard_normal(n) > 1.2, "yes", "no")


@parametrize_with_checks([pb.MetricSVM(tol=1e-9), pb.MetricSVM(metric="roc_auc", tol=1e-9),
                          pb.MetricSVM(metric="precision_at_k", tol=1e-9)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("metric", METRICS)
def test_scores_are_those_of_scikit_learn(metric):
    X, y = data()
    X_test, y_test = data(200, 1)
    model = pb.MetricSVM(metric=metric, beta=2.0, k=20).fit(X, y)
    assert model.converged_ and model.certified_ and model.classes_.tolist() == ["no", "yes"]
    found, true = model.decision_function(X_test), y_test == "yes"
    assert (model.predict(X_test) == np.where(found > 0.0, "yes", "no")).all()
    expected = {"roc_auc": roc_auc_score(true, found), "precision_at_k": true[np.argsort(-found)[:20]].mean(),
                "f1": fbeta_score(true, found > 0.0, beta=1.0), "fbeta": fbeta_score(true, found > 0.0, beta=2.0)}
    assert np.isclose(model.score(X_test, y_test), expected[metric]) and expected[metric] > 0.7
    assert model.score(X_test, y_test, np.full(200, 2.0)) == model.score(X_test, y_test)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.uint8, sp.csr_array])
def test_predict_finds_as_many_rows_as_the_metric_looks_at(kind):
    X, y = data()
    X = (X * 20.0 + 100.0).clip(0, 255).astype(np.uint8).astype(kind) if kind is not sp.csr_array else kind(20.0 * X)
    for k in (1, 30, 399):
        model = pb.MetricSVM(1e-3, metric="precision_at_k", k=k, tol=0.1).fit(X, y)
        n_ties = len(y) - len(np.unique(model.decision_function(X)))
        assert k - n_ties <= (model.predict(X) == "yes").sum() <= k
    for metric in ("precision_at_k", "roc_auc"):
        model = pb.MetricSVM(1e-3, metric=metric, tol=0.1).fit(X, y)
        assert abs((model.predict(X) == "yes").sum() - (y == "yes").sum()) <= 2


def test_the_estimator_minimises_its_risk():
    X, y = data()
    positive = y == "yes"
    for metric, risk in (("f1", pb.risks.FScore(X, positive, bias=3.0)), ("roc_auc", pb.risks.ROCArea(X, positive)),
                         ("precision_at_k", pb.risks.PrecisionAtK(X, positive, int(positive.sum())))):
        model = pb.MetricSVM(0.1, metric=metric, intercept_scaling=3.0, tol=1e-8).fit(X, y)
        result = pb.minimize(risk, lam=10.0, tol=1e-8)
        assert model.objective_ == result.fun and np.allclose(model.coef_[0], result.x[:4])
        assert metric != "f1" or np.isclose(model.intercept_[0], 3.0 * result.x[4])
    again = model.set_params(warm_start=True).fit(X, y).fit(X, y)
    assert again.n_passes_ <= 3.0 and again.intercept_.shape == (1,)
    stopped = pb.MetricSVM(metric="roc_auc", callback=EarlyStopping(validation_fraction=0.3)).fit(X, y)
    assert stopped.score(X, y) > 0.9


def test_pickles_made_during_a_fit_hold_no_data():
    X, y = data()
    sizes = []

    def callback(progress):
        sizes.append(len(pickle.dumps(progress.estimator.set_params(callback=None))))

    pb.MetricSVM(metric="roc_auc", max_iter=3, tol=0.1, callback=callback).fit(X, y)
    assert sizes and max(sizes) < X.nbytes / 2


def test_searches_score_by_the_metric():
    X, y = data()
    search = GridSearchCV(make_pipeline(StandardScaler(), pb.MetricSVM(metric="roc_auc")),
                          {"metricsvm__C": [0.01, 1.0], "metricsvm__metric": ["roc_auc", "precision_at_k"]}, cv=3)
    assert search.fit(X, y).best_score_ > 0.9
    assert np.mean(cross_val_score(pb.MetricSVM(metric="f1"), X, y, cv=3)) > 0.7


@pytest.mark.parametrize(("options", "y", "kind", "words"), [
    ({"metric": "accuracy"}, None, ParameterError, "metric must be one of 'f1', 'fbeta', 'precision_at_k', 'roc_auc'"),
    ({"metric": "precision_at_k", "k": 0}, None, ParameterError, "k must be an integer >= 1"),
    ({"metric": "precision_at_k", "k": 401}, None, ParameterError, "k must be an integer <= 400"),
    ({"metric": "fbeta", "beta": 0.0}, None, ParameterError, "beta must be"),
    ({"intercept_scaling": 0.0}, None, ParameterError, "intercept_scaling must be"),
    ({"C": np.nan}, None, ParameterError, "C must be"),
    ({}, np.ones(400), ParameterError, "y must hold at least two classes, got one class only"),
    ({}, np.arange(400) % 3, ParameterError, "y must hold two classes, got 3. Only binary classification is"),
    ({}, np.r_[np.nan, np.ones(399)], ValueError, "NaN"),
])
def test_refusals(options, y, kind, words):
    X, labels = data()
    with pytest.raises(kind, match=words):
        pb.MetricSVM(**options).fit(X, labels if y is None else y)


def test_refusals_of_scores_and_weights():
    X, y = data()
    with pytest.raises(TypeError, match="sample_weight"):
        pb.MetricSVM().fit(X, y, sample_weight=np.ones(400))
    model = pb.MetricSVM(metric="precision_at_k", k=300).fit(X, y)
    for arguments, words in (((X, np.full(400, "no")), "y must hold both classes of the fit"),
                             ((X, np.where(y == "no", "no", "maybe")), "and no other, got .*maybe"),
                             ((X, y[:7]), r"y must have shape \(400,\), one class for each row of X, got \(7,\)"),
                             ((X[:100], y[:100]), "k must be an integer <= 100"),
                             ((X, y, np.arange(400.0)), "sample_weight must be equal for all rows"),
                             ((X, y, np.ones(3)), r"sample_weight must have shape \(400,\)"),
                             ((X, y, -np.ones(400)), "sample_weight must be finite and >= 0"),
                             ((X, y, []), r"sample_weight must have shape \(400,\)")):
        with pytest.raises(ParameterError, match=words):
            model.score(*arguments)


def test_collections_are_refused():
    array = pytest.importorskip("dask.array")
    X, y = data()
    with pytest.raises(InputTypeError, match="X and y must be in memory for MetricSVM, got Dask collections"):
        pb.MetricSVM().fit(array.from_array(X), array.from_array(y))


@pytest.mark.parametrize("metric", ["f1", "precision_at_k"])
def test_a_measure_that_overlap_hides_is_told(metric):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 2))
    y = X[:, 0] + 2.0 * rng.standard_normal(500) > 4.0
    with pytest.warns(UserWarning, match="all weights are 0.*the classes overlap too much.*MulticlassLogistic"):
        assert not pb.MetricSVM(C=0.1, metric=metric).fit(X, y).coef_.any()
