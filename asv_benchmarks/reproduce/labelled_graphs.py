"""Graphs with many labels for the scripts: snakes, horses with three labels, and horses with eight drawn ones.

Each function returns two parts, for training and for the test, as lists (graphs, labels).
"""

from common import data_file  # sets threads: before NumPy

# isort: split
import numpy as np
import scipy.sparse as sp

from pybundle.models import Graph, GraphLabeling

COLOURS = {1: 0, 2: 1, 3: 2, 4: 3, 6: 4}
"""The five colours of a pixel, by the code of its three channels; pixels outside of the image have the third."""
N_DRAWN, SWEEPS = 8, 50
UNARY, ALIKE = 1.0, 2.5
"""Deviation of the weights of nodes, and score of an edge between equal labels, from which labels are drawn.

Labels have 11 to 15 % of the nodes each, and both ends of two edges in three have the same one. On the test part a
linear classifier of single nodes finds 68 % of the labels, decoding with the w that drew them 80 %.
"""


def model_of(X, Y):
    """The model of such graphs, with the Hamming loss, the number of wrong nodes."""
    n_labels = 1 + max(int(y.max()) for y in Y)
    return GraphLabeling(n_labels, X[0].nodes.shape[1], X[0].edge_features.shape[1], loss="hamming")


def snakes(n_edge_features):
    """200 training and 100 test images: pixels with the colours of their 3 x 3 neighbourhoods, 11 labels.

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


def horses(n_labels=3):
    """200 training and 128 test images, about 230 segments each; three labels, or the eight of `drawn`.

    The three: background 0, horse 2, and 1 for a segment of the horse beside the background.
    """
    with np.load(data_file("weizmann_horses", "weizmann_horses.npz"), allow_pickle=False) as file:
        data = dict(file)
    features = data["node_q"] * data["node_scale"] + data["node_offset"]
    features = (features - features.mean(axis=0)) / (5.0 * np.maximum(features.std(axis=0), 1e-12))
    nodes = np.column_stack([features, np.ones(len(features))])
    pairs = np.column_stack([data["edge_features"].astype(float), np.ones(len(data["edges"]))])
    ends, edge_ends = data["node_offsets"], data["edge_offsets"]
    joined = data["edges"].astype(int) + np.repeat(ends[:-1], np.diff(edge_ends))[:, None]
    y = data["labels"].astype(int)
    if n_labels == 3:
        labels = 2 * y
        for a, b in (joined.T, joined.T[::-1]):
            labels[a[(y[a] == 1) & (y[b] == 0)]] = 1
    else:
        labels = drawn(nodes, joined, pairs)
    parts = ([], []), ([], [])
    for i, part in enumerate(data["split"].tolist()):
        some, of_edges = slice(*ends[i:i + 2]), slice(*edge_ends[i:i + 2])
        X, Y = parts[part]
        X.append(Graph(nodes[some], data["edges"][of_edges].astype(int), pairs[of_edges]))
        Y.append(labels[some])
    return parts


def drawn(nodes, edges, pairs):
    """Draw one of eight labels for each node from p(y) ~ exp <w, Psi(x, y)>, by SWEEPS Gibbs sweeps, always the same.

    w: weights of nodes are N(0, UNARY^2), and 0 for the constant; an edge with equal labels scores ALIKE (1 - d), with
    d the distance of the colour histograms, column 2 of `pairs`. A sweep draws one set of unlinked nodes after another.
    """
    rng, n, (a, b) = np.random.default_rng(0), len(nodes), edges.T
    U = UNARY * rng.normal(size=(N_DRAWN, nodes.shape[1]))
    U[:, -1] = 0.0
    unaries, strength, turn = nodes @ U.T, ALIKE * (1.0 - pairs[:, 2]), rng.permutation(n)
    links = sp.csr_array((np.tile(strength, 2), (np.r_[a, b], np.r_[b, a])), shape=(n, n))
    sets, left = [], np.ones(n, dtype=bool)
    while left.any():
        is_first, both = left.copy(), left[a] & left[b]
        is_first[np.where(turn[a] < turn[b], b, a)[both]] = False
        sets.append(np.flatnonzero(is_first))
        left &= ~is_first
    of_sets, labels = [links[rows] for rows in sets], np.eye(N_DRAWN)[rng.integers(0, N_DRAWN, n)]
    for _ in range(SWEEPS):
        for rows, link in zip(sets, of_sets, strict=True):
            scores = unaries[rows] + link @ labels + rng.gumbel(size=(len(rows), N_DRAWN))
            labels[rows] = np.eye(N_DRAWN)[scores.argmax(axis=1)]
    return labels.argmax(axis=1)
