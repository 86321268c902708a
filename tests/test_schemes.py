"""Schemes of chunks: what estimators learn, predict and refuse, against rules written anew."""

import itertools

import numpy as np
import pytest

import pybundle as pb
from pybundle.cli import main
from pybundle.estimators.schemes import RULES, allowed_by
from pybundle.metrics import chunks, rewritten

PREFIXES = {"BIO": "BI", "IOB1": "IB", "BILOU": "BILU", "IOBES": "BIES"}


def labels_of(scheme):
    return ["O", *(f"{prefix}-{kind}" for kind in ("X", "Y") for prefix in PREFIXES[scheme])]


def is_allowed(scheme, labels):
    """A sequence keeps to a scheme if its chunks are written as the scheme writes them."""
    return rewritten(labels, scheme) == list(labels)


@pytest.mark.parametrize("scheme", RULES)
def test_allowed_labellings_are_those_that_the_scheme_writes(scheme):
    classes = np.array(labels_of(scheme))
    allowed = allowed_by(scheme, classes)
    for length in (1, 2, 3):
        for codes in itertools.product(range(len(classes)), repeat=length):
            good = allowed.first[codes[0]] and allowed.last[codes[-1]] and all(
                allowed.pairs[a, b] for a, b in itertools.pairwise(codes))
            assert good == is_allowed(scheme, classes[list(codes)].tolist())


def corpus(scheme, n=60, seed=0):
    """Sentences of words that often, but not always, tell their label."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        labels = []
        while len(labels) < rng.integers(1, 12):
            kind, length = rng.choice(["X", "Y"]), rng.integers(1, 4)
            labels += ["O"] * length if rng.random() < 0.4 else [f"B-{kind}", *[f"I-{kind}"] * (length - 1)]
        Y.append(rewritten(labels, scheme))
        X.append([label if rng.random() < 0.6 else rng.choice(["the", "of"]) for label in Y[-1]])
    return X, Y


@pytest.mark.parametrize("kind", ("ChainSVM", "ChainCRF"))
@pytest.mark.parametrize("scheme", RULES)
def test_no_prediction_breaks_the_scheme(kind, scheme, tmp_path):
    (X, y), (X_test, _) = corpus(scheme), corpus(scheme, seed=1)
    words = [x[::-1] for x in X_test]       # an order that the scheme has not written
    free, model = (getattr(pb, kind)(C=10.0, scheme=some, tol=1e-2).fit(X, y) for some in (None, scheme))
    assert not all(is_allowed(scheme, labels) for labels in free.predict(words))
    assert all(is_allowed(scheme, labels) for labels in model.predict(words)) and model.certified_
    for labellings in model.k_best(words, k=3)[0]:
        assert all(is_allowed(scheme, labels) for labels in labellings)
    model.save(tmp_path / "model.npz")
    again = pb.load(tmp_path / "model.npz")
    assert again.scheme == scheme and again.predict(words) == model.predict(words)
    if kind == "ChainCRF":
        for x, y_hat, p in zip(words, model.predict(words), model.predict_proba(words), strict=True):
            assert np.isfinite(p).all() and p.sum(axis=1) == pytest.approx(np.ones(len(x)))
            assert model.log_likelihood([x], [y_hat])[0] <= 0.0
        wrong = [["O", "I-X"]] if scheme == "BIO" else None
        if wrong is not None:
            assert model.log_likelihood([["the", "of"]], wrong)[0] == -np.inf


def test_known_labels_are_kept():
    X, y = corpus("BIO")
    for model in (pb.ChainSVM(C=10.0, scheme="BIO").fit(X, y), pb.ChainCRF(C=10.0, scheme="BIO").fit(X, y)):
        x, known = ["the", "of", "the"], ["O", None, "I-Y"]
        assert model.predict([x], known=[known]) == [["O", "B-Y", "I-Y"]]
        labellings, scores = model.k_best([x], k=9, known=[known])
        assert labellings == [[["O", "B-Y", "I-Y"]]] and len(scores[0]) == 1
        every = model.predict([x, X[0]], known=[None, y[0]])
        assert every == [model.predict_single(x), y[0]]
        with pytest.raises(pb.ParameterError, match=r"X\[1\], of length 3, must have a labelling in scheme='BIO' with "
                           "the labels in known"):
            model.predict([[], x], known=[[], ["O", "I-X", None]])
        for known, message in (([["O"]], r"known\[0\] must have one entry for each token of X\[0\], 3,"),
                               ([None, None], "known must have an entry for each"),
                               (["OZO"], r"known\[0\] must be a list of labels, .* got 'OZO'"),
                               ([3], r"known\[0\] must be a list of labels"),
                               ([[["O"], None, None]], r"known\[0\]\[0\] must be a label of classes_ or None"),
                               ([["O", "Z", None]], r"known\[0\]\[1\] must be a label of classes_ or None, got 'Z'")):
            with pytest.raises(pb.BundleError, match=message):
                model.predict([x], known=known)
        assert model.predict([x], known=(iter(labels) for labels in [["O", None, "I-Y"]])) == [["O", "B-Y", "I-Y"]]
    p = model.predict_proba([x], known=[["O", None, "I-Y"]])[0]
    names = model.classes_.tolist()
    assert p[1, names.index("B-Y")] == pytest.approx(1.0) and p[0, names.index("O")] == pytest.approx(1.0)
    free = pb.ChainCRF(C=10.0).fit(X, y)
    joint, given = free.predict_proba([x])[0], free.predict_proba([x], known=[["O", None, None]])[0]
    assert given[0, names.index("O")] == 1.0 and not np.allclose(joint[1], given[1])


@pytest.mark.parametrize("scheme, labels, place", (
    ("BIO", ["O", "I-X"], r"y\[1\]\[1\] must keep to scheme='BIO', got 'I-X' after 'O'"),
    ("BIO", ["I-X"], r"y\[1\]\[0\] must keep to scheme='BIO', got 'I-X' as first label"),
    ("BIO", ["B-X", "I-Y"], r"got 'I-Y' after 'B-X'"),
    ("BILOU", ["B-X"], r"y\[1\]\[0\] must keep to scheme='BILOU', got 'B-X' as last label"),
    ("BILOU", ["L-X"], "got 'L-X' as first label"),
    ("IOBES", ["S-X", "E-X"], "got 'E-X' after 'S-X'"),
    ("IOB1", ["B-X"], "got 'B-X' as first label"),
    ("IOBES", ["L-X"], r"y\[1\]\[0\] must be O or one of B-..., I-..., E-..., S-... with scheme='IOBES', got 'L-X'"),
    ("BIO", [""], r"y\[1\]\[0\] must be O or one of B-..., I-... with scheme='BIO', got ''"),
    ("BIO", np.array(["I-X"]), r"y\[1\]\[0\] must keep to scheme='BIO', got 'I-X' as first label"),
    ("BIO", ["NP"], "must be O or one of B-..., I-... with scheme='BIO', got 'NP'"),
    ("bio", ["O"], "scheme must be")))
def test_labels_that_break_a_scheme_are_refused_by_place(scheme, labels, place):
    with pytest.raises(pb.ParameterError, match=place):
        pb.ChainSVM(scheme=scheme).fit([["a", "b"], ["c"] * len(labels)], [["O", "O"], labels])


def test_mended_labels_can_be_learnt():
    X, y = corpus("BIO")
    broken = [[label.replace("B-", "I-") for label in labels] for labels in y]       # classes that are only inner ones
    with pytest.raises(pb.ParameterError, match="rewritten"):
        pb.ChainSVM(scheme="BIO").fit(X, broken)
    mended = [rewritten(labels, "BIO") for labels in broken]
    model = pb.ChainSVM(scheme="BIO").fit(X, mended)
    assert all(is_allowed("BIO", labels) for labels in model.predict(X)) and "B-X" in model.classes_
    for labels, again in zip(broken, mended, strict=True):
        assert chunks(labels) == chunks(again)


def test_sequences_without_a_labelling_of_the_known_classes_are_named():
    model = pb.ChainCRF(scheme="IOBES").fit([["a", "b"], ["c", "d"]], [["B-X", "E-X"], ["B-Y", "E-Y"]])
    for method in (model.predict, model.predict_proba, model.k_best):
        with pytest.raises(pb.ParameterError, match=r"X\[1\], of length 1, .* the classes of the training, got none"):
            method([["a", "b"], ["a"]])


@pytest.mark.parametrize("kind", (pb.ChainSVM, pb.ChainCRF))
def test_a_warm_start_brings_no_weights_that_the_scheme_forbids(kind):
    X, y = corpus("BIO", n=20)
    model = kind(warm_start=True).fit(X, y).set_params(scheme="BIO").fit(X, y)
    forbidden = [mask != 0.0 for mask in model.model_.masks]
    assert forbidden[0].any() and not model.transition_coef_[forbidden[0]].any()
    assert forbidden[1].any() and not model.start_coef_[forbidden[1]].any()


def test_cross_validation_keeps_the_scheme():
    X, y = corpus("BIO", n=24)
    model = pb.ChainCRFCV([0.1, 1.0], cv=2, scheme="BIO").fit(X, y)
    assert all(is_allowed("BIO", labels) for labels in model.predict(X))


def test_the_shell_refuses_and_repairs(tmp_path, capsys):
    data, model = tmp_path / "train.conll", tmp_path / "model.npz"
    data.write_text("the O\ndog I-X\n\na B-X\ncat I-X\n")
    arguments = ["train", str(data), "--model", "crf", "--scheme", "BIO", "--save", str(model), "--quiet"]
    assert main(arguments) == 2
    assert "train.conll, line 2: sentence 1, token 2 must keep to scheme='BIO', got 'I-X' after 'O'; --repair" in (
        capsys.readouterr().err)
    assert main([*arguments, "--repair"]) == 0
    assert pb.load(model).scheme == "BIO" and pb.load(model).classes_.tolist() == ["B-X", "I-X", "O"]
    assert main(["train", str(data), "--model", "crf", "--repair", "--quiet"]) == 2
    assert "--repair belongs to --scheme" in capsys.readouterr().err


@pytest.mark.parametrize("name, text, options", (
    ("a.conll", "the O\ndog I-X\n\na B-X\ncat I-X\n", []),
    ("a.txt", "O\tthe\nI-X\tdog\n\nB-X\ta\nI-X\tcat\n", ["--attributes"]),
    ("a.npz", None, [])))
def test_all_formats_are_checked_repaired_and_verified(name, text, options, tmp_path, capsys):
    """A certificate holds the scheme, without which its labellings would be more."""
    data, certificate = tmp_path / name, tmp_path / "certificate.npz"
    if text is None:
        np.savez(data, X=np.eye(4), y=np.array(["O", "I-X", "B-X", "I-X"]), offsets=np.array([0, 2, 4]))
    else:
        data.write_text(text)
    arguments = ["train", str(data), *options, "--model", "crf", "--scheme", "BIO", "--quiet"]
    assert main(arguments) == 2
    place = name if text is None else f"{name}, line 2"
    assert f"{place}: sentence 1, token 2 must keep to scheme='BIO', got 'I-X' after 'O'" in capsys.readouterr().err
    assert main([*arguments, "--repair", "--certificate", str(certificate)]) == 0
    assert "4 tokens, 1 label rewritten" in capsys.readouterr().out
    assert main(["verify", str(data), "--certificate", str(certificate)]) == 0
    assert "--scheme=BIO --repair" in capsys.readouterr().out
    assert main(["verify", str(data), "--certificate", str(certificate), "--scheme", "IOB1"]) == 2


def test_places_in_files_are_named(tmp_path, capsys):
    good, bad, outside = (tmp_path / name for name in ("good.conll", "bad.conll", "outside.conll"))
    good.write_text("the O\n\nthe O\ndog B-X\n")
    bad.write_text("the O\n\nthe O\ndog Z\n")
    outside.write_text("the O\n\nthe O\ndog O\n")
    assert main(["train", str(bad), "--scheme", "BIO", "--repair", "--quiet"]) == 2
    assert "bad.conll, line 4: sentence 2, token 2 must be O" in capsys.readouterr().err
    assert main(["evaluate", str(good), "--predictions", str(bad)]) == 2
    assert "bad.conll: sentence 2, token 2 must be O" in capsys.readouterr().err
    for strict in ([], ["--strict", "BIO"]):        # a truth without chunks
        assert main(["evaluate", str(outside), "--predictions", str(good), *strict]) == 0
        assert "chunk precision" in capsys.readouterr().out
    (tmp_path / "rows.svm").write_text("1 1:1\n2 1:2\n")
    assert main(["train", str(tmp_path / "rows.svm"), "--repair"]) == 2
    assert "--repair belongs to --scheme" in capsys.readouterr().err
    model = tmp_path / "model.npz"
    good.write_text("the O\ndog B-X\ncat I-X\n")
    assert main(["train", str(good), "--scheme", "BIO", "--save", str(model), "--quiet"]) == 0
    assert main(["info", str(model)]) == 0
    start = next(line for line in capsys.readouterr().out.splitlines() if line.lstrip().startswith("start"))
    assert start.split()[2] == "-inf"       # B-X, I-X, O
