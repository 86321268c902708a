"""Graphs with many labels: snakes with two sets of edge features, and horses with three labels, to a certified gap.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/graphs.py [--only horses]

`pb.models.GraphLabeling` with the relaxed risk and "auto", Hamming loss, lam in the sum scale. Writes
results/graphs.md; sections that are not measured again stay as they are.
"""

import argparse
import time

from common import Page, table, version  # sets threads: before NumPy

# isort: split
import numpy as np
from labelled_graphs import horses, model_of, snakes

import pybundle as pb

HEADER = ("edge features", "lam", "tol", "dimension", "passes", "processor seconds", "gap", "of it inference",
          "test accuracy, %", "by single nodes, %", "largest label, %")
SNAKES = ((2, 10.0, 1e-2), (2, 1.0, 1e-2), (2, 1.0, 1e-3), (180, 10.0, 1e-2))
HORSES = ((6, 100.0, 1e-2), (6, 10.0, 1e-2))
HEAD = """\
# Graphs with many labels

Written by `asv_benchmarks/reproduce/graphs.py`, pybundle {version}. One thread, processor seconds, the training alone.
"of it inference" is `result.inference_gap`, the part of the gap that decoding leaves. Test accuracy is that of
predictions, which are labellings in any case. "By single nodes" is `MulticlassHinge` on the nodes alone, at the better
of lam = 100 and 10 on the test part, which favours it; "largest label" predicts the most frequent label everywhere.
"""


def rows(read, settings):
    for n_edge_features, lam, tol in settings:
        (X, Y), (X_test, Y_test) = read(n_edge_features)
        model = model_of(X, Y)
        began = time.process_time()
        result = pb.minimize(pb.risks.Structured(model, X, Y), lam=lam, tol=tol, time_limit=600.0)
        seconds, test = time.process_time() - began, pb.risks.Structured(model, X_test, Y_test)
        n_test, flat = sum(map(len, Y_test)), np.concatenate(Y_test)
        wrong = test.predict_losses(result.x).sum()
        yield (n_edge_features, f"{lam:g}", f"{tol:g}", model.dim, f"{result.n_passes:.0f}", f"{seconds:.1f}",
               f"{result.gap:.1e}", f"{result.inference_gap:.1e}",
               f"{100 * (1 - wrong / n_test):.2f}", f"{100 * by_nodes(X, Y, X_test, flat):.2f}",
               f"{100 * np.bincount(flat).max() / n_test:.2f}")


def by_nodes(X, Y, X_test, truth):
    """The test accuracy of a linear classifier of single nodes."""
    nodes, nodes_test = (np.concatenate([x.nodes for x in part]) for part in (X, X_test))
    risk, best = pb.risks.MulticlassHinge(nodes, np.concatenate(Y)), 0.0
    for lam in (100.0, 10.0):
        W = pb.minimize(risk, lam=lam).x.reshape(-1, nodes.shape[1])
        best = max(best, float(np.mean((nodes_test @ W.T).argmax(axis=1) == truth)))
    return best


SECTIONS = {"snakes": ("Snakes, 11 labels", snakes, SNAKES),
            "horses": ("Weizmann horses, three labels", lambda _: horses(3), HORSES)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(SECTIONS), default=list(SECTIONS))
    page = Page("graphs.md", HEAD.format(version=version()), [title for title, *_ in SECTIONS.values()])
    for name in parser.parse_args().only:
        title, read, settings = SECTIONS[name]
        page.replace(title, table(HEADER, list(rows(read, settings))))


if __name__ == "__main__":
    main()
