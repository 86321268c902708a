"""Columns of saved models: found by name, scaled as in the training, and one convention for the intercept."""

import json
import warnings

import numpy as np
import pytest
from test_command_lines import TEXTS, WORDS, X, Y, call, folder  # noqa: F401

import pybundle as pb
from pybundle.cli import classes, columns, guess
from pybundle.core import archive
from pybundle.estimators import saving

sklearn = pytest.importorskip("sklearn")
LETTERS = np.array(list("xyz"))[Y]


def predicted(command):
    code, out, err = call(f"predict {command} --json")
    assert code == 0, err
    return json.loads(out)["predictions"]


def test_columns_are_found_by_name(folder, monkeypatch):  # noqa: F811
    monkeypatch.chdir(folder)
    expected = pb.MulticlassSVM(tol=0.1).fit(X, LETTERS).predict(X).tolist()
    for command in ("a.csv", "bac.csv", "first.csv", "abc.csv --unlabelled", "cba.csv --unlabelled", "bare.csv"):
        assert predicted(f"{command} --load csv.model") == expected, command
    for model in ("barefirst", "first"):
        assert predicted(f"barefirst.csv --load {model}.model") == expected
    assert predicted("bac.csv --load scaled.model") == predicted("a.csv --load scaled.model")


def test_models_trained_in_python(folder, monkeypatch, tmp_path):  # noqa: F811
    monkeypatch.chdir(folder)
    svm = pb.MulticlassSVM(tol=0.1).fit(X, LETTERS)
    svm.save(tmp_path / "m.npz")
    expected = svm.predict(X).tolist()
    command = f"predict ab.csv --unlabelled --load {tmp_path}/m.npz"
    assert "trained on 3 features, got the columns a, b" in call(command)[2]
    svm.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)        # as a data frame would give them
    svm.save(tmp_path / "m.npz")
    code, out, err = call(f"predict bac.csv --load {tmp_path}/m.npz --json")
    assert code == 0 and err == "" and json.loads(out)["predictions"] == expected
    assert "predict --unlabelled reads" in call(f"predict abc.csv --load {tmp_path}/m.npz")[2]
    assert "got the columns a, b, d" in call(f"predict abd.csv --load {tmp_path}/m.npz")[2]


def test_a_fit_forgets_the_columns_of_the_one_before(folder):  # noqa: F811
    svm = pb.load(folder / "csv.model")
    assert columns.columns_of(svm).names == ["a", "b", "c", "kind"]
    assert columns.columns_of(svm.fit(X, LETTERS)) is None
    svm = pb.load(folder / "mkl.model")
    assert columns.columns_of(svm) is not None and columns.columns_of(svm.fit(X, LETTERS)) is None


@pytest.mark.parametrize("noted", [{}, {"n": 3}, {"format": "csv", "n": "x"}, {"format": "csv", "n": 2, "names": [1]},
                                   {"format": "csv", "n": 1, "names": ["a"], "label": 7}, {"format": "csv", "m": 2}])
def test_malformed_columns_are_refused(noted, tmp_path, folder):  # noqa: F811
    pb.MulticlassSVM().fit([[0.0], [1.0]], [0, 1]).save(tmp_path / "m.npz")
    header, arrays = archive.read_archive(tmp_path / "m.npz", saving.FORMAT, saving.VERSION)
    header["columns"] = noted
    header["digest"] = archive.digest({name: header[name] for name in saving.COVERED}, arrays)
    archive.write_archive(tmp_path / "m.npz", saving.FORMAT, saving.VERSION, header, arrays)
    code, _, err = call(f"predict {folder}/a.csv --load {tmp_path}/m.npz")
    assert code == 2 and "malformed; train it again" in err and err.count("\n") == 1


@pytest.mark.parametrize("file, dense", [("a.csv", True), ("a.svm", False), ("a.npz", True)])
def test_scaling_is_that_of_a_pipeline(file, dense, folder, monkeypatch, tmp_path):  # noqa: F811
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    monkeypatch.chdir(folder)
    y = LETTERS if file == "a.csv" else Y
    rows = X if dense else pb.datasets.read_svmlight(file).X
    pipeline = make_pipeline(StandardScaler(with_mean=dense), pb.MulticlassSVM(tol=1e-6)).fit(rows, y)
    for options in ("", "--no-intercept"):
        code, out, _ = call(f"train {file} --scale --tol 1e-6 --save {tmp_path}/m.npz --json {options}")
        model, record = pb.load(tmp_path / "m.npz"), json.loads(out)
        assert code == 0 and record["scaled"] is True
        svm = pipeline.set_params(multiclasssvm__fit_intercept=not options).fit(rows, y)[-1]
        assert record["objective"] == model.objective_ == svm.objective_        # the certificate is of scaled columns
        assert record["lower_bound"] == svm.lower_bound_
        expected = pipeline.decision_function(rows)
        np.testing.assert_allclose(model.decision_function(rows), expected, rtol=0, atol=1e-9 * abs(expected).max())
        assert predicted(f"{file} --load {tmp_path}/m.npz") == pipeline.predict(rows).tolist()


def test_one_convention_for_the_intercept(folder, monkeypatch, tmp_path):  # noqa: F811
    """The same data and the same lam give one certified interval everywhere."""
    X, y, *_ = pb.datasets.load_digits()
    np.savez(tmp_path / "digits.npz", X=X, y=y)
    monkeypatch.chdir(tmp_path)
    train = json.loads(call("train digits.npz --lam 10 --tol 1e-2 --json")[1])
    path, = json.loads(call("path digits.npz --lams 10 --tol 1e-2 --json")[1])["path"]
    demo = json.loads(call("demo --lam 10 --tol 1e-2 --json")[1])
    bench, = json.loads(call("bench --lam 10 --methods oca --repeat 1 --json")[1])["methods"]
    bounds = [train["lower_bound"], demo["lower_bound"], path["lower bound"], bench["lower bound"]]
    assert max(bounds) <= min(found["objective"] for found in (train, demo, path, bench))


@pytest.mark.parametrize("name, expected", [
    ("a.svm", "svmlight"), ("a.conll", "conll"), ("a.conllu", "conllu"), ("a.csv", "csv"), ("bare.csv", "csv"),
    ("bare3.csv", "csv"), ("flat.txt", None), ("notes.txt", None), ("empty.csv", None), ("labels.txt", None),
    ("train.txt.gz", "conll"), ("a.npz", None),
])  # fmt: skip
def test_formats_are_guessed_from_lines(folder, name, expected):  # noqa: F811
    assert guess.guess(folder / name) == expected


@pytest.mark.parametrize("y, is_measured", [(["0.25", "1", "1"], True), (["a", "b", "0.5"], False), ([1.5, 1.0], True)])
def test_labels_of_a_table_that_are_measurements(y, is_measured):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        classes.warn_of_measurements(y)
    assert ["y holds fractions" in str(warning.message) for warning in caught] == [True] * is_measured


def test_counts_of_classes():
    assert classes.describe_counts({k: 1 for k in range(20)}) == "20: 0 1, 1 1, 2 1, 3 1, 4 1, 5 1, 6 1, 7 1, ..."
    assert len(TEXTS) > 40 and len(WORDS) == 12
