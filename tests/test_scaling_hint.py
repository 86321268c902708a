"""Hints about the columns of flat data: where they explain many passes, and nowhere else."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.cli import main
from pybundle.solvers.diagnostics import LONG, VERY_LONG
from pybundle.solvers.scaling import scaling

UNEVEN, SHIFTED, LARGE = "differ in size by", "times their spread", "have entries of"


def blobs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    return 3.0 * rng.standard_normal((3, 8))[y] + 2.0 * rng.standard_normal((300, 8)), y


def words(X, y, **options):
    return scaling(pb.risks.MulticlassHinge(X, y, **options))


@pytest.mark.parametrize(("change", "hint"), [
    (lambda X: X, ""),
    (lambda X: X + 1e4, SHIFTED),
    (lambda X: 1e4 * X, LARGE),
    (lambda X: X * np.logspace(-2, 4, 8), UNEVEN),
    (lambda X: 1e-9 * X, ""),
    (lambda X: np.c_[X, np.zeros(len(X)), np.ones(len(X))], ""),
    (lambda X: sp.csr_array(X * np.logspace(-2, 4, 8)), UNEVEN),
    (lambda X: 1e140 * X, LARGE),
    (lambda X: np.zeros_like(X), ""),
])
def test_what_is_said_of_blobs(change, hint):
    X, y = blobs()
    found = words(change(X), y)
    assert hint in found and bool(found) == bool(hint) and len(found) < 120
    assert not hint or ("MaxAbsScaler" if sp.issparse(change(X)) else "StandardScaler") in found
    assert not hint or "pybundle train --scale" in found


def test_data_of_which_nothing_is_said():
    """Digits have columns that are nearly empty, images raw bytes, texts rare words: none of them costs passes."""
    from sklearn.datasets import load_digits, load_iris

    for load in (load_digits, load_iris):
        X, y = load(return_X_y=True)
        assert words(X, y) == words(X.astype(np.float32) / X.max(), y) == ""
    rng = np.random.default_rng(0)
    counts = sp.random(400, 3000, 40 / 3000, "csr", random_state=0, data_rvs=lambda n: 1.0 + rng.poisson(1.0, n))
    tfidf = counts @ sp.diags_array(np.log(400 / np.maximum(1, np.bincount(counts.indices, minlength=3000))) + 1.0)
    tfidf = sp.diags_array(1.0 / np.maximum(sp.linalg.norm(tfidf, axis=1), 1e-9)) @ tfidf
    assert words(sp.csr_array(tfidf), np.arange(400) % 4) == ""
    assert scaling(pb.risks.Function(lambda w: (0.0, w), 2)) == ""


def test_mnist_is_in_order():
    if "PYBUNDLE_DATA" not in os.environ:
        pytest.skip("set PYBUNDLE_DATA to the folder that holds mnist/mnist.npz")
    with np.load(Path(os.environ["PYBUNDLE_DATA"]) / "mnist" / "mnist.npz") as file:
        X, y = file["X_train"][:10000].reshape(10000, -1), file["y_train"][:10000]
    assert words(X, y) == words(X, y, scale=1 / 255) == ""


def test_the_message_and_the_report_name_the_remedy(capsys):
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    hint = "the columns of X differ in size by 1.3e+03 (columns 4, 12): scale them (StandardScaler, pybundle train"
    raw = pb.minimize(pb.risks.MulticlassHinge(X, y), lam=1.0, tol=1e-3, verbose=1)
    assert raw.n_passes > LONG and hint in raw.message and raw.message.startswith("the certified gap is within")
    assert capsys.readouterr().out.count(hint) == 2         # after LONG passes, and at the end
    scaled = pb.minimize(pb.risks.MulticlassHinge((X - X.mean(axis=0)) / X.std(axis=0), y), lam=1.0, tol=1e-3)
    assert scaled.n_passes < LONG and "scale" not in scaled.message
    early = pb.minimize(pb.risks.MulticlassHinge(X, y), lam=1.0, tol=0.9, max_iter=3)
    assert "scale" not in early.message


def test_less_uneven_columns_are_looked_for_again(monkeypatch):
    """Only `message` named columns that are a hint from 500 passes on: while the run went on, nobody asked again."""
    asked = []

    def hint(run):
        asked.append(run.trace.n_passes)
        return "" if len(asked) == 1 else "scale them"

    monkeypatch.setattr(sys.modules["pybundle.solvers.driver"], "hint", hint)
    X, y = blobs()
    pb.minimize(pb.risks.MulticlassHinge(X, y), lam=1e-6, tol=1e-15, max_iter=600, verbose=1, method="bcfw")
    assert LONG <= asked[0] < VERY_LONG <= asked[1] and len(asked) == 2


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("factors", [{3: 1e4}, {1: 1e4, 6: 1e4}, {2: 1e4, 5: 1e-4}, {1: 1e4, 2: 1e4, 7: 1e5}])
def test_only_columns_that_stand_out_are_named(form, factors):
    """Three columns were named always, so that two well scaled ones were to be scaled beside the one that was not."""
    X, y = blobs()
    X[:, list(factors)] *= list(factors.values())
    found = words(form(X), y)
    few = f"column{'s' * (len(factors) > 1)} {', '.join(map(str, sorted(factors)))}"
    assert f"({few})" in found


def test_names_of_columns_and_the_remedy_before_the_limit(capsys, tmp_path):
    """Raw columns took 500 passes without a word from the command line, and warnings began with "raise max_iter"."""
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True, as_frame=False)
    names, path = [f"c{k}" for k in range(13)], tmp_path / "wine.csv"
    np.savetxt(path, np.c_[X, y], "%.17g", ",", header=",".join([*names, "label"]), comments="")
    assert main(["train", str(path)]) == 0
    assert "(columns c4, c12): scale them (StandardScaler, pybundle train --scale)\n" in capsys.readouterr().out
    assert main(["train", str(path), "--scale"]) == 0
    assert "hint" not in capsys.readouterr().out
    frame = pytest.importorskip("pandas").DataFrame(X, columns=names)
    for model in (pb.MulticlassSVM(tol=1e-7, max_iter=60), pb.MulticlassLogistic(C=100.0, tol=1e-9, max_iter=110)):
        with pytest.warns(pb.ConvergenceWarning, match=r"reached; .*c12\): scale them .*; or raise max_iter or tol \("):
            model.fit(frame, y)
