"""Files of estimators: what was saved comes back, and nothing else is let in."""

import io
import json
import os
import re
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from test_estimators_structured import CASES, chains, same, trees

import pybundle as pb
from pybundle.core.archive import digest, read_npz, write_atomically
from pybundle.estimators import saving

DATA = Path(__file__).parent / "data"


def flat(n=40):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return rng.standard_normal((n, 3)) + np.eye(3)[y], np.array(["a", "b", "c"])[y]


def numbers():
    return flat()[0], np.arange(40.0)


def labelled_graphs():
    rng, edges = np.random.default_rng(0), [(0, 1), (1, 2), (2, 3), (3, 0)]
    codes = [np.sort(rng.integers(0, 3, 4)) for _ in range(8)]
    return [pb.Graph(np.eye(3)[code] + rng.normal(size=(4, 3)), edges, np.ones((4, 1))) for code in codes], [
        np.array(["a", "b", "c"])[code] for code in codes]


def halves():
    X, y = flat()
    return X, y == "a"


def indicators():
    X, y = flat()
    return X, np.stack([y == "a", X[:, 0] > 0.0], axis=1).astype(int)


ALL = {**CASES, "many labels": (pb.GraphSVM(symmetric=[0]), labelled_graphs),
       "several labels": (pb.MultiLabelSVM("tree", tol=0.01), indicators),
       "logistic": (pb.MulticlassLogistic(l1_ratio=0.5), flat),
       "flat": (pb.MulticlassSVM(C=2.0, class_weight={"a": 2.0}), flat),
       "quantile": (pb.QuantileRegressor(quantile=0.2, alpha=0.1), numbers), "svr": (pb.LinearSVR(C=0.5), numbers),
       "some weights": (pb.ChainCRF(token_weights="occurring"), chains),
       "parser-cv": (pb.DependencyParserCV([0.01, 0.1], cv=2, hash_bits=10, tol=0.1), trees),
       "kernels": (pb.OnlineMKLClassifier(n_epochs=2), flat),
       "ranking": (pb.RankingSVM(form="squared", metric="ndcg@2"), numbers),
       "ranking-cv": (pb.RankingSVMCV([0.01, 0.1], cv=2, margin="difference"), numbers),
       "f-score": (pb.MetricSVM(metric="fbeta", beta=2.0), halves),
       "precision": (pb.MetricSVM(metric="precision_at_k", k=5), halves),
       "flat-cv": (pb.MulticlassSVMCV([0.1, 1.0], cv=2, loss=1.0 - np.eye(3)), flat)}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The bytes of a saved chain model."""
    path = tmp_path_factory.mktemp("saved") / "chain.npz"
    X, y = chains(8)
    pb.ChainSVM(tol=1e-2).fit(X, y).save(path)
    return path.read_bytes()


def rewritten(raw, change_header=None, *, mark=digest, **arrays):
    """The file with another header or other arrays, check sums and digest right."""
    with np.load(io.BytesIO(raw)) as file:
        content = {name: file[name] for name in file.files}
    header = json.loads(str(content["header"]))
    if change_header is not None:
        change_header(header)
    content = {name: array for name, array in (content | arrays).items() if array is not None}
    del content["header"]
    if mark is not None:
        header["digest"] = mark({key: header[key] for key in saving.COVERED}, content)
    content |= {"header": np.array(json.dumps(header))}
    out = io.BytesIO()
    np.savez(out, **content)
    return out.getvalue()


@pytest.mark.parametrize("name", ALL)
def test_saved_and_loaded(name, tmp_path):
    estimator, data = ALL[name]
    X, y = data()
    fitted = clone(estimator).set_params(callback=lambda progress: False).fit(X, y)
    fitted.save(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    again = pb.load(tmp_path / "model")
    assert type(again) is type(fitted) and repr(again) == repr(estimator) and again.callback is None
    assert same(again.predict(X), fitted.predict(X))
    again.save(tmp_path / "twin")
    with np.load(tmp_path / "model") as mine, np.load(tmp_path / "twin") as theirs:
        assert mine.files == theirs.files
        for key, array in mine.items():
            assert array.dtype == theirs[key].dtype and array.tobytes() == theirs[key].tobytes()
    if "warm_start" in again.get_params():
        again.set_params(warm_start=True)
    again.fit(X, y)                                         # as good as the old one in every way
    again.save(str(tmp_path / "model"))
    with open(tmp_path / "model", "rb") as file:
        assert same(pb.load(file).predict(X), again.predict(X))


def test_every_estimator_is_covered():
    assert {type(estimator).__name__ for estimator, _ in ALL.values()} == saving.names() - {
        "DecisionFocusedRegressor"}      # its solver is code, see test_learned_costs.py


@pytest.mark.parametrize("path", sorted(DATA.glob("*.npz")), ids=lambda path: path.stem)
def test_files_of_every_released_version(path):
    expected = json.loads(path.with_suffix(".json").read_text())
    model = pb.load(path)
    assert type(model).__name__ == expected["class"] and model.get_params()["C"] == expected["C"]
    assert [np.asarray(found).tolist() for found in model.predict(expected["X"])] == expected["y"]
    assert model.lower_bound_ <= model.objective_ and model.gap_ <= model.tol and model.certified_


def test_there_are_files_of_versions():
    assert len(list(DATA.glob("*-0.2.0.npz"))) == 2


def test_header_is_plain_json(small):
    with np.load(io.BytesIO(small), allow_pickle=False) as file:
        header = json.loads(str(file["header"]))
    assert header["class"] == "ChainSVM" and header["version"] == 1 and header["pybundle"] == pb.__version__
    assert header["parameters"]["tol"] == 1e-2 and header["certificate"]["certified_"] is True
    assert "callback" not in header["parameters"]


@pytest.mark.parametrize("name, value", [
    ("random_state", np.random.RandomState(0)), ("class_weight", {"a": object()}), ("loss", lambda: 1),
])  # fmt: skip
def test_parameters_of_code_are_refused_by_name(name, value, tmp_path):
    svm = pb.MulticlassSVM().fit(*flat())
    vars(svm)[name] = value
    with pytest.raises(pb.StateError, match=f"parameter {name} of MulticlassSVM cannot be saved"):
        svm.save(tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_range_is_saved_as_a_tuple(tmp_path):
    graphs = pb.GraphSVM(symmetric=range(1)).fit(*labelled_graphs())
    graphs.save(tmp_path / "model.npz")
    assert pb.load(tmp_path / "model.npz").symmetric == (0,)


def test_what_cannot_be_saved(tmp_path):
    class Mine(pb.MulticlassSVM):
        pass

    with pytest.raises(pb.StateError, match="Mine is no estimator of pybundle"):
        Mine().fit(*flat()).save(tmp_path / "x.npz")
    with pytest.raises(NotFittedError):
        pb.MulticlassSVM().save(tmp_path / "x.npz")
    with pytest.raises(FileNotFoundError, match=r"none/x.npz'$"):
        pb.MulticlassSVM().fit(*flat()).save(tmp_path / "none" / "x.npz")
    with pytest.raises(FileNotFoundError):
        pb.load(tmp_path / "x.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "old"
    path.write_bytes(b"old")
    os.chmod(path, 0o640)
    (tmp_path / "link").symlink_to(path)

    def fail(file):
        file.write(b"half")
        raise KeyboardInterrupt

    def fill(file):
        raise OSError(28, "No space left on device")

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, fail)
    with pytest.raises(OSError, match=re.escape(str(path))):
        write_atomically(path, fill)
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 2
    write_atomically(tmp_path / "link", lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new" and (tmp_path / "link").is_symlink() and path.stat().st_mode & 0o777 == 0o640


def no_class(header):
    header["class"] = "Popen"


def class_list(header):
    header["class"] = ["ChainSVM"]


def newer(header):
    header["version"] = 2


def no_version(header):
    del header["version"]


def other_kind(header):
    header["format"] = "bundles"


def less(header):
    header["arrays"].pop()


def strange_parameter(header):
    header["parameters"]["start_"] = 1


def array_parameter(header):
    header["parameters"]["loss"] = {"array": "coef_"}


def bad_parameter(header):
    header["parameters"]["start"] = {"object": [1]}


def private(header):
    header["values"]["_encode"] = 1


def method(header):
    header["values"]["predict"] = 1


def text_bound(header):
    header["certificate"]["gap_"] = "small"


def negative_gap(header):
    header["certificate"]["gap_"] = -1.0


def crossed_bounds(header):
    header["certificate"]["lower_bound_"] = 2.0 * header["certificate"]["objective_"]


def no_bound(header):
    header["certificate"]["lower_bound_"] = float("nan")


def perhaps_certified(header):
    header["certificate"]["certified_"] = "maybe"


def negative_constant(header):
    header["parameters"]["C"] = -5


def text_tolerance(header):
    header["parameters"]["tol"] = "x"


def column_list(header):
    header["columns"] = [1]


def nested(header):
    header["values"]["n_features_in_"] = [1]


def features(header):
    header["values"]["n_features_in_"] += 1


def more_bits(header):
    header["parameters"]["start"] = False


@pytest.mark.parametrize("change, text", [
    (no_class, "class 'Popen' is unknown"), (class_list, "not an estimator"), (newer, "version 2 .* is unknown"),
    (no_version, "version None"), (other_kind, "do not match its header"), (less, "the arrays of its header"),
    (strange_parameter, "start_"), (array_parameter, "not an estimator"), (bad_parameter, "not an estimator"),
    (private, "no attribute of a fitted"), (method, "no attribute of a fitted"), (text_bound, "gap_ must be a number"),
    (nested, "numbers or texts"), (features, "coef_ must have the shape"), (more_bits, "coef_ must have the shape"),
    (negative_gap, "gap_ >= 0 must hold"), (crossed_bounds, "lower_bound_ <= objective_"),
    (no_bound, "lower_bound_ <= objective_"), (perhaps_certified, "certified_ must be True or False"),
    (negative_constant, "C must be a finite number > 0"), (text_tolerance, "tol must be a real number"),
    (column_list, "columns must be"),
])  # fmt: skip
def test_headers_are_checked(small, change, text):
    with pytest.raises(pb.StateError, match=text) as caught:
        pb.load(io.BytesIO(rewritten(small, change)))
    assert "\n" not in str(caught.value)


def no_digest(header):
    del header["digest"]


@pytest.mark.parametrize("change, arrays", [
    (negative_gap, {}), (negative_constant, {}), (no_digest, {}), (lambda header: header.update(columns={}), {}),
    (None, {"coef_": np.zeros(3)}), (None, {"classes_": np.array(["A", "B", "D"])}),
])  # fmt: skip
def test_a_changed_file_is_noticed(small, change, arrays):
    with pytest.raises(pb.StateError, match="its digest does not fit: it was changed"):
        pb.load(io.BytesIO(rewritten(small, change, mark=None, **arrays)))


def test_names_of_columns_come_back_as_scikit_learn_has_them(tmp_path):
    X, y = flat()
    for estimator in (pb.MulticlassSVM(), pb.OnlineMKLClassifier(n_epochs=1)):
        fitted = estimator.fit(X, y)
        fitted.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)      # as a data frame would give them
        fitted.save(tmp_path / "model.npz")
        again = pb.load(tmp_path / "model.npz")
        assert again.feature_names_in_.dtype == fitted.feature_names_in_.dtype == object
        assert again.feature_names_in_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("arrays", [
    {"coef_": None}, {"extra": np.zeros(1)}, {"coef_": np.full(3, np.nan)}, {"classes_": np.array(["B", "A", "C"])},
    {"vocabulary_/ends": np.array([3, 1, 2])}, {"vocabulary_/utf8": np.array([255], np.uint8)},
    {"header": np.array("[" * 10**5)}, {"header": np.array("{}")}, {"header": np.zeros(3)},
])  # fmt: skip
def test_arrays_are_checked(small, arrays):
    raw = small
    if "header" not in arrays:
        gone = {name for name, array in arrays.items() if array is None}
        raw = rewritten(small, lambda header: header.update(
            arrays=sorted((set(header["arrays"]) | set(arrays)) - gone)), **arrays)
    else:
        out = io.BytesIO()
        np.savez(out, **arrays)
        raw = out.getvalue()
    with pytest.raises(pb.StateError):
        pb.load(io.BytesIO(raw))


STRANGE = (0, -1, 1, 3, 10**9, 2**62, 2**70, -2.5, 1e300, float("nan"), None, True, False, "x", {"list": []},
           {"list": [{"list": [9, 9]}]}, {"tuple": ["a"]}, {"dict": [["a", 1]]}, [1], {})


def hostile(array, rng):
    """An array that is not the one that was saved."""
    kind = rng.integers(6)
    if kind == 0 and array.size and array.dtype.kind in "iu":
        array = array.copy()
        array.flat[rng.integers(array.size)] = rng.choice([0, 5, 100, np.iinfo(array.dtype).max])
    return {1: array[:-1], 2: np.concatenate([array, array]), 3: array[None], 4: array[::-1],
            5: array.astype(np.int32) if array.dtype.kind in "iuf" else array}.get(kind, array)


@pytest.mark.parametrize("name", ALL)
def test_hostile_files_with_right_check_sums(name, tmp_path):
    """What is let in can predict, or says why not; nothing is read beyond an array, no memory is taken for a number."""
    estimator, data = ALL[name]
    X, y = data()
    clone(estimator).set_params(tol=0.1).fit(X, y).save(tmp_path / "model")
    raw, rng, refused = (tmp_path / "model").read_bytes(), np.random.default_rng(0), 0
    with np.load(tmp_path / "model") as file:
        arrays = {key: file[key] for key in file.files if key != "header" and not key.startswith("history_")}
    for _ in range(25):
        def change(header):
            section = header[rng.choice(["parameters", "values", "certificate"])]
            if section:
                section[rng.choice(sorted(section))] = STRANGE[rng.integers(len(STRANGE))]
        key = str(rng.choice(sorted(arrays)))
        changed = rewritten(raw, change) if rng.random() < 0.5 else rewritten(raw, **{key: hostile(arrays[key], rng)})
        try:
            model = pb.load(io.BytesIO(changed))
        except pb.StateError:
            refused += 1
            continue
        try:
            model.predict(X)
        except pb.BundleError:
            pass
    assert refused > 3


def test_objects_are_never_unpickled(tmp_path):
    class Evil:
        def __reduce__(self):
            return open, (str(tmp_path / "touched"), "w")

    np.savez(tmp_path / "evil.npz", header=np.array(Evil(), dtype=object))
    with pytest.raises(pb.StateError, match="numbers or texts"):
        pb.load(tmp_path / "evil.npz")
    assert not (tmp_path / "touched").exists()


def npy(shape, data, descr="<f8"):
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": descr, "fortran_order": False, "shape": shape})
    return out.getvalue() + data


def zipped(method=zipfile.ZIP_STORED, **entries):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, raw in entries.items():
            file.writestr(f"{name}.npy", raw)
    return out.getvalue()


@pytest.mark.parametrize("raw", [
    zipped(header=npy((10**15,), b"12345678")),                                      # shape beyond the file
    zipped(header=npy((-1,), b"12345678")), zipped(header=npy((2**62, 4), b"")),
    zipped(header=npy((1,), b"12345678", "|V8")), zipped(header=npy((3,), b"\xff" * 12, "<U1")),
    zipped(header=npy((1,), b"\x07", "|b1")), zipped(header=npy((5,), b"", "<U0")),
    zipped(header=b"\x93NUMPY\x09\x00"), zipped(header=b""), zipped(), b"", b"PK\x05\x06", b"PK" * 100,
    zipped(zipfile.ZIP_DEFLATED, header=npy((10**6,), bytes(8 * 10**6))),            # a bomb
    zipped(zipfile.ZIP_LZMA, header=npy((1,), b"12345678")),
])  # fmt: skip
def test_malformed_archives(raw):
    with pytest.raises(pb.StateError):
        pb.load(io.BytesIO(raw))
    with pytest.raises(pb.ParameterError) if raw[:4] != b"PK\x05\x06" or len(raw) < 22 else warnings.catch_warnings():
        read_npz(io.BytesIO(raw), error=pb.ParameterError)


def test_mutated_files_are_refused_or_the_same(small):
    model, rng = pb.load(io.BytesIO(small)), np.random.default_rng(0)
    X, _ = chains(8)
    expected, refused = model.predict(X), 0
    for _ in range(2000):
        raw = bytearray(small)
        kind = rng.integers(4)
        if kind == 0:
            for place in rng.integers(0, len(raw), rng.integers(1, 4)):
                raw[place] = rng.integers(256)
        elif kind == 1:
            del raw[rng.integers(len(raw)):]
        elif kind == 2:
            first, last = np.sort(rng.integers(0, len(raw), 2))
            del raw[first:min(last, first + 50)]
        else:
            place = rng.integers(len(raw))
            raw[place:place] = rng.bytes(rng.integers(1, 20))
        try:
            found = pb.load(io.BytesIO(bytes(raw)))
        except pb.StateError:
            refused += 1
        else:                           # what was hit says nothing: times, attributes, padding
            assert same(found.predict(X), expected) and found.gap_ == model.gap_
    assert refused > 1000


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_what_is_no_file_is_written_into_and_not_replaced(tmp_path):
    write_atomically("/dev/null", lambda file: file.write(b"x"))
    assert not Path("/dev/null").is_file()
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(tmp_path / "pipe", lambda file: file.write(b"hello"))
    assert os.read(reader, 10) == b"hello" and [path.name for path in tmp_path.iterdir()] == ["pipe"]
    os.close(reader)
    with pytest.raises(IsADirectoryError, match=re.escape(str(tmp_path))):
        write_atomically(tmp_path, lambda file: file.write(b"x"))


def test_new_files_have_the_permissions_of_the_process(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    write_atomically(tmp_path / "ours", lambda file: file.write(b"x"))
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("path", [None, 3, 0, b"x.npz", ["x"]])
def test_a_path_is_a_text_or_a_path(path):
    with pytest.raises(pb.InputTypeError, match="path must be the path of a file"):
        pb.load(path)
    with pytest.raises(pb.InputTypeError, match="path must be the path of a file"):
        pb.MulticlassSVM().fit(*flat()).save(path)
