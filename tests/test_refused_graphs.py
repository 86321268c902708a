"""Wrong graphs, labels, images, masks and tables: each error names the argument, what came and what was expected."""

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.models import GraphLabeling, WeightedLabels
from pybundle.oracles import graph_labeling, graph_relaxation, min_cut

RING, PLAIN = np.array([[0, 1], [1, 2], [2, 3], [3, 0]]), [[0.0, 0.0], [0.0, 0.0]]
rng = np.random.default_rng(0)
Y = [np.sort(rng.integers(0, 3, 4)) for _ in range(6)]
X = [pb.Graph(np.eye(3)[y] + 0.3 * rng.normal(size=(4, 3)), RING, np.ones((4, 1))) for y in Y]
ROWS = rng.normal(size=(20, 5))
COLUMNS = (ROWS[:, :3] > 0.0).astype(int)
IMAGE, SEGMENTS = rng.random((4, 5, 3)), np.arange(20).reshape(4, 5) // 4
MODEL = GraphLabeling(3, 3, 1)


def first(**fields):
    """The graphs, with other fields of the first one."""
    return [X[0]._replace(**fields), *X[1:]]


def risk(graphs=X, labels=Y, model=MODEL, **options):
    return pb.risks.Structured(model, graphs, labels, **options)


def svm(graphs=X, labels=Y, **options):
    return pb.GraphSVM(tol=0.1, **options).fit(graphs, labels)


FITTED = svm()
CASES = {
    # the model
    "one label": (lambda: GraphLabeling(1, 3, 1), "n_labels must be an integer >= 2, got 1"),
    "labels beyond the decoder": (lambda: GraphLabeling(10**6, 3, 1),
                                  "n_labels must be an integer <= 32767, got 1000000"),
    "labels beyond the memory": (lambda: GraphLabeling(30000, 3, 10**5),
                                 r"n_labels = 30000: \d+ weights need \d+ GiB, this machine has .*take fewer labels"),
    "slack rescaling": (lambda: risk(rescaling="slack"),
                        "'margin' in GraphLabeling, got 'slack'; GraphLabeling has no other"),
    "log-loss": (lambda: risk(loss="logistic"), "needs marginals, but GraphLabeling has none; use loss='hinge'"),
    "a name for a column": (lambda: GraphLabeling(3, 3, 1, symmetric="all"), "symmetric must be integers"),
    # graphs
    "one graph": (lambda: risk(X[0], Y[0]), r"X must be a sequence of graphs.*for one example pass \[x\]"),
    "one graph for an estimator": (lambda: svm(X[0], Y[0]), r"one entry for each example, got one Graph; pass \[x\]"),
    "many graphs for one": (lambda: MODEL.decode(np.zeros(MODEL.dim), X), "x must be one Graph, got list; decode_batc"),
    "no graphs": (lambda: risk([], []), "X must hold at least one graph, got none"),
    "a pair": (lambda: risk([(X[0].nodes, RING)] * 6), r"X\[0\] must be a Graph\(nodes, edges, edge_features\), got tup"
               "le of 2"),
    "nodes of an edge out of range": (lambda: risk(first(edges=RING + 1)), r"X\[0\].edges\[2\] must join two differe"
                                      r"nt nodes of 0..3, got \(3, 4\)"),
    "an edge to itself": (lambda: risk(first(edges=0 * RING)), r"must join two different nodes of 0..3, got \(0, 0\)"),
    "edges in columns": (lambda: risk(first(edges=RING.T)), r"X\[0\].edges must have shape \(.., 2\), two nodes an edg"
                         r"e, got \(2, 4\)"),
    "edges of fractions": (lambda: svm(first(edges=1.0 * RING)), r"X\[0\].edges must hold integers, got dtype float64; "
                           r"pass X\[0\].edges.astype\(int\)"),
    "edges of halves": (lambda: svm(first(edges=0.5 * RING)), r"got dtype float64; round them, as 0.5 is no integer"),
    "a sparse adjacency": (lambda: risk(first(edges=sp.eye_array(4, dtype=int))), r"X\[0\].edges must be an array \(m, "
                           r"2\).*got a sparse matrix; of an adjacency A pass"),
    "edges beyond int64": (lambda: risk(first(edges=RING.astype(np.uint64) + 2**63)), r"X\[0\].edges must hold integers"
                           r" below 2\^63, got 9223372036854775811"),
    "nodes as texts": (lambda: risk(first(nodes=[["a", "b", "c"]] * 4)), r"X\[0\].nodes must hold real numbers"),
    "nodes as integers": (lambda: risk([x._replace(nodes=x.nodes.astype(int)) for x in X]),
                          r"X\[0\].nodes must be float32, float64 or uint8, got dtype int64; pass nodes.astype\(float"),
    "nodes as a vector": (lambda: risk(first(nodes=np.ones(4))), r"X\[0\].nodes must have shape \(.., 3\), the n_featu"
                          r"res of the model, got \(4,\)"),
    "nodes as lists": (lambda: svm(first(nodes=X[0].nodes.tolist())), r"X\[0\] must have arrays nodes \(n, d\), dense o"
                       r"r CSR, got list"),
    "NaN at a node": (lambda: FITTED.predict(first(nodes=np.nan * X[0].nodes)), r"got nan in X\[0\].nodes\[0\], colum"),
    "NaN at an edge": (lambda: risk(first(edge_features=np.full((4, 1), np.nan))),
                       r"X\[0\].edge_features\[0, 0\] must be a finite number, got nan"),
    "features for other edges": (lambda: risk(first(edge_features=np.ones((3, 1)))),
                                 r"X\[0\].edge_features must have one row for each edge, 4 in all, got 3"),
    "no features of edges": (lambda: svm(first(edge_features=None)), r"edge_features \(m, p\), dense or CSR, got N"),
    "a graph of nodes and edges": (lambda: risk([pb.Graph(x.nodes, x.edges) for x in X]),
                                   r"X\[0\] must have arrays edge_features.*pass np.ones\(\(len\(edges\), 1\)\)"),
    "other features at predict": (lambda: FITTED.predict(first(nodes=np.ones((4, 2)))),
                                  r"X\[0\].nodes must have shape \(.., 3\), the n_features of the model, got \(4, 2\)"),
    # labels
    "a label too large": (lambda: risk(labels=[np.full(4, 255), *Y[1:]]), r"Y\[0\]\[0\] must be a label 0..2, or -1"),
    "one-hot labels": (lambda: svm(labels=[np.eye(3)[y] for y in Y]), r"y\[0\] must be a sequence of labels, got shape "
                       r"\(4, 3\)"),
    "labels of three nodes": (lambda: svm(labels=[Y[0][:3], *Y[1:]]), r"Y\[0\] must have labels for its 4 nodes, one ea"
                              r"ch, got shape \(3,\)"),
    "labels as fractions": (lambda: risk(labels=[1.0 * y for y in Y]), r"Y\[0\] must hold integers.*astype\(int\)"),
    "no known label": (lambda: risk(labels=[0 * y - 1 for y in Y]), "Y must hold at least one label that is known"),
    "no known label for classes": (lambda: svm(labels=[[None] * 4] * 6), "got no node whose label is known"),
    "NaN as a label": (lambda: svm(labels=[np.nan * y for y in Y]), r"y\[0\] must not hold NaN or infinity; a node with"
                       "out a label has -1 or None"),
    "NaN where all have labels": (lambda: pb.BinaryLabelingSVM().fit(X, [np.nan * y for y in Y]),
                                  "every node needs a label; GraphSVM takes nodes without one"),
    "labels beyond int64": (lambda: svm(labels=[Y[0].astype(np.uint64) + 2**63, *Y[1:]]),
                            r"y\[0\] must hold integers below 2\^63, got 9223372036854775810"),
    "labels and weights": (lambda: svm(labels=[(y, np.ones(4)) for y in Y]), r"got a tuple of two arrays; if these are"
                           r" labels and weights, pass WeightedLabels\(labels, weights\)"),
    "negative weights": (lambda: risk(labels=[WeightedLabels(y, -np.ones(4)) for y in Y]),
                         r"Y\[0\].weights\[0\] must be a finite number >= 0, got -1.0"),
    "weights of 0": (lambda: svm(labels=[WeightedLabels(y, np.zeros(4)) for y in Y]),
                     "y must weight at least one node above 0"),
    "score without a known label": (lambda: FITTED.score(X, [[-1] * 4] * 6),
                                    "y must hold at least one example with known labels, got none"),
    "score of weights of 0": (lambda: FITTED.score(X, Y, sample_weight=np.zeros(6)),
                              "sample_weight must leave at least one example with known labels"),
    "score of other labels": (lambda: FITTED.score(X, [["a"] * 4] * 6),
                              r"y\[0\] must hold labels like those of training, \[0, 1, 2\], got \['a', 'a', 'a', 'a'"),
    "before fit": (lambda: pb.GraphSVM().predict(X), "not fitted yet"),
    "probabilities": (lambda: FITTED.predict_proba(X), "its loss is a hinge; use ChainCRF where graphs are chains"),
    # images and masks
    "the path of an image": (lambda: pb.Graph.from_image("a.png"), "image must be an array.*got str; read the file"),
    "a sparse image": (lambda: pb.Graph.from_image(sp.csr_array(SEGMENTS)), r"sparse.*toarray\(\)"),
    "several images": (lambda: pb.Graph.from_image([IMAGE, IMAGE[:3]]), "image must be one image, got a list of 2"),
    "segments of a volume": (lambda: pb.Graph.from_image(np.ones((9, 9, 2)), np.ones((9, 9, 2), int)),
                             r"each pixel of image, shape \(9, 9\), got \(9, 9, 2\); a volume needs neighbours=6"),
    "sparse segments": (lambda: pb.Graph.from_image(IMAGE, sp.csr_array(SEGMENTS)), r"pass segments.toarray\(\)"),
    "NaN in an image": (lambda: pb.Graph.from_image(np.nan * IMAGE), r"image must be finite, got nan in image"),
    "a mask of colours": (lambda: WeightedLabels.from_mask((255 * IMAGE).astype(np.uint8), SEGMENTS),
                          "a mask has one label a pixel, no colours"),
    "NaN in a mask": (lambda: WeightedLabels.from_mask(np.nan * SEGMENTS), "mask must be integers, got dtype float64"),
    "a sparse mask": (lambda: WeightedLabels.from_mask(sp.csr_array(SEGMENTS)), r"pass mask.toarray\(\)"),
    # decoders
    "a forbidden pair": (lambda: graph_labeling(np.zeros((4, 2)), RING, [[0.0, -np.inf], [0.0, 0.0]]),
                         r"pairwise\[0, 1\] must be finite.*got -inf; to forbid a label, give it a score below all"),
    "a forbidden label": (lambda: graph_relaxation([[0.0, -np.inf]] * 4, RING, PLAIN), r"unaries\[0, 1\] must be fini"),
    "one score": (lambda: graph_labeling(np.zeros((4, 1)), RING, [[1.0]]), "at least 2 and at most 32767 labels, got"),
    "a table of three labels": (lambda: graph_labeling(np.zeros((4, 2)), RING, np.ones((3, 3))), r"or \(K, K\) = \(2, "
                                r"2\), got \(3, 3\)"),
    "sparse scores": (lambda: graph_labeling(sp.csr_array((4, 2)), RING, PLAIN), r"unaries .*sparse.*toarray\(\)"),
    "ends beyond int64": (lambda: graph_labeling(np.zeros((4, 2)), RING.astype(np.uint64) + 2**63, PLAIN),
                          r"edges\[0\] must join nodes 0..n - 1, got \(9223372036854775808, 9223372036854775809\)"),
    "ends beyond int64 in a cut": (lambda: min_cut(np.zeros(4), RING.astype(np.uint64) + 2**63, np.ones(4)),
                                   r"edges\[0\] must join nodes 0..n - 1, got \(9223372036854775808"),
    # several labels of a row
    "names of labels": (lambda: pb.MultiLabelSVM().fit(ROWS, [["cat", "dog"], ["dog"]] * 10),
                        r"matrix \(n, L\) of 0 and 1, .*MultiLabelBinarizer makes it from lists of labels$"),
    "sets of labels": (lambda: pb.MultiLabelSVM().fit(ROWS, [{"cat"}, {"dog"}] * 10), "MultiLabelBinarizer makes it"),
    "signs": (lambda: pb.MultiLabelSVM().fit(ROWS, 2 * COLUMNS - 1), r"must be 0 or 1, got -1; pass y > 0"),
    "NaN among labels": (lambda: pb.MultiLabelSVM().fit(ROWS, np.where(COLUMNS, 1.0, np.nan)),
                         "must be 0 or 1, got nan; leave out rows of which a label is not known"),
    "sparse edges": (lambda: pb.MultiLabelSVM(sp.eye_array(3)).fit(ROWS, COLUMNS), r"pass edges.toarray\(\)"),
}


@pytest.mark.parametrize("case", CASES)
def test_each_error_names_its_argument(case):
    call, message = CASES[case]
    with pytest.raises((pb.ParameterError, pb.InputTypeError, AttributeError, ValueError), match=message) as caught:
        call()
    assert len(str(caught.value)) < 200 and "\n" not in str(caught.value) and "token" not in str(caught.value)
    assert isinstance(caught.value, pb.BundleError) or case in {"before fit", "probabilities"}


def test_unsigned_integers_stay_integers():
    """NumPy makes floats of uint64 beside int64, which refused edges and made float classes of labels."""
    mixed = [x._replace(edges=x.edges.astype(np.uint64)) if i % 2 else x for i, x in enumerate(X)]
    labels = [y.astype(np.uint64) if i % 2 else y for i, y in enumerate(Y)]
    np.testing.assert_array_equal(svm(mixed, labels).coef_, FITTED.coef_)
    assert svm(mixed, labels).classes_.dtype == np.int64
    np.testing.assert_array_equal(pb.minimize(risk(mixed, labels), lam=1.0).x, pb.minimize(risk(), lam=1.0).x)
    scalars = [[np.uint64(k) if j % 2 else np.int64(k) for j, k in enumerate(y.tolist())] for y in Y]
    assert svm(X, scalars).classes_.dtype == np.int64


@pytest.mark.parametrize("shape", [(20, 30, 40), (3, 30, 40), (30, 30, 30)])
def test_a_volume_read_as_channels_is_told(shape):
    with pytest.warns(UserWarning, match=r"pixels with \d0 channels; a volume needs neighbours=6, and channels come"):
        assert pb.Graph.from_image(np.ones(shape)).nodes.shape == (shape[0] * shape[1], shape[2] + 1)
    pb.Graph.from_image(np.ones(shape), neighbours=6)       # no warning, which would be an error
    pb.Graph.from_image(np.ones((30, 40, 20)))
    pb.Graph.from_image(np.ones((2, 2, 4)))
