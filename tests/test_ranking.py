"""Ranking: metrics against loops, the estimator, searches with groups, refusals."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import pybundle as pb
from pybundle import cli
from pybundle.core.exceptions import ParameterError


def data(n=240, n_groups=24, seed=0):
    rng = np.random.default_rng(seed)
    X, qid = rng.standard_normal((n, 4)), rng.integers(0, n_groups, n)
    noise = rng.standard_normal(n_groups)[qid] + 0.3 * rng.standard_normal(n)
    return X, np.clip(np.round(X[:, 0] - 0.5 * X[:, 1] + noise), 0, 3), qid


@parametrize_with_checks([pb.RankingSVM(tol=1e-9), pb.RankingSVM(form="squared", margin="difference", tol=1e-9)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ---------------------------------------------------------------------- metrics

@pytest.mark.parametrize("seed", range(30))
def test_metrics_against_loops(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 25)), int(rng.integers(1, 6))
    y, groups = rng.integers(0, 4, n) * 1.0, rng.integers(0, 4, n)
    scores = rng.standard_normal(n) if seed % 2 else rng.integers(0, 3, n) * 1.0
    found = {name: [] for name in ("ndcg", "map", "precision", "mrr")}
    for g in np.unique(groups):
        mine = [(-scores[i], y[i]) for i in np.flatnonzero(groups == g)]
        ranked = [grade for _, grade in sorted(mine)]
        if max(ranked) == 0:
            continue
        discount = [1.0 / np.log2(r + 2) for r in range(min(k, len(ranked)))]
        gain = sum(d * (2.0**grade - 1) for d, grade in zip(discount, ranked, strict=False))
        found["ndcg"].append(gain / sum(d * (2.0**b - 1) for d, b in zip(discount, sorted(ranked)[::-1], strict=False)))
        hits = [r for r, grade in enumerate(ranked[:k], 1) if grade >= 1]
        n_relevant = sum(grade >= 1 for grade in ranked)
        found["map"].append(sum((j + 1) / r for j, r in enumerate(hits)) / min(k, n_relevant))
        found["precision"].append(len(hits) / k)
        found["mrr"].append(1.0 / hits[0] if hits else 0.0)
    functions = {"ndcg": pb.metrics.ndcg, "map": pb.metrics.average_precision, "precision": pb.metrics.precision,
                 "mrr": pb.metrics.reciprocal_rank}
    n_groups = len(np.unique(groups))
    for name, function in functions.items():
        if found[name]:
            assert np.isclose(function(y, scores, groups, k=k), np.mean(found[name]))
        for empty in (0.0, 1.0):
            total = sum(found[name]) + empty * (n_groups - len(found[name]))
            assert np.isclose(function(y, scores, groups, k=k, empty=empty), total / n_groups)
    event = rng.random(n) < 0.6 if seed % 3 == 0 else None
    shares = []
    for i in range(n):
        for j in range(n):
            is_pair = groups[i] == groups[j] and (y[i] > y[j] if event is None else event[j] and (
                y[i] > y[j] or (y[i] == y[j] and not event[i])))
            if is_pair:
                shares.append(float(scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]))
    if shares:
        assert np.isclose(pb.metrics.concordance(y, scores, groups, event=event), np.mean(shares))
    else:
        with pytest.raises(ParameterError, match="no pair"):
            pb.metrics.concordance(y, scores, groups, event=event)


def test_metrics_agree_with_scikit_learn():
    rng = np.random.default_rng(1)
    y, scores = rng.integers(0, 2, 200) * 1.0, rng.standard_normal(200)
    assert np.isclose(pb.metrics.concordance(y, scores), roc_auc_score(y, scores))
    assert np.isclose(pb.metrics.average_precision(y, scores), average_precision_score(y, scores))
    grades = rng.integers(0, 5, 200) * 1.0
    for k in (3, 10, None):
        assert np.isclose(pb.metrics.ndcg(grades, scores, k=k, gains="linear"), ndcg_score([grades], [scores], k=k))


@pytest.mark.parametrize(("call", "words"), [
    (lambda y, s, g: pb.metrics.ndcg(-y, s, g), "y must hold grades >= 0, got -3"),
    (lambda y, s, g: pb.metrics.ndcg(0 * y, s, g), "y must have relevant rows in a group, got none in 24 groups; func"),
    (lambda y, s, g: pb.metrics.ndcg(y + 1020, s), "y must hold grades whose gains have a finite sum, got 1023; scale"),
    (lambda y, s, g: pb.metrics.ndcg(y * 5e307, s, gains="linear"), r"have a finite sum, got 1.5e.308; scale them$"),
    (lambda y, s, g: pb.metrics.ndcg(y, s[:3], g), r"scores must be of shape \(240,\)"),
    (lambda y, s, g: pb.metrics.precision(y, s * np.nan, g, k=2), "scores must be finite"),
    (lambda y, s, g: pb.metrics.precision(y, s, g, k=0), "k must be an integer >= 1"),
    (lambda y, s, g: pb.metrics.concordance(y, s, g[:5]), "groups must hold one name"),
    (lambda y, s, g: pb.metrics.concordance(y, s, event=y), "event must be a bool array"),
    (lambda y, s, g: pb.metrics.reciprocal_rank([], []), "at least one row"),
])
def test_refused_metrics(call, words):
    X, y, groups = data()
    with pytest.raises(ParameterError, match=words):
        call(y, X[:, 0], groups)


# ---------------------------------------------------------------------- estimator

def test_equal_to_a_classifier_of_pairs():
    """LinearSVC on the listed differences of rows, both signs, has the same minimum."""
    X, y, qid = data()
    ours = pb.RankingSVM(C=0.1, form="squared", tol=1e-9).fit(X, y, qid)
    i, j = np.nonzero((y[:, None] > y[None, :]) & (qid[:, None] == qid[None, :]))
    assert ours.n_pairs_ == len(i) and ours.has_groups_ and not ours.has_events_
    pairs, signs = np.vstack([X[i] - X[j], X[j] - X[i]]), np.repeat([1, -1], len(i))
    theirs = LinearSVC(C=0.025, fit_intercept=False, tol=1e-10, max_iter=100_000).fit(pairs, signs)
    assert np.allclose(ours.coef_, theirs.coef_[0], rtol=1e-4)
    right = ours.predict(X)[i] > ours.predict(X)[j]
    assert np.isclose(ours.score(X, y, qid), right.mean())
    for other in (sp.csr_matrix(X), X.astype(np.float32)):
        again = pb.RankingSVM(C=0.1, form="squared", tol=1e-9).fit(other, y, qid)
        assert np.allclose(again.coef_, ours.coef_, rtol=1e-4)


def test_metrics_of_score():
    X, y, qid = data()
    model = pb.RankingSVM(C=0.01).fit(X, y, qid)
    s = model.predict(X)
    for name, value in (("pairs", pb.metrics.concordance(y, s, qid)), ("ndcg@3", pb.metrics.ndcg(y, s, qid, k=3)),
                        ("ndcg", pb.metrics.ndcg(y, s, qid)), ("map", pb.metrics.average_precision(y, s, qid)),
                        ("mrr@2", pb.metrics.reciprocal_rank(y, s, qid, k=2)),
                        ("precision@5", pb.metrics.precision(y, s, qid, k=5))):
        assert model.set_params(metric=name).score(X, y, qid=qid) == value


def test_times_of_survival():
    rng = np.random.default_rng(0)
    X, event = rng.standard_normal((150, 3)), rng.random(150) < 0.6
    times = np.exp(X[:, 0] + 0.5 * rng.standard_normal(150))
    pairs = np.array(list(zip(event, times, strict=True)), dtype=[("event", bool), ("time", float)])
    one, other = pb.RankingSVM(C=0.01).fit(X, pairs), pb.RankingSVM(C=0.01).fit(X, times, event=event)
    assert (one.coef_ == other.coef_).all() and one.has_events_
    assert one.score(X, pairs) == one.score(X, times, event=event) == pb.metrics.concordance(
        times, one.predict(X), event=event)
    assert one.score(X, pairs) > 0.8
    with pytest.raises(ParameterError, match="event must be passed to score"):
        one.score(X, times)
    with pytest.raises(ParameterError, match="metric must be 'pairs' for censored times"):
        one.set_params(metric="ndcg").score(X, pairs)
    assert cross_val_score(pb.RankingSVM(C=0.01), X, pairs, cv=3).min() > 0.7


def test_a_column_names_the_groups():
    X, y, qid = data()
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd")).assign(qid=qid)
    model, plain = pb.RankingSVM(C=0.01).fit(frame, y), pb.RankingSVM(C=0.01).fit(X, y, qid)
    assert (model.coef_ == plain.coef_).all() and model.feature_names_in_.tolist() == list("abcd")
    assert model.score(frame, y) == plain.score(X, y, qid)
    assert (model.predict(frame) == model.predict(frame[list("abcd")])).all()
    search = GridSearchCV(pb.RankingSVM(), {"C": [1e-4, 1e-2]}, cv=GroupKFold(3)).fit(frame, y, groups=qid)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    with pytest.raises(ParameterError, match="argument or a column of X, got both"):
        model.fit(frame, y, qid)


def test_searches_with_routing_equal_loops_by_hand():
    X, y, qid = data()
    Cs, splits = [1e-5, 1e-3, 1e-1], list(GroupKFold(3).split(X, y, qid))
    hand = np.empty((3, 3))
    for f, (train, test) in enumerate(splits):
        scaler = StandardScaler().fit(X[train])
        for c, C in enumerate(Cs):
            model = pb.RankingSVM(C=C, metric="ndcg@5").fit(scaler.transform(X[train]), y[train], qid[train])
            hand[f, c] = model.score(scaler.transform(X[test]), y[test], qid[test])
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = pb.RankingSVM(metric="ndcg@5").set_fit_request(qid=True).set_score_request(qid=True)
        pipeline = make_pipeline(StandardScaler(), ranker)
        search = GridSearchCV(pipeline, {"rankingsvm__C": Cs}, cv=GroupKFold(3)).fit(X, y, qid=qid, groups=qid)
    found = np.array([search.cv_results_[f"split{f}_test_score"] for f in range(3)])
    assert (found == hand).all()
    assert search.best_params_ == {"rankingsvm__C": Cs[int(hand.mean(axis=0).argmax())]}


def test_path_over_c_keeps_groups_whole():
    X, y, qid = data()
    with pytest.warns(UserWarning, match="the largest C of the grid"):
        search = pb.RankingSVMCV([1e-5, 1e-3, 1e-1], cv=3, metric="ndcg@5", search_tol=1e-7).fit(X, y, qid=qid)
    hand = np.array([[pb.RankingSVM(C=C, metric="ndcg@5", tol=1e-7).fit(X[train], y[train], qid[train]).score(
        X[test], y[test], qid[test]) for C in search.Cs_] for train, test in GroupKFold(3).split(X, y, qid)])
    known = np.isfinite(search.scores_)
    assert np.allclose(search.scores_[known], hand[known], atol=1e-3) and known[:, 0].all()
    assert search.score(X, y, qid) > 0.9 and search.cv == 3
    assert pb.RankingSVMCV([1e-3], cv=2).fit(X, y).has_groups_ is False


def test_groups_without_pairs_warm_starts_and_early_stopping():
    X, y, qid = data()
    y[qid == 3] = 0.0
    model = pb.RankingSVM(C=0.01, warm_start=True, tol=1e-6).fit(X, y, qid)
    assert model.n_idle_groups_ == sum(len(set(y[qid == g])) < 2 for g in np.unique(qid)) >= 1
    first = model.n_passes_
    assert model.fit(X, y, qid).n_passes_ < first and model.set_params(C=0.011).fit(X, y, qid).converged_
    stop = pb.callbacks.EarlyStopping(validation_fraction=0.3, patience=2)
    assert pb.RankingSVM(callback=stop).fit(X, y, qid).n_groups_ < model.n_groups_
    alone = pb.RankingSVM(callback=stop).fit(X, y).coef_
    assert (pb.RankingSVM(callback=stop).fit(X, y, np.zeros(240)).coef_ == alone).all()


@pytest.mark.parametrize(("call", "kind", "words"), [
    (lambda m, X, y, q: m.fit(X, y, q).score(X, y), ParameterError, "qid must be passed to score, since the fit had"),
    (lambda m, X, y, q: m.fit(X, y, q).score(X, y, q, np.ones(240)), ParameterError, "sample_weight must be None"),
    (lambda m, X, y, q: m.fit(X, y, q[:7]), ParameterError, r"qid must hold one name .*\(240,\), got shape \(7,\)"),
    (lambda m, X, y, q: m.fit(X[:9], y, q), ParameterError, "inconsistent numbers of samples"),
    (lambda m, X, y, q: m.fit(X, 0 * y, q), ParameterError, "got no pair of rows to compare in 24 groups"),
    (lambda m, X, y, q: m.fit(X, y * np.nan, q), ParameterError, "y must be finite"),
    (lambda m, X, y, q: m.fit(X, y - 1.0, event=y > 0), ParameterError, "times >= 0"),
    (lambda m, X, y, q: m.fit(X, np.zeros(240, [("a", float), ("b", float)])), ParameterError, "pairs .event, time."),
    (lambda m, X, y, q: m.set_params(metric="ndcg@0").fit(X, y, q), ParameterError, "metric must be 'pairs'"),
    (lambda m, X, y, q: m.set_params(metric="precision").fit(X, y, q), ParameterError, "or 'precision@k', got 'prec"),
    (lambda m, X, y, q: m.set_params(form="log").fit(X, y, q), ParameterError, "form must be one of"),
    (lambda m, X, y, q: pb.RankingSVM(fit_intercept=True), TypeError, "fit_intercept"),
    (lambda m, X, y, q: m.fit(np.full((240, 1), "x", dtype=object), y), ParameterError, "X must hold numbers"),
])
def test_refusals(call, kind, words):
    with pytest.raises(kind, match=words):
        call(pb.RankingSVM(), *data())


# ---------------------------------------------------------------------- shell

def written(folder, n=120):
    X, y, qid = data(n, 12)
    order = np.argsort(qid, kind="stable")
    X, y, qid = np.round(X[order], 3), y[order], qid[order]
    for name, with_qid in (("a.svm", True), ("plain.svm", False)):
        (folder / name).write_text("".join(f"{int(g)}{f' qid:{q}' if with_qid else ''} " + " ".join(
            f"{j}:{v}" for j, v in enumerate(x, 1)) + "\n" for x, g, q in zip(X, y, qid, strict=True)))
    (folder / "sizes").write_text("".join(f"{n}\n" for n in np.bincount(qid)))
    return X, y, qid


def test_the_shell_trains_and_evaluates_rankings(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y, qid = written(tmp_path)
    model = pb.RankingSVM(C=0.01).fit(X, y, qid)
    for data_of in (["a.svm"], ["plain.svm", "--groups", "sizes"]):
        assert cli.main(["train", *data_of, "--model", "rank", "-C", "0.01", "--save", "m.npz"]) == 0
        pairs = f"{model.n_pairs_} in 12 groups, {model.n_idle_groups_} of them without a pair"
        assert pairs in capsys.readouterr().out
        assert np.allclose(pb.load("m.npz").predict(X), model.predict(X), atol=1e-3)
        assert cli.main(["evaluate", *data_of, "--load", "m.npz", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert np.isclose(found["ordered pairs"], model.score(X, y, qid), atol=1e-3)
        assert np.isclose(found["NDCG@10"], pb.metrics.ndcg(y, model.predict(X), qid, k=10), atol=1e-3)
        assert cli.main(["predict", *data_of[:1], "--load", "m.npz", "--output", "found.svm"]) == 0
        assert cli.main(["evaluate", *data_of, "--predictions", "found.svm", "--json"]) == 0
        again = json.loads(capsys.readouterr().out)
        assert all(np.isclose(again[name], found[name]) for name in ("ordered pairs", "NDCG@10", "MAP", "MRR"))
    assert cli.main(["train", "a.svm", "--model", "rank", "--cv", "3", "--grid", "0.001,0.01", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"] == 12
    assert cli.main(["path", "a.svm", "--model", "rank", "--lams", "100,10"]) == 0
    assert cli.main(["train", "a.svm", "--model", "rank", "-C", "0.01", "--certificate", "c.npz"]) == 0
    assert cli.main(["verify", "a.svm", "--model", "rank", "--certificate", "c.npz", "-C", "0.01"]) == 0
    capsys.readouterr()
    assert cli.main(["info", "m.npz"]) == 0 and pairs in capsys.readouterr().out
    assert cli.main(["bench", "a.svm", "--model", "rank", "--repeat", "1"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]] == ["oca", "bmrm"]
    assert cli.main(["train", "plain.svm", "--model", "rank", "--groups", "sizes", "--certificate", "c.npz"]) == 0
    assert cli.main(["verify", "plain.svm", "--certificate", "c.npz"]) == 0
    (tmp_path / "sizes").rename("moved")
    assert cli.main(["verify", "plain.svm", "--certificate", "c.npz", "--groups", "moved"]) == 0
    assert cli.main(["train", "plain.svm", "--save", "classes.npz"]) == 0
    pb.RankingSVM().fit(X, y + 1.0, event=y > 0).save("times.npz")
    capsys.readouterr()
    for line, words in (("plain.svm --load m.npz", "plain.svm must have groups, as the training data had"),
                        ("plain.svm --load classes.npz --groups moved", "--groups belongs to models of rankings, got"),
                        ("a.svm --load times.npz", "a model of censored times needs their events")):
        assert cli.main(["evaluate", *line.split()]) == 2
        assert words in capsys.readouterr().err


def test_training_classes_warns_of_groups(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    for line, warns in (("train a.svm", True), ("train a.svm --model svm", False), ("train plain.svm", False),
                        ("train a.svm --model rank", False)):
        assert cli.main(line.split()) == 0
        assert ("--model rank learns from them" in capsys.readouterr().err) is warns


@pytest.mark.parametrize(("line", "words"), [
    ("train plain.svm --model rank --groups wrong", "must hold sizes of groups whose sum is the number of rows of"),
    ("train plain.svm --model rank --groups a.svm", "line 1: expected the size of a group"),
    ("train a.svm --groups sizes", "--groups belongs to --model rank"),
    ("train a.conllu --groups sizes", "--groups belongs to rows, got a.conllu of sentences"),
    ("train q.csv --model rank", "q.csv has a column qid, which would be a feature"),
    ("train t.csv --model rank", "must have numbers as labels, the grades of rows"),
])
def test_refused_command_lines(line, words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    (tmp_path / "wrong").write_text("3\n4\n")
    (tmp_path / "a.conllu").write_text("1\ta\ta\tX\tX\t_\t0\troot\t_\t_\n\n")
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,x\n3,4,z\n")
    (tmp_path / "q.csv").write_text("a,qid,y\n1,2,0\n3,2,1\n")
    assert cli.main(line.split()) == 2
    assert words in capsys.readouterr().err
