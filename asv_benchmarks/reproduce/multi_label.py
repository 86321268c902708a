"""Several labels of an example: `pb.MultiLabelSVM` on scikit-learn's generator and on two public sets.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/multi_label.py [--only scene]

The sets `scene` (Boutell et al. 2004) and `yeast` (Elisseeff and Weston 2001) are read from the ARFF files of Mulan,
`multi_label/scene-train.arff` and so on; no package of ours or of scikit-learn has them. Writes results/multi_label.md.
"""

import argparse
import time
import warnings

from common import Page, data_file, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
from sklearn.datasets import make_multilabel_classification
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import pybundle as pb

HEADER = ("learner", "best C", "passes", "processor seconds", "gap", "subset loss, %", "wrong labels, %",
          "most passes of any C")
GRID = (0.1, 0.3, 1.0, 3.0, 10.0)
HEAD = """\
# Several labels of an example

Written by `asv_benchmarks/reproduce/multi_label.py`, pybundle {version}. One thread, processor seconds, the training
alone. Columns are standardised and divided by the root of their number, so that rows have norms of about 1, as the
weights of pairs have: with longer rows the penalty holds the weights of pairs down (scene without the division: best
subset loss 48.2 % on the full graph, at C = .01). `MultiLabelSVM` has the Hamming loss, tol 1e-2, and "auto".
`OneVsRestClassifier` has the default `LinearSVC`, squared hinge. C is the best of .1, .3, 1, 3 and 10 by the subset
loss on the test part, which favours all alike. "Most passes" is over all values of C.
"""


def generated(_):
    X, y = make_multilabel_classification(2000, n_features=20, n_classes=8, n_labels=3, random_state=0)
    return X[:1000], y[:1000], X[1000:], y[1000:]


def read(name):
    """Return X, y, X_test, y_test; the last columns of the files are the labels."""
    n_labels, parts = {"scene": 6, "yeast": 14}[name], []
    for part in ("train", "test"):
        with open(data_file("multi_label", f"{name}-{part}.arff"), encoding="utf-8") as file:
            rows = np.loadtxt((line for line in file if line[0] not in "@%\n\r"), delimiter=",")
        parts += [rows[:, :-n_labels], rows[:, -n_labels:].astype(int)]
    return parts


def rows(load, name):
    X, y, X_test, y_test = load(name)
    scaler = StandardScaler().fit(X)
    X, X_test = (scaler.transform(part) / np.sqrt(X.shape[1]) for part in (X, X_test))
    learners = {"full graph": lambda C: pb.MultiLabelSVM(C=C, tol=1e-2),
                "tree": lambda C: pb.MultiLabelSVM("tree", C=C, tol=1e-2),
                "no edges": lambda C: pb.MultiLabelSVM([], C=C, tol=1e-2),
                "OneVsRest": lambda C: OneVsRestClassifier(LinearSVC(C=C, max_iter=10000, random_state=0))}
    for learner, make in learners.items():
        found = []
        for C in GRID:
            began = time.process_time()
            model = make(C).fit(X, y)
            seconds, labels = time.process_time() - began, model.predict(X_test)
            found.append((100 * (labels != y_test).any(axis=1).mean(), C, seconds, 100 * (labels != y_test).mean(),
                          getattr(model, "n_passes_", None), getattr(model, "gap_", None)))
            print(name, learner, *found[-1], flush=True)
        subset, C, seconds, wrong, passes, gap = min(found, key=lambda row: row[0])
        yield (learner, f"{C:g}", "" if passes is None else f"{passes:.0f}", f"{seconds:.1f}",
               "" if gap is None else f"{gap:.1e}", f"{subset:.2f}", f"{wrong:.2f}",
               "" if passes is None else f"{max(row[4] for row in found):.0f}")


SECTIONS = {"generated": ("scikit-learn's generator: 1000 + 1000 rows, 20 columns, 8 labels", generated),
            "scene": ("Scene: 1211 + 1196 images, 294 columns, 6 labels", read),
            "yeast": ("Yeast: 1500 + 917 genes, 103 columns, 14 labels", read)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(SECTIONS), default=list(SECTIONS))
    page = Page("multi_label.md", HEAD.format(version=version()), [title for title, _ in SECTIONS.values()])
    warnings.simplefilter("ignore")     # liblinear's iteration limit
    for name in parser.parse_args().only:
        title, load = SECTIONS[name]
        page.replace(title, table(HEADER, list(rows(load, name))))


if __name__ == "__main__":
    main()
