"""Dependency models: features by hand, risk by enumeration, and what is refused."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from reference.arborescence import all_trees, is_tree
from reference.treebank import make_treebank

import pybundle as pb
from pybundle.core.ragged import Ragged
from pybundle.models import Dependency
from pybundle.models.dependency._kernels import add_trees

TEMPLATES = ["h.word m.pos", "h.pos h+1.pos m-1.pos distance", "m.word direction", "h.pos m.pos set.pos",
             "h.pos each.pos distance", "h-1.word m.word m+1.pos each.pos", "h.pos"]
KINDS = ["hashed", "rows", "rows32"]


def words(n_sentences=12, longest=4, seed=0, single_root=True):
    rng = np.random.default_rng(seed)
    X = [rng.integers(0, 4, (n, 2)) for n in rng.integers(1, longest + 1, n_sentences)]
    trees = {n: list(all_trees(n, single_root)) for n in range(1, longest + 1)}
    return X, [trees[len(x)][rng.integers(len(trees[len(x)]))] for x in X]


def problem(kind, single_root=True, seed=0):
    X, Y = words(seed=seed, single_root=single_root)
    if kind == "hashed":
        return Dependency.hashed(9, templates=TEMPLATES, single_root=single_root), X, Y
    rng = np.random.default_rng(seed)
    X = [sp.csr_array(sp.random(len(x)**2, 9, 0.4, random_state=rng)) for x in X]
    return Dependency(9, single_root=single_root), [x.astype("f4" if kind == "rows32" else "f8") for x in X], Y


def arcs_of(n):
    return [(h, m) for h in range(n + 1) for m in range(1, n + 1) if m != h]


def arc_features(model, x):
    """Dense features of every arc, one at a time, in the order of rows."""
    arcs, _ = model._bind([x])
    length = int(arcs.starts_array[1])
    out = []
    for h, m in arcs_of(length - 1):
        heads, slope = np.full(length, -1, np.int32), np.zeros(model.dim)
        heads[m] = h
        add_trees(arcs, np.zeros(1, np.intp), np.full(length, -1, np.int32), heads, np.zeros(1, np.int64), np.ones(1),
                  slope)
        out.append(slope)
    return out


def names_by_hand(x, h, m):
    """What TEMPLATES say of an arc."""
    def attribute(column, k):
        return "outside" if k < 0 or k > len(x) else "root" if k == 0 else int(x[k - 1][column])

    def word(k):
        return attribute(0, k)

    def pos(k):
        return attribute(1, k)

    side = "root" if h == 0 else "right" if m > h else "left"
    bucket = (side, 0 if h == 0 else max(edge for edge in (1, 2, 3, 4, 5, 6, 8, 11, 16, 26) if edge <= abs(m - h)))
    between = {int(x[k - 1][1]) for k in range(min(h, m) + 1, max(h, m))}
    names = [("a", word(h), pos(m)), ("b", pos(h), pos(h + 1), pos(m - 1), bucket), ("c", word(m), side),
             ("d", pos(h), pos(m), frozenset(between)), ("g", pos(h))]
    names += [("e", pos(h), k, bucket) for k in between]
    return names + [("f", word(h - 1), word(m), pos(m + 1), k) for k in between]


def test_templates_make_the_features_they_say():
    """An equal name is an equal number; in a wide space different names have different ones, nearly always."""
    model = Dependency.hashed(16, templates=TEMPLATES)
    numbers, seen, rng = {}, set(), np.random.default_rng(0)
    for n in (1, 2, 9, 5, 30):
        x = rng.integers(0, 3, (n, 2))
        for (h, m), feature in zip(arcs_of(n), arc_features(model, x), strict=True):
            names = names_by_hand(x, h, m)
            assert feature.sum() == len(names)
            found = set(np.flatnonzero(feature).tolist())
            seen |= found
            for name in names:
                numbers[name] = numbers.get(name, found) & found
    assert len(numbers) > 400 and all(numbers.values())
    assert 0.98 * len(numbers) < len(seen) <= len(numbers)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_products_with_features(kind):
    model, X, _ = problem(kind)
    w = np.random.default_rng(1).standard_normal(model.dim)
    for x in X:
        features = np.array(arc_features(model, x))
        if kind != "hashed":
            assert np.allclose(features, x.toarray())
        arcs, _ = model._bind([x])
        scores = arcs.scores(0, w)[:, :, 0]
        assert [scores[h, m] for h, m in arcs_of(len(scores) - 1)] == pytest.approx(features @ w, abs=1e-12)
        assert not scores[:, 0].any() and not scores.diagonal().any()


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_risk_equals_enumeration(kind, single_root, loss):
    model, X, Y = problem(kind, single_root)
    rng = np.random.default_rng(2)
    weights = rng.random(len(X))
    risk = pb.risks.Structured(model, X, Y, n_parts=2, loss=loss, sample_weight=weights)
    for t in range(4):
        w = rng.standard_normal(model.dim) * (0.1, 1.0, 5.0, 900.0)[t]
        expected, slope = 0.0, np.zeros(model.dim)
        for x, y, c in zip(X, Y, weights, strict=True):
            features = dict(zip(arcs_of(len(y) - 1), arc_features(model, x), strict=True))
            trees = list(all_trees(len(y) - 1, single_root))
            psi = np.array([sum(features[h[m], m] - features[y[m], m] for m in range(1, len(y))) for h in trees])
            values = psi @ w
            if loss == "hinge":
                values = values + [(h != y).sum() for h in trees]
                expected += c * values.max()
            else:
                value = np.logaddexp.reduce(values)
                expected += c * value
                slope += c * np.exp(values - value) @ psi
        planes = risk.planes(w)
        assert planes.values.sum() == pytest.approx(expected, rel=1e-12)
        found = np.asarray(planes.slopes.sum(0))
        assert (planes.offsets.sum() + found @ w) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        if loss == "logistic":
            assert found == pytest.approx(slope, abs=1e-9)
        values, errors = risk.values(w)
        assert abs(values.sum() - expected) <= errors.sum() + 1e-12 * expected


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_single_methods_agree_with_batches(kind, single_root):
    model, X, Y = problem(kind, single_root)
    oracle, rows = model.oracle(X, Y), np.array([7, 2, 11, 2])
    w = np.random.default_rng(3).standard_normal(model.dim)
    for loss in (False, True):
        found = oracle.solve_batch(rows, w, loss)
        for j, i in enumerate(rows):
            alone = model.loss_augmented_decode(w, X[i], Y[i]) if loss else model.decode(w, X[i])
            heads = found.labellings[j]
            assert np.array_equal(alone, heads) and is_tree(heads.tolist(), single_root)
            psi = model.joint_feature(X[i], heads) - model.joint_feature(X[i], Y[i])
            cost = model.loss(Y[i], heads)
            assert found.values[j] == pytest.approx((psi @ w).item() + loss * cost, abs=1e-10)
            plane = oracle.plane(i, heads)
            assert plane.offset == cost == oracle.losses([i], [heads])[0]
            assert plane.slope == pytest.approx(psi.toarray().ravel(), abs=1e-12)
    assert model.loss(Y[0], Y[0]) == 0.0
    assert np.array_equal(oracle.solve(4, w).labelling, oracle.solve_batch([4], w).labellings[0])
    assert (np.abs(oracle.plane(4, oracle.solve(4, w).labelling).slope).sum() <= oracle.norms[4] * 3.0)


@pytest.mark.parametrize("kind", KINDS)
def test_terms_of_the_log_loss_are_counted(kind):
    """As often as the most frequent feature occurs on any arc: so many roundings an entry of a slope may have."""
    model, X, Y = problem(kind)
    rows = np.array([3, 0, 7])
    features = [np.array(arc_features(model, X[i])) for i in rows]
    # equal numbers of templates count as often as they are equal; a listed feature counts once
    expected = sum((x if kind == "hashed" else x != 0.0).sum(axis=0) for x in features).max()
    assert model.oracle(X, Y).additions(rows) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors_of_groups_of_listed_features(dtype):
    """In any order of the weights, and in any numbering of the features."""
    rng = np.random.default_rng(0)
    X = [sp.csr_array(sp.random(n * n, 30, 0.4, random_state=rng)).astype(dtype) for n in (2, 5, 6, 1)]
    oracle = Dependency(30).oracle(X, [np.arange(-1, int(x.shape[0] ** 0.5)) for x in X])
    w, labels, scales = rng.standard_normal(30), rng.integers(0, 7, 30).astype(np.int32), rng.random(7)
    scales[3], places = 0.0, rng.permutation(30)
    renumbered = oracle.renumbered(places.astype(np.int32), 30)
    by_place = np.argsort(places)
    for rows in (np.arange(4), np.array([2, 0])):
        expected = oracle.solve_batch(rows, w * scales[labels])
        for found in (oracle.solve_scaled(rows, w, scales, labels),
                      renumbered.solve_scaled(rows, w[by_place], scales, labels[by_place])):
            np.testing.assert_array_equal(found.labellings.values, expected.labellings.values)
            np.testing.assert_allclose(found.uppers, expected.uppers, rtol=1e-12)
    planes, others = (o.planes(rows, expected.labellings)[1].toarray() for o in (oracle, renumbered))
    np.testing.assert_array_equal(others[:, places], planes)


def test_norms_bound_the_pieces():
    for kind in KINDS:
        model, X, Y = problem(kind)
        oracle = model.oracle(X, Y)
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            features = arc_features(model, x)
            n = len(y) - 1
            size = max(np.abs(f).sum() if kind == "hashed" else np.linalg.norm(f) for f in features)
            assert 2.0 * n * size <= oracle.norms[i] * (1.0 + 1e-6)


def test_check_oracle_finds_nothing():
    for kind in KINDS:
        model, X, Y = problem(kind)
        report = pb.check_oracle(model, X, Y)
        assert report, str(report)


def test_ragged_data_executors_and_pickles_give_the_same_bits():
    model, X, Y = problem("hashed")
    w = np.random.default_rng(5).standard_normal(model.dim)
    for loss in ("hinge", "logistic"):
        risk = pb.risks.Structured(model, X, Y, loss=loss)
        values, slopes = risk.evaluate(w)
        with ThreadPoolExecutor(3) as executor:
            again = [pb.risks.Structured(model, Ragged.of(X), Ragged.of(Y), loss=loss), risk.derive(executor=executor)]
            for other in again:
                assert np.array_equal(other.evaluate(w)[0], values) and np.array_equal(other.evaluate(w)[1], slopes)
                assert other.fingerprint == risk.fingerprint
    assert pickle.loads(pickle.dumps(model)).templates == model.templates


def test_training_learns_a_planted_treebank():
    treebank = make_treebank(60, share_crossing=0.2, random_state=0)
    model = Dependency.hashed(12, treebank.attributes, ["h.pos m.pos direction", "h.word m.word"])
    for loss in ("hinge", "logistic"):
        risk = pb.risks.Structured(model, treebank.X, treebank.Y, loss=loss)
        result = pb.minimize(risk, lam=0.05, tol=1e-2, max_iter=300)
        assert result.success
        n_words = sum(len(y) - 1 for y in treebank.Y)
        assert risk.predict_losses(result.x).sum() < 0.15 * n_words


def test_templates_are_checked():
    def hashed(*templates, attributes=("word", "pos")):
        return Dependency.hashed(8, attributes, templates)

    with pytest.raises(pb.ParameterError, match=r"templates\[1\] = 'h.word m.tag' uses the attribute 'tag'; .*'pos'"):
        hashed("h.word", "h.word m.tag")
    with pytest.raises(pb.ParameterError, match=r"templates\[0\] = 'h.word x.pos' must be made of"):
        hashed("h.word x.pos")
    with pytest.raises(pb.ParameterError, match="must ask for something of head or word"):
        hashed("distance")
    with pytest.raises(pb.ParameterError, match="'set' or 'each', not both"):
        hashed("h.pos set.pos each.pos")
    with pytest.raises(pb.InputTypeError, match="templates must be a sequence of strings"):
        Dependency.hashed(8, ("word", "pos"), "h.word")
    with pytest.raises(pb.ParameterError, match="templates must hold 1 to 128"):
        hashed()
    with pytest.raises(pb.ParameterError, match="different names"):
        hashed("h.pos", attributes=("pos", "pos"))
    with pytest.raises(pb.ParameterError, match="bits must be an integer <= 30, got 31"):
        Dependency.hashed(31)
    with pytest.raises(pb.InputTypeError, match="single_root must be True or False"):
        Dependency(3, single_root=1)


def test_sentences_are_checked():
    model, X, Y = problem("hashed")

    def refused(error, text, X=X, Y=Y, model=model):
        with pytest.raises(error, match=text):
            model.oracle(X, Y)

    refused(pb.ParameterError, r"X\[0\] must have shape \(n_words, 2\)", X=[x[:, :1] for x in X])
    refused(pb.InputTypeError, "X must hold integers", X=[x * 1.0 for x in X])
    bad = [x.copy() for x in X]
    bad[3][0, 1] = 64
    refused(pb.ParameterError, r"X\[3\]\[0\] must have the attribute 'pos' 0\.\.63.*, got 64", X=bad)
    bad[3][0] = -1, 1
    refused(pb.ParameterError, r"X\[3\]\[0\] must have the attribute 'word' 0 or more, got -1", X=bad)
    refused(pb.ParameterError, r"X\[2\] has no words", X=[*X[:2], X[2][:0], *X[3:]])
    refused(pb.ParameterError, "same number of examples", X=X[1:])
    model, X, Y = problem("rows")
    refused(pb.ParameterError, r"X\[1\] must have n\^2 rows", X=[X[0], sp.csr_array((3, 9)), *X[2:]], model=model)
    refused(pb.ParameterError, "n_features = 8 columns, got 9", model=Dependency(8), X=X)
    refused(pb.InputTypeError, "Dependency.hashed", X=[x.toarray() for x in X], model=model)


def test_truth_trees_are_checked():
    model = Dependency.hashed(8, ["pos"], ["h.pos m.pos"])
    X = [np.zeros((3, 1), int)] * 2
    good = np.array([-1, 0, 1, 1])
    for bad, text in (([-1, 0, 1], r"Y\[1\] must have one head for each of 3 words, got 2"),
                      ([0, 0, 1, 1], r"Y\[1\]\[0\] must be -1, the place of the root, got 0"),
                      ([-1, 0, 4, 1], r"Y\[1\]: the head of word 2 must be 0\.\.3, got 4"),
                      ([-1, 0, -1, 1], r"Y\[1\]: the head of word 2 must be 0\.\.3, got -1"),
                      ([-1, 0, 3, 2], r"Y\[1\]: word 2 is on a cycle of words, 2 -> 3 -> 2"),
                      ([-1, 0, 2, 1], r"Y\[1\]: word 2 is on a cycle of words, 2 -> 2"),
                      ([-1, 2, 3, 1], r"Y\[1\]: word 1 is on a cycle of words, 1 -> 2 -> 3 -> 1"),
                      ([-1, 0, 1, 0], r"Y\[1\]: word 3 is a second word on the root beside word 1")):
        with pytest.raises(pb.ParameterError, match=text):
            model.oracle(X, [good, np.array(bad)])
        if text.endswith("word 1"):
            assert Dependency.hashed(8, ["pos"], ["h.pos"], single_root=False).oracle(X, [good, np.array(bad)])
    with pytest.raises(pb.InputTypeError, match=r"Y\[0\] must hold integers, got dtype float64"):
        model.oracle(X, [good * 1.0, good * 1.0])
    with pytest.raises(pb.ParameterError, match="y must have one head for each of 3 words, got 1"):
        model.joint_feature(X[0], good[:2])
    oracle = model.oracle(X, [good, good])
    for labellings in ([good[:2]], [np.array([-1, 0, 4, 0])], [good, good]):
        with pytest.raises(pb.ParameterError, match=r"labellings must (be heads|hold one labelling for each)"):
            oracle.losses([0], labellings)
    with pytest.raises(pb.NumericalError, match="sentence 0 has scores beyond"):
        oracle.solve(0, np.full(model.dim, 1e305))
