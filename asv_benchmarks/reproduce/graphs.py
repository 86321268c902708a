"""Graphs with many labels: snakes with two sets of edge features, and horses with three labels, to a certified gap.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/graphs.py [--only horses]

`pb.models.GraphLabeling` with the relaxed risk and "auto", Hamming loss, lam in the sum scale. Writes
results/graphs.md; sections that are not measured again stay as they are.
"""

import argparse
import time

from common import Page, data_file, table, version  # sets threads: before NumPy

# isort: split
import numpy as np

import pybundle as pb
from pybundle.models import Graph, GraphLabeling

HEADER = ("edge features", "lam", "tol", "dimension", "passes", "processor seconds", "gap", "of it inference",
          "test accuracy, %", "by single nodes, %", "largest label, %")
SNAKES = ((2, 10.0, 1e-2), (2, 1.0, 1e-2), (2, 1.0, 1e-3), (180, 10.0, 1e-2))
HORSES = ((6, 100.0, 1e-2), (6, 10.0, 1e-2))
COLOURS = {1: 0, 2: 1, 3: 2, 4: 3, 6: 4}
"""The five colours of a pixel, by the code of its three channels; pixels outside of the image have the third."""
HEAD = """\
# Graphs with many labels

Written by `asv_benchmarks/reproduce/graphs.py`, pybundle {version}. One thread, processor seconds, the training alone.
"of it inference" is `result.inference_gap`, the part of the gap that decoding leaves. Test accuracy is that of
predictions, which are labellings in any case. "By single nodes" is `MulticlassHinge` on the nodes alone, at the better
of lam = 100 and 10 on the test part, which favours it; "largest label" predicts the most frequent label everywhere.
"""


def snakes(n_edge_features):
    """200 training and 100 test images, as (graphs, labels): pixels with the colours of their 3 x 3 neighbourhoods.

    Two edge features are the directions; 180 are the 45 columns of both ends, for each direction apart.
    """
    with np.load(data_file("snakes", "snakes.npz"), allow_pickle=False) as file:
        data = dict(file)
    parts = ([], []), ([], [])
    for i, (h, w) in enumerate(data["shapes"].tolist()):
        pixels = slice(*data["offsets"][i:i + 2])
        code = (data["X"][pixels] > 0) @ np.array([4, 2, 1])
        padded = np.full((h + 2, w + 2), COLOURS[3])
        padded[1:-1, 1:-1] = np.vectorize(COLOURS.get)(code).reshape(h, w)
        nodes = np.concatenate([np.eye(5)[padded[a:a + h, b:b + w]] for a in range(3) for b in range(3)], axis=2)
        nodes, number = nodes.reshape(h * w, 45), np.arange(h * w).reshape(h, w)
        sides = [np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1),
                 np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)]
        edges, direction = np.concatenate(sides), np.repeat(np.eye(2), [len(side) for side in sides], axis=0)
        features = direction
        if n_edge_features == 180:
            ends = np.concatenate([nodes[edges[:, 0]], nodes[edges[:, 1]]], axis=1)
            features = (direction[:, :, None] * ends[:, None, :]).reshape(len(edges), 180)
        X, Y = parts[data["split"][i]]
        X.append(Graph(nodes, edges, features))
        Y.append(data["y"][pixels].astype(int))
    return parts


def horses(_):
    """200 training and 128 test images: background 0, horse 2, and 1 for a segment of it beside the background."""
    with np.load(data_file("weizmann_horses", "weizmann_horses.npz"), allow_pickle=False) as file:
        data = dict(file)
    features = data["node_q"] * data["node_scale"] + data["node_offset"]
    features = (features - features.mean(axis=0)) / (5.0 * np.maximum(features.std(axis=0), 1e-12))
    parts = ([], []), ([], [])
    for i, part in enumerate(data["split"].tolist()):
        some, pairs = slice(*data["node_offsets"][i:i + 2]), slice(*data["edge_offsets"][i:i + 2])
        y, edges = data["labels"][some].astype(int), data["edges"][pairs].astype(int)
        of_edges = data["edge_features"][pairs].astype(float)
        labels = 2 * y
        for a, b in (edges.T, edges.T[::-1]):
            labels[a[(y[a] == 1) & (y[b] == 0)]] = 1
        X, Y = parts[part]
        X.append(Graph(np.column_stack([features[some], np.ones(len(y))]), edges,
                       np.column_stack([of_edges, np.ones(len(edges))])))
        Y.append(labels)
    return parts


def rows(read, settings):
    for n_edge_features, lam, tol in settings:
        (X, Y), (X_test, Y_test) = read(n_edge_features)
        K = 1 + max(int(y.max()) for y in Y)
        model = GraphLabeling(K, X[0].nodes.shape[1], n_edge_features, loss="hamming")
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
            "horses": ("Weizmann horses, three labels", horses, HORSES)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(SECTIONS), default=list(SECTIONS))
    page = Page("graphs.md", HEAD.format(version=version()), [title for title, *_ in SECTIONS.values()])
    for name in parser.parse_args().only:
        title, read, settings = SECTIONS[name]
        page.replace(title, table(HEADER, list(rows(read, settings))))


if __name__ == "__main__":
    main()
