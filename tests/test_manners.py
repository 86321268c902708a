"""What users of neighbouring packages expect: warnings, tolerances, C = inf, float32, sparse weights, links, words."""

import inspect
import pickle
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, QuantileRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.svm import LinearSVR as OfLiblinear

import pybundle as pb
from pybundle.__main__ import main

TOKENS, TAGS = [["the", "dog"], ["dogs", "bark"]], [["D", "N"], ["N", "V"]]


def data(n_classes=3, n=200, d=4, seed=0):
    """Overlapping classes: without a penalty there is a minimum."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    scores = X @ rng.standard_normal((d, n_classes)) + 2.0 * rng.gumbel(size=(n, n_classes))
    return X, scores.argmax(axis=1)


def flat(**parameters):
    return [pb.MulticlassSVM(**parameters), pb.MulticlassLogistic(**parameters), pb.LinearSVR(**parameters),
            pb.QuantileRegressor(alpha=0.01, **parameters),
            pb.QuantileRegressor(alpha=0.01, quantile=[0.3, 0.6], **parameters)]


def targets(estimator, y):
    return y if hasattr(estimator, "class_weight") else y.astype(float)


# ---------------------------------------------------------------------- warnings
@pytest.mark.parametrize("estimator", [
    pb.MulticlassSVM(max_iter=1, tol=1e-12), pb.MulticlassSVMCV([0.1, 1.0], cv=2, max_iter=1, tol=1e-12),
    pb.OnlineMKLClassifier(max_iter=1, tol=1e-12, solver="certified"),
])
def test_the_warning_of_a_fit_is_that_of_scikit_learn_too(estimator):
    """The usual filter of a grid search did not silence it."""
    X, y = data(n=60)
    with pytest.warns(ConvergenceWarning) as caught:
        estimator.fit(X, y)
    category = next(one.category for one in caught if issubclass(one.category, ConvergenceWarning))
    assert issubclass(category, pb.ConvergenceWarning) and caught[0].filename == __file__
    again = pickle.loads(pickle.dumps(caught[0].message))
    assert type(again) is category and str(again) == str(caught[0].message)
    for known in (ConvergenceWarning, pb.ConvergenceWarning):
        with warnings.catch_warnings(action="error"):
            warnings.simplefilter("ignore", known)
            estimator.fit(X, y)


def test_the_warning_comes_out_of_worker_processes():
    X, y = data(n=60)
    search = GridSearchCV(make_pipeline(StandardScaler(), pb.MulticlassSVM(max_iter=1, tol=1e-12)),
                          {"multiclasssvm__C": [0.1, 1.0]}, cv=2, n_jobs=2)
    with warnings.catch_warnings(action="error"):
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert np.isfinite(search.fit(X, y).cv_results_["mean_test_score"]).all()


def test_minimize_warns_without_scikit_learn():
    code = ("import sys, warnings, pybundle as pb\n"
            "with warnings.catch_warnings(record=True) as caught:\n"
            "    warnings.simplefilter('always')\n"
            "    pb.minimize(lambda w: (abs(w).sum(), w / abs(w)), [1.0, 2.0], lam=1.0, atol=0, max_iter=1)\n"
            "assert caught[0].category is pb.ConvergenceWarning and 'sklearn' not in sys.modules")
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


# ---------------------------------------------------------------------- tolerances
@pytest.mark.parametrize("method", ["auto", "prox-bcfw", "alm", "oca", "bmrm", "prox-bmrm", "bcfw", "mp-bcfw",
                                    "frank-wolfe"])
def test_tol_zero_leaves_atol_alone(method):
    X, y = data()
    risk = pb.risks.MulticlassHinge(X, y)
    best = pb.minimize(risk, lam=1.0, tol=1e-9)
    result = pb.minimize(risk, lam=1.0, tol=0, atol=3.0, method=method)
    assert result.success and result.fun - best.fun <= 3.0 and result.fun - result.lower_bound <= 3.0
    assert "atol 3" in result.message


def test_tol_zero_on_paths_penalties_and_smooth_risks():
    X, y = data(2)
    risk = pb.risks.Logistic(X, 2 * y - 1, fit_intercept=True)
    for results in (pb.path(risk, [1.0, 0.1], tol=0, atol=0.1), pb.path(risk, [pb.prox.L1(1.0)], tol=0.0, atol=0.1),
                    [pb.minimize(risk, lam=np.zeros(4), tol=0, atol=0.1)]):
        assert all(result.success and result.fun - result.lower_bound <= 0.1 for result in results)


@pytest.mark.parametrize("estimator", [*flat(tol=0, atol=0.1), pb.ChainSVM(tol=0, atol=0.1),
                                       pb.ChainCRF(tol=0, atol=0.1),
                                       pb.MulticlassSVMCV([0.1, 1.0], cv=2, tol=0, atol=0.1)],
                         ids=lambda estimator: type(estimator).__name__)
def test_estimators_stop_by_atol(estimator, tmp_path):
    """They had no atol, and tol=0 ran to the limits of float64."""
    X, y = (TOKENS, TAGS) if isinstance(estimator, (pb.ChainSVM, pb.ChainCRF)) else data()
    with warnings.catch_warnings(action="error"):
        warnings.filterwarnings("ignore", "the largest C")
        estimator.fit(X, y)
    assert np.all(estimator.converged_) and np.all(estimator.objective_ - estimator.lower_bound_ <= 0.1)
    estimator.save(tmp_path / "model.npz")
    assert pb.load(tmp_path / "model.npz").atol == 0.1


def test_tol_zero_on_the_command_line(tmp_path, capsys):
    X, y = data()
    np.savez(tmp_path / "data.npz", X=X, y=y)
    for command in (["train"], ["path", "--lams", "1,0.1"], ["bench", "--methods", "oca", "--repeat", "1"]):
        assert main([command[0], str(tmp_path / "data.npz"), *command[1:], "--tol", "0", "--atol", "5", "--quiet"]) == 0
    with pytest.raises(SystemExit):
        main(["train", str(tmp_path / "data.npz"), "--tol", "-1"])
    assert "must be a finite number" in capsys.readouterr().err
    assert main(["train", str(tmp_path / "data.npz"), "--model", "mkl", "--atol", "1"]) == 2


# ---------------------------------------------------------------------- C = inf
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_infinite_C_is_logistic_regression_without_penalty(n_classes, fit_intercept):
    """It was refused, and C=1e30 ended with a gap of 1."""
    X, y = data(n_classes)
    ours = pb.MulticlassLogistic(C=np.inf, tol=1e-10, fit_intercept=fit_intercept).fit(X, y)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, fit_intercept=fit_intercept, max_iter=1000).fit(X, y)
    assert ours.certified_ and ours.gap_ <= 1e-10
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)
    loss = -ours.predict_log_proba(X)[np.arange(len(y)), y].sum()
    assert ours.objective_ == pytest.approx(loss, rel=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_infinite_C_of_hinges(n_classes):
    X, y = data(n_classes)
    svm = pb.MulticlassSVM(C=np.inf).fit(X, y)
    heavy = pb.MulticlassSVM(C=1e4, tol=1e-6).fit(X, y)
    margins = svm.decision_function(X)
    if n_classes > 2:
        truth = margins[np.arange(len(y)), y][:, None]
        loss = (margins - truth + (np.arange(3) != y[:, None])).max(axis=1).sum()
    else:
        loss = np.maximum(0.0, 1.0 - (2 * y - 1) * margins).sum()
    assert svm.converged_ and svm.objective_ == pytest.approx(loss) and svm.lower_bound_ <= heavy.objective_


def test_infinite_C_after_and_before_a_finite_one(tmp_path):
    X, y = data()
    for make in (pb.MulticlassSVM, pb.MulticlassLogistic):
        model = make(warm_start=True).fit(X, y)
        cold = make(C=np.inf).fit(X, y)
        model.set_params(C=np.inf).fit(X, y)
        assert model.converged_ and model.lower_bound_ <= cold.objective_ and cold.lower_bound_ <= model.objective_
        model.save(tmp_path / "model.npz")
        assert np.array_equal(pb.load(tmp_path / "model.npz").predict(X), model.predict(X))
        assert model.set_params(C=1.0).fit(X[::-1], y[::-1]).converged_
    svr = pb.LinearSVR(C=np.float32(np.inf)).fit(X, X @ [1.0, 2.0, 3.0, 4.0] + np.random.default_rng(0).random(200))
    assert svr.converged_ and svr.objective_ > 0.0


@pytest.mark.parametrize("estimator, X, y", [
    (pb.ChainSVM(C=np.inf), TOKENS, TAGS), (pb.ChainCRF(C=np.inf), TOKENS, TAGS),
    (pb.OnlineMKLClassifier(C=np.inf), *data(n=30))], ids=["svm", "crf", "mkl"])
def test_infinite_C_needs_flat_labels(estimator, X, y):
    with pytest.raises(pb.ParameterError, match="C must be finite, got inf: without a penalty nothing limits"):
        estimator.fit(X, y)


@pytest.mark.parametrize("cls", [pb.ChainSVM, pb.ChainCRF])
@pytest.mark.parametrize("choice", ["all", "occurring"])
def test_infinite_C_of_chains_with_an_l1_norm(cls, choice):
    """An l1 norm alone, CRFsuite's c2 = 0, was refused; it holds the weights of features without examples at 0."""
    rng = np.random.default_rng(0)
    X = [[[f"w{k}"] for k in rng.integers(0, 20, 5)] for _ in range(30)]
    y = [["AB"[int(int(token[0][1:]) + rng.integers(0, 12) > 15)] for token in x] for x in X]
    model = cls(C=np.inf, l1=0.3, token_weights=choice).fit(X, y)
    nearly = cls(C=1e9, l1=0.3, token_weights=choice, tol=1e-4).fit(X, y)
    assert model.converged_ and model.certified_
    assert model.lower_bound_ <= nearly.objective_ and nearly.lower_bound_ * (1.0 - 1e-6) <= model.objective_
    with pytest.raises(pb.ParameterError, match="l1 > 0 does"):
        cls(C=np.inf).fit(X, y)


def test_separated_classes_have_no_minimum_without_penalty():
    X, y = np.array([[-1.0], [-2.0], [1.0], [2.0]]), [0, 0, 1, 1]
    assert pb.MulticlassSVM(C=np.inf).fit(X, y).objective_ <= 1e-9
    words = "; the classes are separable: without a penalty F has no minimum; penalise the weights"
    points = np.random.default_rng(0).normal(size=(100, 3))
    for cuts in ([0.0], [0.0, 1.0]):
        for fit_intercept in (True, False)[:3 - len(cuts)]:
            with pytest.warns(ConvergenceWarning, match=words) as caught:
                model = pb.MulticlassLogistic(C=np.inf, fit_intercept=fit_intercept)
                model.fit(points, np.digitize(points[:, 0], cuts))
            assert "leave out columns" not in str(caught[0].message)
    overlapping, labels = data()
    with pytest.warns(ConvergenceWarning) as caught:
        pb.MulticlassLogistic(C=np.inf, max_iter=2).fit(overlapping, labels)
    assert "separable" not in str(caught[0].message)


# ---------------------------------------------------------------------- float32
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_weights_have_the_precision_of_scikit_learns(n_classes, dtype, form):
    """float32 data gave float64 weights."""
    X, y = data(n_classes)
    X = (10 * X).astype(dtype)
    if form is sp.csr_matrix and dtype is np.float16:
        pytest.skip("SciPy has no such matrices")
    X = form(X)
    pairs = [(pb.MulticlassLogistic(), LogisticRegression(max_iter=1000)), (pb.MulticlassSVM(C=0.1), LinearSVC())]
    if n_classes == 2 and dtype is not np.float16:
        pairs += [(pb.LinearSVR(), OfLiblinear()), (pb.QuantileRegressor(alpha=0.1), QuantileRegressor(alpha=0.1))]
    for ours, theirs in pairs:
        with warnings.catch_warnings(action="ignore"):
            theirs.fit(X, targets(ours, y))
        ours.fit(X, targets(ours, y))
        assert ours.coef_.dtype == theirs.coef_.dtype
        assert np.asarray(ours.intercept_).dtype == np.asarray(theirs.intercept_).dtype
        if hasattr(ours, "predict_proba"):
            assert ours.predict_proba(X).dtype == ours.predict_log_proba(X).dtype == ours.decision_function(X).dtype


def test_float32_weights_are_rounded_and_bounds_are_not(tmp_path):
    X, y = data()
    single = pb.MulticlassLogistic(tol=1e-9, warm_start=True).fit(X.astype(np.float32), y)
    double = pb.MulticlassLogistic(tol=1e-9).fit(X.astype(np.float32).astype(float), y)
    assert single.gap_ <= 1e-9 and single.objective_ == pytest.approx(double.objective_, rel=1e-9)
    np.testing.assert_allclose(single.coef_, double.coef_, rtol=1e-5, atol=1e-5)
    scores = X.astype(np.float32) @ single.coef_.T + single.intercept_
    np.testing.assert_allclose(single.decision_function(X.astype(np.float32)), scores, rtol=1e-5, atol=1e-6)
    single.save(tmp_path / "model.npz")
    again = pb.load(tmp_path / "model.npz")
    assert again.coef_.dtype == again.intercept_.dtype == np.float32
    assert np.array_equal(again.predict_proba(X), single.predict_proba(X))
    assert single.fit(X, y).coef_.dtype == np.float64 and single.gap_ <= 1e-9
    vars(again)["intercept_"] = again.intercept_.astype(np.float16)
    with pytest.raises(pb.StateError):
        again._check_state()
    vars(again)["coef_"] = again.coef_.astype(np.float16)
    with pytest.raises(pb.StateError, match="coef_ must be"):
        again._check_state()


def test_columns_far_from_zero_keep_float64_weights():
    """Rounding an intercept of 1e7 to float32 would move it by 1."""
    X, y = data(2)
    far = (np.round(8.0 * X) + 1e6).astype(np.float32)
    model = pb.MulticlassLogistic(tol=1e-8).fit(far, y)
    near = pb.MulticlassLogistic(tol=1e-8).fit(far.astype(float) - 1e6, y)
    assert model.coef_.dtype == np.float64
    np.testing.assert_allclose(model.predict_proba(far), near.predict_proba(far.astype(float) - 1e6), atol=1e-3)


# ---------------------------------------------------------------------- weights that a user sets
def fitted_ones():
    X, y = data()
    yield from ((estimator.fit(X, targets(estimator, y)), X) for estimator in flat())
    yield pb.MulticlassLogistic().fit(X, y > 0), X
    yield pb.MulticlassLogistic().fit(X.astype(np.float32), y), X
    for cls in (pb.ChainSVM, pb.ChainCRF):
        for choice in ("all", "occurring"):
            yield cls(token_weights=choice).fit(TOKENS, TAGS), TOKENS
    words = [[("dogs", "N"), ("bark", "V")], [("the", "D"), ("cat", "N"), ("sleeps", "V")]]
    yield pb.DependencyParser(hash_bits=8).fit(words, [[2, 0], [2, 3, 0]]), words


@pytest.mark.parametrize("model, X", list(fitted_ones()), ids=lambda part: getattr(type(part), "__name__", None))
def test_weights_may_be_set(model, X, tmp_path):
    """A list, or an array of another type or layout, ended in errors of compiled code at the next prediction."""
    vars(model)["coef_"] = np.ldexp(np.round(np.ldexp(model.coef_.astype(float), 6)), -6)     # float32 holds them
    coef, before = model.coef_, np.asarray(model.predict(X), dtype=object).tolist()
    for value in (coef.astype(np.float32), coef.tolist(), np.asfortranarray(coef), coef.astype(object),
                  np.repeat(coef, 2, axis=-1)[..., ::2], coef.astype(np.longdouble)):
        model.coef_ = value
        assert model.coef_.dtype == np.float64 and model.coef_.flags.c_contiguous and np.array_equal(model.coef_, coef)
        assert np.asarray(model.predict(X), dtype=object).tolist() == before
        model.save(tmp_path / "model.npz")
        assert np.array_equal(pb.load(tmp_path / "model.npz").coef_, coef)
    for name in ("coef_", "intercept_"):
        old = vars(model).get(name)
        for wrong in ([] if old is None else [None, "a", [[1.0, [2.0]]], np.append(old, 1.0), old * np.nan, old * 1j]):
            with pytest.raises((pb.ParameterError, pb.InputTypeError), match=f"^{name} must "):
                setattr(model, name, wrong)
        assert vars(model).get(name) is old
    if hasattr(model, "intercept_"):
        model.intercept_ = np.asarray(model.intercept_).tolist()
        assert type(model.intercept_) is float or model.intercept_.dtype == np.float64
        model.coef_ = sp.coo_array(np.atleast_2d(coef))
        np.testing.assert_allclose(model.predict(X), before, rtol=1e-6)
        model.save(tmp_path / "model.npz")
        model.sparsify().coef_ = coef
        assert np.array_equal(model.coef_, coef)


# ---------------------------------------------------------------------- sparse weights
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, lambda X: X + 1e6])
@pytest.mark.parametrize("estimator", flat(l1_ratio=0.9), ids=lambda estimator: type(estimator).__name__)
def test_sparsify_and_densify(estimator, form, tmp_path):
    X, y = data()
    X, y = form(X), targets(estimator, y)
    if isinstance(estimator, pb.MulticlassSVM) and abs(X).max() > 1e3:
        pytest.skip("a penalised intercept does not suit columns far from 0")
    coef, before = estimator.fit(X, y).coef_.copy(), estimator.predict(X)
    assert estimator.sparsify() is estimator and sp.issparse(estimator.coef_)
    np.testing.assert_allclose(estimator.predict(X), before)
    estimator.save(tmp_path / "model.npz")
    for again in (pb.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(estimator)), estimator):
        assert sp.issparse(again.coef_)
        np.testing.assert_allclose(again.predict(X), before)
        assert again.densify() is again and np.array_equal(again.coef_, coef) and type(again.coef_) is np.ndarray
        assert again.densify() is again
    estimator.sparsify().set_params(warm_start=True).fit(X[:150], y[:150])
    assert np.all(estimator.converged_) and type(estimator.coef_) is np.ndarray


@pytest.mark.parametrize("name, value", [
    ("indices", lambda coef: coef.indices + 4), ("indptr", lambda coef: coef.indptr + 1),
    ("data", lambda coef: np.full_like(coef.data, np.nan)), ("data", lambda coef: coef.data.astype(np.float16)),
])
def test_sparse_weights_of_a_file_are_checked(name, value, tmp_path):
    model = pb.MulticlassLogistic().fit(*data()).sparsify()
    setattr(model.coef_, name, value(model.coef_))
    with pytest.raises((pb.StateError, ValueError)):
        model.save(tmp_path / "model.npz")
        pb.load(tmp_path / "model.npz")


# ---------------------------------------------------------------------- links, probabilities
def test_the_html_repr_links_to_the_page_of_the_class():
    """The pages are named in docs/api/estimators.rst; classes of others that derive from ours have no page here."""
    html = pb.MulticlassSVM()._repr_html_()
    assert "https://pybundle.readthedocs.io/en/stable/api/generated/pybundle.MulticlassSVM.html" in html

    class Own(pb.MulticlassSVM):
        pass

    assert Own()._get_doc_link() == ""


@pytest.mark.parametrize("name", sorted(pb.ESTIMATORS - {"load"}))
def test_parameters_are_listed_in_the_order_of_the_signature(name):
    """Those that all estimators share stood before the ones of the class."""
    made = getattr(pb, name)
    text = inspect.cleandoc(made.__doc__).partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    listed = [one for line in re.findall(r"^(\w.*?)(?: :.*)?$", text, re.M) for one in line.split(", ")]
    assert listed == list(inspect.signature(made).parameters)


PARSES = [[("the", "D"), ("dog", "N")]], [[2, 0]]


def test_logarithms_of_probabilities():
    X, y = data(n=60)
    for model, examples, truth in (
            (pb.MulticlassLogistic(), X, y), (pb.MulticlassLogistic(), X, y > 0), (pb.ChainCRF(), TOKENS, TAGS),
            (pb.DependencyParser(loss="logistic"), *PARSES), (pb.OnlineMKLClassifier(loss="logistic"), X, y)):
        model.fit(examples, truth)
        for table, logs in zip(model.predict_proba(examples), model.predict_log_proba(examples), strict=True):
            np.testing.assert_array_equal(np.exp(logs).round(12), table.round(12))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logarithms_of_probabilities_that_round_to_zero(n_classes):
    """They were minus infinity, and so was the log-likelihood of held-out rows."""
    X, y = data(n=60)
    estimator = pb.MulticlassLogistic().fit(X, y % n_classes)
    logs = estimator.predict_log_proba(1e6 * X)
    assert np.isfinite(logs).all() and logs.min() < -1000.0
    scores = estimator.decision_function(1e6 * X)
    if n_classes == 2:
        scores = np.stack([np.zeros(len(X)), scores], axis=1)
    wanted = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    np.testing.assert_allclose(logs, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("estimator, words", [
    (pb.MulticlassSVM(), "MulticlassLogistic"), (pb.MulticlassSVMCV(), "MulticlassLogistic"),
    (pb.OnlineMKLClassifier(), "MulticlassLogistic"), (pb.ChainSVM(), "ChainCRF"), (pb.ChainSVMCV(), "ChainCRF"),
    (pb.DependencyParser(), "loss='logistic'"), (pb.GraphSVM(), "ChainCRF"),
    (pb.MultiLabelSVM(), "MulticlassLogistic"),
], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("name", ["predict_proba", "predict_log_proba"])
def test_who_has_probabilities_is_said(estimator, words, name):
    """"This 'Pipeline' has no attribute 'predict_proba'" was all."""
    assert not hasattr(estimator, name) and callable(getattr(type(estimator), name))
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'.*{words}") as caught:
        getattr(estimator, name)
    assert len(str(caught.value)) < 200
    pipeline = make_pipeline(StandardScaler(), estimator)
    assert not hasattr(pipeline, name)
    with pytest.raises(AttributeError) as caught:
        getattr(pipeline, name)
    assert words in str(caught.value.__cause__)


def test_the_loss_of_the_fit_decides_whether_a_parser_has_probabilities():
    parser = pb.DependencyParser(loss="logistic").fit(*PARSES).set_params(loss="hinge")
    assert parser.predict_proba(PARSES[0])[0].shape == (3, 3)
    assert not hasattr(pb.DependencyParser().fit(*PARSES).set_params(loss="logistic"), "predict_proba")
    odd = pb.DependencyParser(loss="log")           # hasattr raised the error of a fit
    assert not hasattr(odd, "predict_proba") and not hasattr(odd, "predict_log_proba")
    with pytest.raises(pb.ParameterError, match="loss must be one of 'hinge', 'logistic'"):
        odd.fit(*PARSES)


# ---------------------------------------------------------------------- words and pictures
def test_rescaling_belongs_to_the_model():
    X, y = data()
    model = pb.models.Multiclass(3, 4, rescaling="slack")
    assert pb.risks.Structured(model, X, y, rescaling="slack").derive(n_parts=2).model is model
    with pytest.raises(pb.ParameterError, match="attribute of the model, 'slack' in Multiclass, got 'margin'"):
        pb.risks.Structured(model, X, y, rescaling="margin")


def test_a_number_in_the_place_of_w0_is_taken_for_lam_by_the_message():
    risk = pb.risks.MulticlassHinge(*data())
    for given in (1.0, 1, np.float64(1.0)):
        with pytest.raises(pb.ParameterError, match=rf"w0 must be a vector, got the number {given}; .* lam={given}"):
            pb.minimize(risk, given)


@pytest.mark.parametrize("method, option, owners", [
    ("oca", "n_best", "'prox-bcfw'"), ("lbfgs", "sigma", "'alm'"), ("auto", "t0", "'sgd'"),
    ("prox-bcfw", "memory", "'lbfgs'")])
def test_options_of_other_methods_name_them(method, option, owners):
    """"did you mean n_jobs?" was the answer to n_best."""
    with pytest.raises(pb.ParameterError, match=f"unknown option '{option}' for method '{method}'; it belongs to "
                                                f".*{owners}"):
        pb.minimize(pb.risks.MulticlassHinge(*data()), lam=1.0, method=f"{method} {option}=1")


def test_verbose_counts(capsys):
    for verbose in (2, 10, np.int64(3), True):
        pb.MulticlassSVM(verbose=verbose).fit(*data(n=30))
        assert capsys.readouterr().out
    for verbose in (-1, "1", 0.5):
        with pytest.raises(pb.ParameterError, match="verbose must be an integer >= 0"):
            pb.MulticlassSVM(verbose=verbose).fit(*data(n=30))


def test_a_plain_path_is_drawn():
    """It was a TypeError: errors was required."""
    pytest.importorskip("matplotlib")
    results = pb.path(pb.risks.MulticlassHinge(*data()), [10.0, 1.0, 0.1])
    display = pb.plotting.PathDisplay.from_results(results)
    assert display.ax_.get_xlabel() == "lam" and display.ax_.get_ylabel() == "objective" and display.best is None
    above, below = (line.get_ydata() for line in display.lines_)
    assert above.tolist() == sorted(float(result.fun) for result in results) and (below <= above).all()
    with pytest.raises(pb.ParameterError, match="must not be empty"):
        pb.plotting.PathDisplay.from_results([])
