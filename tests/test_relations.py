"""Dependency models with relations: features by hand, risk, marginals and decoding by enumeration, what is refused."""

import pickle
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from reference.arborescence import all_trees, is_tree

import pybundle as pb
from pybundle.core.ragged import Ragged
from pybundle.models import Dependency, WeightedLabels
from pybundle.models.dependency._kernels import add_trees
from pybundle.models.dependency.rules import RelationRules
from pybundle.proof import Labellings

R, BITS = 3, 9
TEMPLATES = ["h.word m.pos", "h.pos each.pos distance"]
RELATION_TEMPLATES = ["h.pos m.pos direction", "m.word", "h.pos m.pos each.pos"]
RULES = np.array([(-1, 0, 1, 0), (0, 1, 0, 1), (0, 1, 1, 1), (0, 1, 1, 2), (-1, 1, 1, 0), (1, 0, 1, 2), (1, 1, 0, 1)])
KINDS = ["hashed", "rules", "rows"]


def allowed(kind, x, h, m):
    """The relations of an arc, from RULES one by one; RULES are sorted, as if the first were the most frequent."""
    if kind != "rules":
        return list(range(R))
    tag = {0: -1} | {k: int(x[k - 1][1]) for k in range(1, len(x) + 1)}
    seen = [r for a, b, right, r in RULES if (a, b, right) == (tag[h], tag[m], m > h)]
    side = [rule for rule in RULES if (rule[0] == -1) == (h == 0)]
    return seen or [r for _, b, _, r in side if b == tag[m]][:1] or [side[0][3]]


def problem(kind, single_root=True, seed=0, loss="both", longest=3):
    """A model, sentences and codes of random trees with allowed relations."""
    rng = np.random.default_rng(seed)
    words = [rng.integers(0, 3, (n, 2)) for n in rng.integers(1, longest + 1, 8)]
    if kind == "rows":
        model = Dependency(5, single_root=single_root, n_relations=R, counts=loss)
        X = [sp.csr_array(sp.random(len(x)**2, 5, 0.5, random_state=rng)) for x in words]
    else:
        more = {"tag": "pos", "allowed": RULES} if kind == "rules" else {}
        model, X = Dependency.hashed(BITS, templates=TEMPLATES, single_root=single_root, n_relations=R, counts=loss,
                                     relation_templates=RELATION_TEMPLATES, **more), words
    Y = []
    for x in words:
        trees = list(labellings(kind, x, single_root))
        Y.append(trees[rng.integers(len(trees))])
    return model, X, words, Y


def labellings(kind, x, single_root):
    for heads in all_trees(len(x), single_root):
        for relations in product(*(allowed(kind, x, heads[m], m) for m in range(1, len(x) + 1))):
            yield np.concatenate([[-1], R * heads[1:] + relations]).astype(np.int32)


def arc_rows(model, x):
    """Features of all arcs of a model without relations, a dictionary."""
    n = x.shape[0] if model.templates is not None else round(x.shape[0]**0.5)
    out = {}
    for h, m in ((h, m) for h in range(n + 1) for m in range(1, n + 1) if m != h):
        heads, slope = np.full(n + 1, -1, np.int32), np.zeros(model.dim)
        heads[m] = h
        arcs, _ = model._bind([x])
        add_trees(arcs, np.zeros(1, np.intp), np.full(n + 1, -1, np.int32), heads, np.zeros(1, np.int64), np.ones(1),
                  slope)
        out[h, m] = slope
    return out


def joint_features(kind, model, x, n):
    """A function from a code and a word to the features that a model with relations should give the arc."""
    if kind == "rows":
        rows, dense = arc_rows(Dependency(5), x), np.zeros((R, 5))

        def features(code, m):
            out = dense.copy()
            out[code % R] = rows[code // R, m]
            return out.ravel()
        return features
    plain = arc_rows(Dependency.hashed(BITS, templates=TEMPLATES), x)
    twin = Dependency.hashed(BITS, templates=RELATION_TEMPLATES)
    twin._make_keys = model._relation_keys          # the same texts have other features in another list
    labels = arc_rows(twin, x)

    def features(code, m):
        out, (h, r) = plain[code // R, m].copy(), divmod(code, R)
        out[np.arange(len(out)) ^ r] += labels[h, m]
        return out
    return features


def count_wrong(y, found, loss):
    wrong = {"both": y != found, "heads": y // R != found // R, "relations": y % R != found % R}[loss]
    return int(wrong[1:].sum())


def enumerated(kind, model, x, words, y, single_root, loss):
    """All labellings of a sentence, their psi and their losses."""
    features = joint_features(kind, model, x, len(words))
    ys = list(labellings(kind, words, single_root))
    joint = [sum(features(int(one[m]), m) for m in range(1, len(one))) for one in (y, *ys)]
    return ys, np.array(joint[1:]) - joint[0], np.array([count_wrong(y, one, loss) for one in ys], float)


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["both", "heads", "relations", "logistic"])
def test_risk_and_its_planes_equal_enumeration(kind, single_root, loss):
    counts = "both" if loss == "logistic" else loss
    model, X, words, Y = problem(kind, single_root, loss=counts)
    rng = np.random.default_rng(2)
    weights = rng.random(len(X))
    risk = pb.risks.Structured(model, X, Y, n_parts=2, loss="logistic" if loss == "logistic" else "hinge",
                               sample_weight=weights)
    listed = [enumerated(kind, model, *each, single_root, counts) for each in zip(X, words, Y, strict=True)]
    for size in (0.0, 0.1, 1.0, 5.0, 900.0):
        w, expected, slope = size * rng.standard_normal(model.dim), 0.0, np.zeros(model.dim)
        for c, (_, psi, losses) in zip(weights, listed, strict=True):
            values = psi @ w
            if loss == "logistic":
                total = np.logaddexp.reduce(values)
                expected += c * total
                slope += c * np.exp(values - total) @ psi
            else:
                expected += c * (values + losses).max()
        planes = risk.planes(w)
        assert planes.values.sum() == pytest.approx(expected, rel=1e-12, abs=1e-12)
        found = np.asarray(planes.slopes.sum(0))
        assert planes.offsets.sum() + found @ w == pytest.approx(expected, rel=1e-9, abs=1e-9)
        if loss == "logistic":
            assert found == pytest.approx(slope, abs=1e-9)
        values, errors = risk.values(w)
        assert abs(values.sum() - expected) <= errors.sum() + 1e-12 * expected


@pytest.mark.parametrize("counts", ["both", "heads", "relations", None])
@pytest.mark.parametrize("kind", KINDS)
def test_words_of_weight_0_are_not_in_the_loss(kind, counts):
    """Without relations (None) the loss is of heads."""
    model, X, words, Y = problem(kind, seed=7, loss=counts or "both")
    if counts is None:
        model = Dependency(5) if kind == "rows" else Dependency.hashed(BITS, templates=TEMPLATES)
        Y = [np.concatenate([[-1], y[1:] // R]) for y in Y]
    rng = np.random.default_rng(8)
    weights = [rng.integers(0, 2, len(y)) for y in Y]
    truths = [WeightedLabels(*pair) for pair in zip(Y, weights, strict=True)]
    risk, oracle, rows = pb.risks.Structured(model, X, truths), model.oracle(X, truths), np.arange(len(X))
    w = rng.standard_normal(model.dim)
    found, values = oracle.solve_batch(rows, w, True), risk.values(w)[0]
    losses, slopes = oracle.planes(rows, found.labellings)
    assert (losses == oracle.losses(rows, found.labellings)).all()
    for i in rows.tolist():
        ys = list(labellings(kind, words[i], True)) if counts else list(all_trees(len(words[i]), True))
        lost = [sum(count_wrong(Y[i][[0, m]], y[[0, m]], counts or "both") for m in np.flatnonzero(weights[i][1:]) + 1)
                for y in ys]
        psi = np.array([model.joint_feature(X[i], y).toarray()[0] for y in ys])
        best = (psi @ w - (model.joint_feature(X[i], truths[i]) @ w).item() + lost).max()
        assert found.values[i] == pytest.approx(best, abs=1e-9)
        assert losses[i] + (slopes[[i]] @ w).item() == pytest.approx(best, abs=1e-9)
        alone = model.loss_augmented_decode(w, X[i], truths[i])
        assert alone.tolist() == found.labellings[i].tolist()
        assert model.loss(truths[i], alone) == losses[i] == lost[[y.tolist() for y in ys].index(alone.tolist())]
    assert values.sum() == pytest.approx(found.values.sum())
    joined = WeightedLabels(Ragged.of(Y), Ragged.of(weights))
    assert model.oracle(X, joined).fingerprint == oracle.fingerprint != model.oracle(X, Y).fingerprint
    ones = [WeightedLabels(y, np.ones(len(y))) for y in Y]
    assert model.oracle(X, ones).fingerprint == model.oracle(X, Y).fingerprint
    certificate = pb.minimize(risk, lam=0.1, tol=1e-2, evidence=True).certificate
    assert pb.verify(certificate, risk, True).ok and not pb.verify(certificate, pb.risks.Structured(model, X, Y)).ok
    for wrong in (np.ones(1), np.full(len(Y[0]), 0.5)):
        with pytest.raises(pb.ParameterError, match=r"weights of Y\[0\] must be 1 for words that the loss counts"):
            model.oracle(X, [WeightedLabels(Y[0], wrong), *Y[1:]])


@pytest.mark.parametrize("kind", KINDS)
def test_planes_of_the_log_loss_lie_below_it(kind):
    """Offsets are lower bounds on entropies, so planes of one point are below the risk at others."""
    model, X, words, Y = problem(kind)
    risk = pb.risks.Structured(model, X, Y, loss="logistic")
    listed = [enumerated(kind, model, *each, True, "both") for each in zip(X, words, Y, strict=True)]
    rng = np.random.default_rng(5)
    for size in (0.01, 1.0, 30.0):
        planes = risk.planes(size * rng.standard_normal(model.dim))
        for other in (0.1, 3.0):
            w = other * rng.standard_normal(model.dim)
            exact = sum(np.logaddexp.reduce(psi @ w) for _, psi, _ in listed)
            assert planes.offsets.sum() + np.asarray(planes.slopes.sum(0)) @ w <= exact * (1.0 + 1e-12)


def test_gradients_of_the_log_loss_equal_differences():
    model, X, _, Y = problem("rules")
    risk = pb.risks.Structured(model, X, Y, loss="logistic")
    rng = np.random.default_rng(6)
    w, step = rng.standard_normal(model.dim), 1e-5
    slope = np.asarray(risk.planes(w).slopes.sum(0))
    for _ in range(5):
        v = rng.standard_normal(model.dim)
        up, down = (risk.planes(w + s * v).values.sum() for s in (step, -step))
        assert (up - down) / (2.0 * step) == pytest.approx(slope @ v, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["both", "heads", "relations"])
def test_single_methods_agree_with_batches_and_enumeration(kind, single_root, loss):
    model, X, words, Y = problem(kind, single_root, seed=1, loss=loss)
    oracle, rows = model.oracle(X, Y), np.arange(len(X))
    w = np.random.default_rng(3).standard_normal(model.dim)
    for augmented in (False, True):
        found = oracle.solve_batch(rows, w, augmented)
        for i in rows.tolist():
            alone = model.loss_augmented_decode(w, X[i], Y[i]) if augmented else model.decode(w, X[i])
            assert alone.tolist() == found.labellings[i].tolist()
            ys, psi, losses = enumerated(kind, model, X[i], words[i], Y[i], single_root, loss)
            values = psi @ w + (losses if augmented else 0.0)
            assert found.values[i] == pytest.approx(values.max(), abs=1e-9)
            place = [y.tolist() for y in ys].index(alone.tolist())
            assert values[place] == pytest.approx(values.max(), abs=1e-9)
            assert model.loss(Y[i], alone) == losses[place] == oracle.losses([i], [alone])[0]
            difference = model.joint_feature(X[i], alone) - model.joint_feature(X[i], Y[i])
            assert difference.toarray()[0] == pytest.approx(psi[place])
    dense, sparse = np.zeros(model.dim), oracle.planes(rows, found.labellings)
    total = oracle.add_planes(rows, found.labellings, np.ones(len(rows)), dense)
    assert dense == pytest.approx(sparse[1].toarray().sum(0)) and total == sparse[0].sum()


@pytest.mark.parametrize("kind", KINDS)
def test_further_labellings_are_the_best_moves_of_one_word(kind):
    """Each has another head for one word, with the best relation of that arc."""
    model, X, words, Y = problem(kind, seed=2)
    oracle, rows = model.oracle(X, Y), np.arange(len(X))
    w = np.random.default_rng(4).standard_normal(model.dim)
    found, owners, further = oracle.best_batch(rows, w, 4)
    for i in rows.tolist():
        ys, psi, losses = enumerated(kind, model, X[i], words[i], Y[i], True, "both")
        values, best = psi @ w + losses, found.labellings[i]
        moved = {}
        for y, value in zip(ys, values, strict=True):
            words_moved = np.flatnonzero(y // R != best // R)
            if len(words_moved) == 1 and (y != best).sum() == 1:
                key = int(words_moved[0]), int(y[words_moved[0]] // R)
                moved[key] = max(moved.get(key, -np.inf), value)
        mine = [further[j] for j in np.flatnonzero(owners == i)]
        at = [values[[y.tolist() for y in ys].index(list(one))] for one in mine]
        assert at == pytest.approx(sorted(moved.values(), reverse=True)[:3])


def test_scores_of_relations():
    """Relations that an arc cannot have are minus infinity, and arcs have the score of their best relation."""
    model, X, *_ = problem("rules", seed=3)
    w = np.random.default_rng(5).standard_normal(model.dim)
    for x in X:
        scores, features = model.relation_scores(w, x), joint_features("rules", model, x, len(x))
        for h, m in ((h, m) for h in range(len(x) + 1) for m in range(1, len(x) + 1) if h != m):
            mine = {r: features(h * R + r, m) @ w for r in allowed("rules", x, h, m)}
            assert np.flatnonzero(np.isfinite(scores[h, m])).tolist() == sorted(mine)
            assert [scores[h, m, r] for r in mine] == pytest.approx(list(mine.values()))
            assert model.arc_scores(w, x)[h, m] == max(scores[h, m])


def test_a_text_in_both_lists_has_different_features():
    """Else the first relation would share its weights with the arc, and gain by whatever makes the arc likely."""
    model = Dependency.hashed(16, templates=RELATION_TEMPLATES, relation_templates=RELATION_TEMPLATES, n_relations=R)
    psi = model.joint_feature(np.array([[0, 0]]), np.array([-1, 0]))
    assert psi.data.tolist() == [1.0] * (2 * len(RELATION_TEMPLATES) - 2)       # nothing is between


def test_arcs_without_a_rule_have_the_first_relation_of_the_tag():
    kinds, first, which = RelationRules(R, 1, RULES).bind(np.array([(0, 9), (0, 0), (0, 1), (0, 7)]), np.array([0, 4]))
    assert kinds.tolist() == [3, 0, 1, 2]
    found = {(h, m, d): which[first[c]:first[c + 1]].tolist() for h, m, d in product(range(4), range(3), (0, 1))
             for c in [2 * (4 * h + m) + d]}
    assert found[0, 1, 1] == [1, 2] and found[1, 1, 1] == [1] and found[2, 0, 0] == [2]
    assert found[0, 2, 0] == [1] and found[3, 2, 1] == [0] and found[3, 0, 1] == [0]


def test_a_run_is_certified_and_survives_a_copy():
    model, X, _, Y = problem("rules", seed=4)
    for loss in ("hinge", "logistic"):
        risk = pb.risks.Structured(model, X, Y, loss=loss)
        result = pb.minimize(risk, lam=0.1, tol=1e-4)
        assert result.success and result.certified
        oracle = pickle.loads(pickle.dumps(model.oracle(X, Y)))
        assert oracle.is_current()
        found = oracle.solve_batch(np.arange(len(X)), result.x, False).labellings
        assert all(is_tree(codes // R, True) for codes in found)


@pytest.mark.parametrize("exact", [False, True])
def test_relations_that_arcs_cannot_have_prove_nothing(exact):
    """Trees with such relations are no labellings of the model, and may lie above its risk."""
    model, X, words, Y = problem("rules", seed=4)
    risk, i = pb.risks.Structured(model, X, Y), next(i for i, x in enumerate(words) if len(x) == 2)
    certificate = pb.minimize(risk, lam=0.1, tol=1e-2, evidence=True).certificate
    for relations in product(range(R), repeat=2):
        codes = np.array([-1, relations[0], R + relations[1]])
        is_allowed = all(codes[m] % R in allowed("rules", words[i], codes[m] // R, m) for m in (1, 2))
        evidence = Labellings.of(np.array([i]), [codes], np.array([0.5]), risk.sample_weight)
        report = pb.verify(replace(certificate, evidence=evidence), risk, exact)
        assert not report.ok and (("computable", False) in [check[:2] for check in report.checks]) != is_allowed
    with pytest.raises(pb.ParameterError, match=r"labellings\[1\] must have relations that `allowed` holds"):
        model.oracle(X, Y).planes([i, i], [Y[i], codes])


def test_bad_input_is_refused_by_name():
    model, X, words, Y = problem("rules")
    i = next(i for i, x in enumerate(words) if len(x) > 1)
    wrong = [y.copy() for y in Y]
    wrong[i][1] = wrong[i][1] // R * R + 1 - wrong[i][1] % R if wrong[i][1] // R == 0 else wrong[i][1] // R * R
    bad = next(r for r in range(R) if r not in allowed("rules", words[i], wrong[i][1] // R, 1))
    wrong[i][1] = wrong[i][1] // R * R + bad
    with pytest.raises(pb.ParameterError, match=rf"Y\[{i}\] must have relations that `allowed` holds, got relation"):
        model.oracle(X, wrong)
    with pytest.raises(pb.ParameterError, match="y must have relations that `allowed` holds"):
        model.joint_feature(X[i], wrong[i])
    for rules, message in (((1, 2, 3), "shape"), ([(0, 0, 2, 0)], r"allowed\[0\]"), ([(0, 0, 1, R)], r"allowed\[0\]"),
                           ([(0, 0, 1, 0), (-1, 0, 0, 0)], r"allowed\[1\] must be two tags, 0 or 1 \(1 for the root\)"),
                           ([(-2, 0, 1, 0)], r"allowed\[0\]"), ([(0, -1, 1, 0)], r"allowed\[0\]"),
                           ([(k, 0, 0, 0) for k in range(300)], "at most 255 tags")):
        with pytest.raises(pb.ParameterError, match=message):
            Dependency.hashed(BITS, n_relations=R, tag="pos", allowed=rules)
    for options, message in (({"counts": "words"}, "counts must be one of 'both', 'heads', 'relations'"),
                             ({"tag": "size"}, "tag must be one of 'word', 'pos'"), ({"blocks": True}, "blocks"),
                             ({"relation_templates": ["h.size"]}, r"relation_templates\[0\] = 'h.size'"),
                             ({"n_relations": 2000}, "bits must leave"),
                             ({"n_relations": None, "allowed": RULES}, "allowed is for models with relations")):
        with pytest.raises(pb.ParameterError, match=message):
            Dependency.hashed(BITS, **({"n_relations": R} | options))
    with pytest.raises(pb.ParameterError, match="without relations"):
        model.oracle(X, Y).solve_scaled([0], np.zeros(model.dim), np.ones(2))
    x, y = sp.csr_array(np.eye(4)), np.array([-1, 0, 1])
    with pytest.raises(pb.ParameterError, match="without relations, got n_relations = 1"):      # it would ignore scales
        Dependency(4, n_relations=1).oracle([x], [y]).solve_scaled([0], np.zeros(4), np.ones(2), np.zeros(4, np.int32))
