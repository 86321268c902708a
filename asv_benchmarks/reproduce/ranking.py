"""Ranking: sums over pairs against sorting, runs on public data, and peers: LinearSVC, FastSurvivalSVM, trees, ridge.

    PYBUNDLE_DATA=... python asv_benchmarks/reproduce/ranking.py [--only sums listed passes survival quality]

Files below PYBUNDLE_DATA; a section whose file or peer is missing is skipped:

* mq2008/vali.txt and test.txt: LETOR MQ2008, fold 1, from `demo/rank` of dmlc/xgboost at commit 0620896 (research use);
* lightgbm/rank.train, rank.test and their .query: `examples/lambdarank` of microsoft/LightGBM;
* flchain/flchain.arff: the data that scikit-survival ships.

"sums" and "listed" take made data: rows uniform in a cube, grades from quantiles of a noisy linear function, groups of
random sizes. LinearSVC gets the differences of rows, which is not timed, and the loosest power of ten as tolerance, in
its primal or its dual, that brings its objective within 1e-4 of our lower bound; ours runs to 1e-4.

"passes" has the median and range of five assignments of the groups to parts, which "lbfgs" does not use.

"survival" takes 5000 rows of flchain drawn at random: medians for missing numbers, one column for each category but the
first, all standardised; the cause of death is left out. FastSurvivalSVM orders equal times at random, so both get times
in one such order. It gets the loosest power of ten as tolerance, and the faster one of its two trees, to come within
1e-5 of our lower bound. Here and in "listed" our seconds include the risk and its checks; ours and the peer run in
turns.

"quality" trains on mq2008/vali.txt, as the training file is not there, and on rank.train. Linear models get columns
standardised by the training rows, and five folds of whole groups: ours choose C by NDCG@10, RidgeCV chooses by squared
errors of grades. LightGBM has its default settings, means of five seeds. Groups without relevant rows are left out.

Processor time of one thread. Writes asv_benchmarks/results/ranking.md.
"""

import argparse
import sys
import time
import warnings

from common import Page, data_file, in_turns, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
from scipy.io import arff
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold
from sklearn.svm import LinearSVC

import pybundle as pb

TOL = 1e-4
SETS = {"2707 x 46, 157 groups": (2707, 46, 157, 3), "3005 x 300, 201 groups": (3005, 300, 201, 5),
        "20000 x 136, 800 groups": (20_000, 136, 800, 5)}
PUBLIC = [("MQ2008", "hinge"), ("MQ2008", "squared"), ("LightGBM", "hinge"), ("LightGBM", "squared")]


def sums(n=1_000_000):
    """Rows: grades, sums of the hinge and of the squared form in argsorts."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal(n)
    for name, y in (("2", rng.integers(0, 2, n) * 1.0), ("5", rng.integers(0, 5, n) * 1.0),
                    ("real", rng.standard_normal(n))):
        for form in ("hinge", "squared"):
            risk = pb.risks.Ranking(scores[:, None], y, form=form)
            unit, power = risk._units[0], 1 + risk.smooth
            rows = in_turns(lambda _, unit=unit, risk=risk, power=power: risk._sums(
                unit, risk._keys(unit, scores), 1.0, power), lambda _: np.argsort(scores))
            ours, sort = np.median(rows, axis=0)
            yield name, form, f"{1e3 * ours:.0f}", f"{1e3 * sort:.0f}", f"{np.median(rows[:, 0] / rows[:, 1]):.1f}"


def made(n, d, n_groups, n_grades):
    rng = np.random.default_rng(1)
    X, w, qid = rng.random((n, d)), rng.standard_normal(d), np.sort(rng.integers(0, n_groups, n))
    z = (X - 0.5) @ w
    z = z / z.std() + rng.standard_normal(n)
    return X, np.searchsorted(np.quantile(z, np.linspace(0.5, 0.95, n_grades - 1)), z) * 1.0, qid


def listed(X, y, qid):
    """Differences of the rows of all pairs, every second one with the other sign, and the signs."""
    rows = [np.flatnonzero(qid == g) for g in np.unique(qid)]
    i, j = np.concatenate([some[np.array(np.nonzero(y[some][:, None] > y[some][None]))] for some in rows], axis=1)
    signs = np.where(np.arange(len(i)) % 2, 1.0, -1.0)
    return signs[:, None] * (X[i] - X[j]), signs


def squared():
    """Rows: data, lam, pairs, passes, seconds of ours and of LinearSVC, their ratio."""
    for name, shape in SETS.items():
        X, y, qid = made(*shape)
        D, signs = listed(X, y, qid)
        for lam in (1000.0, 100.0, 10.0, 1.0):
            def ours(_, X=X, y=y, qid=qid, lam=lam):
                return pb.minimize(pb.risks.Ranking(X, y, qid, form="squared"), lam=lam, tol=TOL)

            def theirs(tol, dual, D=D, signs=signs, lam=lam):
                svm = LinearSVC(C=0.5 / lam, fit_intercept=False, tol=tol, dual=dual, max_iter=20_000)
                return svm.fit(D, signs).coef_[0]

            result, found = ours(0), []
            for dual in (True, False):
                for tol in 10.0 ** -np.arange(1.0, 7.0):
                    began = time.process_time()
                    w = theirs(tol, dual)
                    seconds = time.process_time() - began
                    fun = lam / 2 * w @ w + 0.5 * np.sum(np.maximum(0.0, 1.0 - signs * (D @ w))**2)
                    if fun <= result.lower_bound * (1.0 + TOL) or seconds > 30.0:
                        found.append((seconds, tol, dual))
                        break
            tol, dual = min(found)[1:]
            rows = in_turns(ours, lambda _, theirs=theirs, tol=tol, dual=dual: theirs(tol, dual))
            mine, peer = np.median(rows, axis=0)
            ratio = np.median(rows[:, 1] / rows[:, 0])
            yield (name, f"{lam:g}", len(D), f"{result.n_passes:.0f}", f"{mine:.3f}", f"{peer:.3f}", f"{ratio:.1f}")


def graded(name, is_test=False):
    """X, grades and groups of a public set."""
    if name == "MQ2008":
        data = pb.datasets.read_svmlight(data_file("mq2008", "test.txt" if is_test else "vali.txt"), n_features=46)
        return data.X.toarray(), data.y, data.query
    file = "rank.test" if is_test else "rank.train"
    data = pb.datasets.read_svmlight(data_file("lightgbm", file), n_features=300)
    sizes = np.loadtxt(data_file("lightgbm", file + ".query"), dtype=int)
    return data.X.toarray(), data.y, np.repeat(np.arange(len(sizes)), sizes)


def standardised(X, *others):
    """The arrays less the means of X, divided by its deviations; constant columns become 0."""
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    return [(Z - mean) * (deviation > 0.0) / np.where(deviation > 0.0, deviation, 1.0) for Z in (X, *others)]


def passes():
    """Rows: data, form, lam / pairs, passes to a certified gap of 1e-3 and their range, seconds."""
    for name, form in PUBLIC:
        X, y, qid = graded(name)
        X, = standardised(X)
        for lam in (1e-3, 1e-5):
            found = []
            for seed in range(5):
                began = time.process_time()
                risk = pb.risks.Ranking(X, y, qid, form=form, random_state=seed)
                result = pb.minimize(risk, lam=lam * risk.n_pairs, tol=1e-3)
                assert result.certified and result.success
                found.append((result.n_passes, time.process_time() - began))
            counts, seconds = np.array(found).T
            yield (name, form, f"{lam:g}", f"{np.median(counts):.0f} ({counts.min():.0f} to {counts.max():.0f})",
                   f"{np.median(seconds):.2f}")


def survival(tol=1e-5):
    """Rows: lam, our passes and seconds; seconds of FastSurvivalSVM, ratio, what it took; the same at its defaults."""
    try:
        from sksurv.svm import FastSurvivalSVM
    except ImportError:
        sys.exit("scikit-survival is not installed")
    data, about = arff.loadarff(data_file("flchain", "flchain.arff"))
    rng = np.random.default_rng(0)
    data, columns = data[rng.permutation(len(data))[:5000]], []
    for name in sorted(set(about.names()) - {"futime", "death", "chapter"}):
        kind, values = about[name]
        if kind == "numeric":
            columns.append(np.where(np.isnan(data[name]), np.nanmedian(data[name]), data[name]))
        else:
            columns += [1.0 * (data[name] == value.encode()) for value in values[1:]]
    X, event = standardised(np.stack(columns, axis=1))[0], data["death"] == b"dead"
    times = np.empty(len(X))
    times[np.lexsort((rng.random(len(X)), data["futime"]))] = np.arange(1.0, len(X) + 1.0)
    target = np.rec.fromarrays([event, times], names="event, time")
    for lam in (1e5, 1e3, 1.0):
        def ours(_, lam=lam):
            return pb.minimize(pb.risks.Ranking(X, times, event=event, form="squared"), lam=lam, tol=tol)

        def theirs(lam=lam, **options):
            return FastSurvivalSVM(1.0 / lam, **options).fit(X, target).coef_

        risk, result, found = pb.risks.Ranking(X, times, event=event, form="squared"), ours(0), []
        for tree in ("avltree", "rbtree"):
            for loose in 10.0 ** -np.arange(1.0, 9.0):
                began, options = time.process_time(), {"optimizer": tree, "tol": loose, "max_iter": 200}
                w = theirs(**options)
                seconds, fun = time.process_time() - began, lam / 2 * w @ w + risk.evaluate(w)[0].sum()
                if fun <= result.lower_bound * (1.0 + tol):
                    found.append((seconds, tree, options, fun))
                    break
        _, tree, options, fun = min(found)
        rows = in_turns(ours, *(lambda _, theirs=theirs, some=some: theirs(**some) for some in (options, {})))
        mine, peer, plain = np.median(rows, axis=0)
        ratio, plain_ratio = np.median(rows[:, 1:] / rows[:, :1], axis=0)
        yield (f"{lam:g}", f"{result.n_passes:.0f}", f"{mine:.3f}", f"{peer:.2f}", f"{ratio:.0f}",
               f"{tree}, {options['tol']:g}", f"{plain:.2f}", f"{plain_ratio:.0f}", f"{result.fun:.8g}", f"{fun:.8g}",
               f"{result.lower_bound:.8g}")


def quality():
    """Rows: data, model, NDCG@10 on test groups, difference to ridge with its standard error, constant chosen."""
    try:
        from lightgbm import LGBMRanker
    except ImportError:
        sys.exit("lightgbm is not installed")
    for name in ("MQ2008", "LightGBM"):
        (X, y, qid), (T, t, groups) = graded(name), graded(name, is_test=True)
        Z, S = standardised(X, T)
        folds = list(GroupKFold(5).split(Z, y, qid))
        ridge = RidgeCV(10.0 ** np.arange(-1, 7), cv=folds).fit(Z, y)
        scores, chosen = {"ridge on grades": [ridge.predict(S)]}, {"ridge on grades": f"alpha = {ridge.alpha_:g}"}
        for form in ("hinge", "squared"):
            key = f"RankingSVMCV, {form}"
            model = pb.RankingSVMCV(10.0 ** np.arange(-6, 4), cv=5, form=form, metric="ndcg@10").fit(Z, y, qid=qid)
            scores[key], chosen[key] = [model.predict(S)], f"C = {model.C_:g}"
        sizes = np.diff(np.flatnonzero(np.diff(qid, prepend=-1, append=-1)))
        for objective in ("lambdarank", "rank_xendcg"):
            scores[f"LGBMRanker, {objective}"] = [LGBMRanker(
                objective=objective, n_jobs=1, random_state=seed, verbose=-1).fit(X, y, group=sizes).predict(T)
                for seed in range(5)]
        rows = [groups == g for g in np.unique(groups) if t[groups == g].max() > 0.0]
        each = {key: np.array([np.mean([pb.metrics.ndcg(t[some], s[some], k=10) for s in several]) for some in rows])
                for key, several in scores.items()}
        for key, found in each.items():
            apart = found - each["ridge on grades"]
            error = apart.std(ddof=1) / np.sqrt(len(rows))
            yield (f"{name}, {len(rows)} groups", key, f"{found.mean():.4f}",
                   f"{apart.mean():+.4f} +- {error:.4f}" if apart.any() else "", chosen.get(key, ""))


def main():
    sections = {
        "sums": ("Sums over all pairs of 10^6 scores in one group",
                 ("grades", "form", "ms", "argsort, ms", "ratio"), sums),
        "listed": ("Squared form to 1e-4, and LinearSVC on the listed pairs",
                   ("data", "lam", "pairs", "passes", "seconds", "LinearSVC", "ratio"), squared),
        "passes": ("Passes to a certified gap of 1e-3 on public data",
                   ("data", "form", "lam / pairs", "passes", "seconds"), passes),
        "survival": ("Censored times: 5000 rows of flchain, squared form to 1e-5, and FastSurvivalSVM",
                     ("lam", "passes", "seconds", "FastSurvivalSVM, s", "ratio", "its tree, tol", "at defaults, s",
                      "ratio", "F", "its F", "lower bound"), survival),
        "quality": ("NDCG@10 on test groups", ("data", "model", "NDCG@10", "less ridge", "chosen"), quality)}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=sections, default=list(sections), help="the others are kept")
    warnings.simplefilter("ignore")
    page = Page("ranking.md", "# Ranking\n\n`python asv_benchmarks/reproduce/ranking.py`, one thread, processor time; "
                "the head of the script says how.\n", [title for title, *_ in sections.values()])
    for name in parser.parse_args().only:
        title, header, measure = sections[name]
        try:
            rows = list(measure())
        except SystemExit as missing:       # a file, which is told already, or a peer
            print(f"section {name} skipped:", missing.code or "its file is missing")
            continue
        text = table(header, rows)
        if name == "listed":
            ratios = [float(row[-1]) for row in rows]
            text += f"\n\nLeast ratio {min(ratios):.1f}, median {np.median(ratios):.1f}."
        page.replace(title, f"{text}\n\npybundle {version()}.")


if __name__ == "__main__":
    main()
