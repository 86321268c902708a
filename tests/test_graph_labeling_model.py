"""Labels on graphs: features, planes of labellings and of relaxed points, bounds on both risks, masks, files."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import pybundle as pb
from pybundle.core.ragged import cut
from pybundle.models.graph_labeling.points import UNIT, as_point, of_labels


def graphs(rng, n_graphs, K, d=3, p=2, n=5, m=6):
    """Connected graphs with cycles, and labels that the features tell with noise."""
    X, Y = [], []
    for _ in range(n_graphs):
        pairs = np.array(list(itertools.combinations(range(n), 2)))
        edges = pairs[rng.permutation(len(pairs))[:m]]
        y = rng.integers(0, K, n)
        nodes = np.concatenate([np.eye(K)[y][:, :d - 1] + 0.8 * rng.normal(size=(n, min(K, d - 1))), np.ones((n, 1))],
                               axis=1)
        X.append(pb.models.Graph(nodes, edges, rng.normal(size=(m, p))))
        Y.append(y)
    return X, Y


def tables_of(model, w, x):
    """Scores of the labels of each node and of the pairs of labels of each edge."""
    head = model.n_labels * model.n_features
    pairs = x.edge_features @ model.pair_weights.tables(w[head:]).reshape(model.n_labels**2, -1).T
    return x.nodes @ w[:head].reshape(model.n_labels, -1).T, pairs.reshape(-1, model.n_labels, model.n_labels)


def enumerated(model, w, x, y):
    """The largest loss plus score relative to the truth over all labellings."""
    nodes, pairs = tables_of(model, w, x)
    Z, (a, b) = np.array(list(itertools.product(range(model.n_labels), repeat=len(y)))), x.edges.T
    scores = nodes[np.arange(len(y)), Z].sum(axis=1) + pairs[np.arange(len(a)), Z[:, a], Z[:, b]].sum(axis=1)
    return max(score + model.loss(y, z) for score, z in zip(scores, Z, strict=True)) - model.joint_feature(x, y) @ w


def relaxed(model, w, x, y):
    """The maximum over the local polytope by linear programming, relative to the truth."""
    K, n, m = model.n_labels, len(y), len(x.edges)
    unaries, tables = tables_of(model, w, x)
    costs = model.node_costs(np.asarray(y), np.ones(n), np.array([0, n]))
    unaries = unaries + costs[:, None] * (np.arange(K) != np.asarray(y)[:, None])
    rows, right = [], []
    for v in range(n):
        row = np.zeros(n * K + m * K * K)
        row[v * K:(v + 1) * K] = 1.0
        rows.append(row)
        right.append(1.0)
    for e, ends in enumerate(x.edges):
        for side, v in enumerate(ends):
            for k in range(K):
                row = np.zeros(n * K + m * K * K)
                table = row[n * K + e * K * K:n * K + (e + 1) * K * K].reshape(K, K)
                (table if side == 0 else table.T)[k] = 1.0
                row[v * K + k] = -1.0
                rows.append(row)
                right.append(0.0)
    found = linprog(-np.concatenate([unaries.ravel(), tables.ravel()]), A_eq=np.array(rows), b_eq=right)
    return -found.fun - model.joint_feature(x, y) @ w


@pytest.mark.parametrize("kinds", [{}, {"symmetric": [0]}, {"antisymmetric": [1]},
                                   {"symmetric": [1], "antisymmetric": [0]}])
def test_scores_are_sums_over_nodes_and_edges(kinds):
    rng = np.random.default_rng(0)
    K, (X, Y) = 3, graphs(np.random.default_rng(1), 4, 3)
    model = pb.models.GraphLabeling(K, 3, 2, **kinds)
    w, head = rng.normal(size=model.dim), 9
    tables = model.pair_weights.tables(w[head:]).reshape(K, K, 2)
    for c in kinds.get("symmetric", ()):
        assert np.array_equal(tables[:, :, c], tables[:, :, c].T)
    for c in kinds.get("antisymmetric", ()):
        assert np.array_equal(tables[:, :, c], -tables[:, :, c].T)
    sizes = {True: {"symmetric": 6, "antisymmetric": 3}, False: {}}[bool(kinds)]
    assert model.dim == head + sum(sizes[name] for name in kinds) + 9 * (2 - len(kinds))
    for x, y in zip(X, Y, strict=True):
        score = sum(w[:head].reshape(K, 3)[y[v]] @ x.nodes[v] for v in range(5))
        score += sum(tables[y[a], y[b]] @ x.edge_features[e] for e, (a, b) in enumerate(x.edges))
        assert model.joint_feature(x, y) @ w == pytest.approx(score, rel=1e-12)


@pytest.mark.parametrize("kinds", [{}, {"symmetric": [0], "antisymmetric": [1]}])
def test_planes_of_labellings_and_of_points(kinds):
    rng = np.random.default_rng(2)
    X, Y = graphs(rng, 3, 3)
    model = pb.models.GraphLabeling(3, 3, 2, loss="hamming", **kinds)
    oracle, rows = model.oracle(X, Y), np.arange(3)
    first, second = ([rng.integers(0, 3, 5) for _ in range(3)] for _ in range(2))
    halves = [as_point((of_nodes(a) + of_nodes(b)) / 2, (of_edges(a, x) + of_edges(b, x)) / 2)
              for a, b, x in zip(first, second, X, strict=True)]
    (one, A), (two, B), (mean, C) = (oracle.planes(rows, labellings) for labellings in (first, second, halves))
    assert mean == pytest.approx((one + two) / 2) and abs(C - (A + B) / 2).max() < 1e-12
    for j in range(3):
        slope = model.joint_feature(X[j], first[j]) - model.joint_feature(X[j], Y[j])
        assert A[[j]].toarray()[0] == pytest.approx(slope, abs=1e-12) and one[j] == model.loss(Y[j], first[j])
        total = np.zeros(model.dim)
        assert oracle.add_planes([j], [halves[j]], np.array([2.0]), total) == pytest.approx(2.0 * mean[j])
        assert total == pytest.approx(2.0 * C[[j]].toarray()[0])
    with pytest.raises(pb.ParameterError, match="labellings of the true risk must be arrays of labels"):
        pb.models.GraphLabeling(3, 3, 2, risk="true").oracle(X, Y).planes(rows[:1], halves[:1])
    bad = halves[0].copy()
    bad[1, 0] -= 1
    with pytest.raises(pb.ParameterError, match="local polytope"):
        oracle.planes(rows[:1], [bad])
    assert (of_labels(first[0], X[0].edges, 3)[:, 1] == UNIT).all()


def of_nodes(labels):
    return np.eye(3)[labels]


def of_edges(labels, x):
    return np.array([np.outer(np.eye(3)[labels[a]], np.eye(3)[labels[b]]) for a, b in x.edges])


@pytest.mark.parametrize("risk", ["true", "relaxed"])
def test_decodings_against_enumeration_and_linear_programs(risk):
    X, Y = graphs(np.random.default_rng(3), 12, 3)
    model = pb.models.GraphLabeling(3, 3, 2, loss="hamming", risk=risk)
    oracle, rows = model.oracle(X, Y), np.arange(12)
    for scale in (0.1, 1.0, 10.0):
        w = scale * np.random.default_rng(4).normal(size=model.dim)
        for _ in range(3):              # messages of the call before
            oracle.accuracies[:] = 1e-6
            found = oracle.solve_batch(rows, oracle.prepare(w))
        losses, slopes = oracle.planes(rows, found.labellings)
        assert losses + slopes @ w == pytest.approx(found.values, rel=1e-9, abs=1e-9)
        for j in range(12):
            most = enumerated(model, w, X[j], Y[j])
            assert found.uppers[j] >= most - 1e-9 * (1.0 + abs(most))
            if risk == "true":
                assert found.values[j] <= most + 1e-9 * (1.0 + abs(most))
            else:
                bound = relaxed(model, w, X[j], Y[j])
                assert found.values[j] - 1e-7 * (1.0 + bound) <= bound <= found.uppers[j] + 1e-7 * (1.0 + bound)
                assert found.uppers[j] - found.values[j] <= 2e-3 * (1.0 + bound)


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
@pytest.mark.parametrize("method", ["auto", "oca", "bmrm", "mp-bcfw"])
def test_both_risks_are_certified(method):
    X, Y = graphs(np.random.default_rng(5), 5, 3, m=8)
    found = {}
    for risk in ("true", "relaxed"):
        model = pb.models.GraphLabeling(3, 3, 2, risk=risk)
        result = found[risk] = pb.minimize(pb.risks.Structured(model, X, Y), lam=0.1, method=method, tol=1e-3,
                                           max_iter=30 if method == "mp-bcfw" else 400)
        assert result.certified and result.risk == risk
        assert all(len(model.decode(result.x, x)) == 5 for x in X)
        value = 0.05 * result.x @ result.x + sum(enumerated(model, result.x, *xy) for xy in zip(X, Y, strict=True))
        assert value <= result.fun + result.error
    above = 0.05 * result.x @ result.x + sum(relaxed(model, result.x, *xy) for xy in zip(X, Y, strict=True))
    assert (result.success or method == "mp-bcfw") and result.lower_bound <= above <= result.fun + 1e-9
    # the relaxed risk is above the true one
    assert found["true"].lower_bound <= found["relaxed"].fun
    assert found["true"].success or found["true"].inference_gap > 0.0


def test_nodes_of_unknown_label_are_left_out():
    X, Y = graphs(np.random.default_rng(6), 8, 3)
    hidden = [np.where(np.arange(5) == i % 5, -1, y) for i, y in enumerate(Y)]
    less = []
    for i, x in enumerate(X):
        kept = np.delete(np.arange(5), i % 5)
        number = np.cumsum(np.arange(5) != i % 5) - 1
        inner = (x.edges != i % 5).all(axis=1)
        less.append(pb.models.Graph(x.nodes[kept], number[x.edges[inner]], x.edge_features[inner]))
    model, rows = pb.models.GraphLabeling(3, 3, 2), np.arange(8)
    one, two = model.oracle(X, hidden), model.oracle(less, [y[y >= 0] for y in hidden])
    w = np.random.default_rng(7).normal(size=model.dim)
    a, b = one.solve_batch(rows, one.prepare(w)), two.solve_batch(rows, two.prepare(w))
    assert np.array_equal(a.uppers, b.uppers) and one.fingerprint == two.fingerprint
    assert model.loss(hidden[0], np.zeros(5, int)) == model.loss(hidden[0][1:], np.zeros(4, int))
    assert len(model.decode(w, X[0])) == 5
    found = model.loss_augmented_decode(w, X[0], hidden[0])
    assert np.array_equal(found == -1, hidden[0] == -1) and 0.0 <= model.loss(hidden[0], found) <= 1.0
    assert len(model.loss_augmented_decode(w, X[0], hidden[0] == 1)) == 5       # labels may be bool
    nobody = pb.risks.Structured(model, X[:2], [np.full(5, -1), Y[1]])
    assert pb.minimize(nobody, lam=1.0).certified


def test_a_run_of_the_other_risk_is_no_warm_start(tmp_path):
    X, Y = graphs(np.random.default_rng(8), 6, 3)
    risks = [pb.risks.Structured(pb.models.GraphLabeling(3, 3, 2, risk=kind), X, Y) for kind in ("relaxed", "true")]
    first = pb.minimize(risks[0], lam=0.1, tol=0.05)
    with pytest.raises(pb.ParameterError, match="must be on the same risk"):
        pb.minimize(risks[1], lam=0.1, warm_start=first)
    assert pb.minimize(risks[0], lam=0.1, tol=1e-2, warm_start=first).success
    with pytest.warns(pb.ConvergenceWarning):
        pb.minimize(risks[0], lam=0.1, tol=1e-3, max_iter=5, checkpoint=tmp_path / "run")
    assert pb.minimize(risks[0], lam=0.1, tol=1e-3, checkpoint=tmp_path / "run").success


def test_models_with_other_tables_are_other_risks():
    X, Y = graphs(np.random.default_rng(12), 3, 3)
    models = [pb.models.GraphLabeling(3, 3, 2, **kinds) for kinds in (
        {"symmetric": [0]}, {"symmetric": [1]}, {"antisymmetric": [0]}, {})]
    assert len({model.oracle(X, Y).fingerprint for model in models}) == 4


def test_predictions_do_not_depend_on_the_scale_of_w():
    X, _ = graphs(np.random.default_rng(13), 20, 3, n=8, m=16)
    model = pb.models.GraphLabeling(3, 3, 2)
    w = np.random.default_rng(14).normal(size=model.dim)
    for x in X:
        assert np.array_equal(model.decode(w, x), model.decode(2.0**-14 * w, x))
    with pytest.raises(pb.NumericalError, match="scores of graphs must be below 1e"):
        model.decode(1e200 * w, X[0])


def test_two_runs_do_not_share_messages():
    X, Y = graphs(np.random.default_rng(9), 6, 3)
    risk = pb.risks.Structured(pb.models.GraphLabeling(3, 3, 2), X, Y)
    alone = pb.minimize(risk, lam=0.1, tol=1e-3)
    with pb.Solve(risk, lam=0.1, tol=1e-3) as one, pb.Solve(risk, lam=0.1, tol=1e-3) as two:
        while one.step() is None:
            two.step()
        assert np.array_equal(one.finish().x, alone.x)
    assert np.array_equal(pb.minimize(risk, lam=0.1, tol=1e-3, n_jobs=2).x, alone.x)


@pytest.mark.filterwarnings("ignore::pybundle.ConvergenceWarning")
@pytest.mark.parametrize("risk", ["relaxed", "true"])
@pytest.mark.parametrize("method", ["auto", "oca", "prox-bmrm", "mp-bcfw"])
def test_threads_change_no_bit(method, risk):
    X, Y = graphs(np.random.default_rng(15), 24, 3, n=100, m=600)
    risk = pb.risks.Structured(pb.models.GraphLabeling(3, 3, 2, risk=risk), X, Y, n_parts=4 if method == "oca" else 1)
    assert len(cut(risk.oracle().sizes)) >= 3       # pieces of work
    one, many = (pb.minimize(risk, lam=1e4, tol=1e-2, method=method, max_iter=3, n_jobs=n) for n in (1, 16))
    assert np.array_equal(many.x, one.x) and (many.fun, many.lower_bound) == (one.fun, one.lower_bound)
    assert one.certified and one.lower_bound > 0.0


def test_labels_of_an_oracle_are_checked():
    X, Y = graphs(np.random.default_rng(10), 2, 3)
    model = pb.models.GraphLabeling(3, 3, 2)
    for bad, message in (([Y[0], np.full(5, 3)], r"Y\[1\]\[0\] must be a label 0..2, or -1 if it is not known, got 3"),
                         ([Y[0], np.full(4, 0)], r"Y\[1\] must have labels for its 5 nodes"),
                         ([Y[0], np.full(5, 0.5)], "Y")):
        with pytest.raises(pb.BundleError, match=message):
            model.oracle(X, bad)
    for arguments, message in (((1, 3, 2), "n_labels must be an integer >= 2, got 1"),
                               ((3, 3, 0), "n_edge_features")):
        with pytest.raises(pb.ParameterError, match=message):
            pb.models.GraphLabeling(*arguments)
    for options, message in (({"symmetric": [2]}, "symmetric must list different edge features 0..1"),
                             ({"symmetric": [0], "antisymmetric": [0]}, "must not share features, got 0"),
                             ({"risk": "exact"}, "risk"), ({"loss": "area"}, "loss"),
                             ({"class_weights": [1.0, -1.0, 1.0]}, "class_weights must be >= 0")):
        with pytest.raises(pb.ParameterError, match=message):
            pb.models.GraphLabeling(3, 3, 2, **options)
    wrong = X[0]._replace(edge_features=np.full((6, 2), np.nan))
    with pytest.raises(pb.ParameterError, match=r"X\[0\].edge_features\[0, 0\] must be a finite number, got nan"):
        model.oracle([wrong], Y[:1])
    with pytest.raises(pb.ParameterError, match="needs marginals"):
        pb.risks.Structured(model, X, Y, loss="logistic")


def test_features_may_be_sparse_or_single():
    import scipy.sparse as sp

    X, Y = graphs(np.random.default_rng(11), 6, 3)
    model = pb.models.GraphLabeling(3, 3, 2)
    dense = pb.minimize(pb.risks.Structured(model, X, Y), lam=1.0, tol=1e-4)
    sparse = [x._replace(nodes=sp.csr_array(x.nodes)) for x in X]
    single = [x._replace(nodes=x.nodes.astype(np.float32)) for x in X]
    for given, rounding in ((sparse, 2e-4), (single, 1e-3)):
        result = pb.minimize(pb.risks.Structured(model, given, Y), lam=1.0, tol=1e-4)
        assert result.fun == pytest.approx(dense.fun, rel=rounding)


def test_sparse_edge_features_may_be_none_or_zeros():
    """A graph without edges, and one whose stored features are all 0, were refused as if they had other shapes."""
    rng = np.random.default_rng(3)
    nodes, edges, model = rng.normal(size=(3, 2)), np.array([[0, 1], [1, 2]]), pb.models.GraphLabeling(3, 2, 1)
    w, ones, zeros = rng.normal(size=model.dim), np.ones((2, 1)), np.zeros((2, 1))
    dense = [pb.Graph(nodes, edges, ones), pb.Graph(nodes, edges, zeros), pb.Graph(nodes, edges[:0], zeros[:0])]
    sparse = [x._replace(edge_features=sp.csr_array(x.edge_features)) for x in dense]
    for order in ([0, 1, 2], [2, 1, 0]):
        one, two = (model.decode_batch(w, [X[i] for i in order]) for X in (dense, sparse))
        np.testing.assert_allclose(one.value, two.value)
