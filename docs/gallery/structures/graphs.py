"""
Graphs: neighbours help where a node says little
================================================

People of three groups know each other mostly within their group. What is known of a
single person is noisy; labels of all nodes together, weighed by pairs of neighbours, are
far better. Decoding graphs with loops is not exact, so that bounds are proven.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection

import pybundle as pb


def network(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return a graph, its labels, and a place of every node for the picture."""
    labels = rng.integers(0, 3, 60)
    angle = 2.0 * np.pi * (labels + 0.25 * rng.standard_normal(60)) / 3.0
    places = np.c_[np.cos(angle), np.sin(angle)] + 0.3 * rng.standard_normal((60, 2))
    near = np.linalg.norm(places[:, None] - places, axis=2) < 0.45
    edges = np.argwhere(np.triu(near, k=1))
    nodes = np.eye(3)[labels] + 0.9 * rng.standard_normal((60, 3))
    return pb.Graph(nodes, edges, np.ones((len(edges), 1))), labels, places


rng = np.random.default_rng(0)
X, Y, places = zip(*(network(rng) for _ in range(30)), strict=True)
graphs = pb.GraphSVM(C=0.1, tol=1e-2, symmetric=[0]).fit(X[:20], Y[:20])
alone = pb.MulticlassSVM(C=0.1).fit(
    np.vstack([x.nodes for x in X[:20]]), np.concatenate(Y[:20])
)
right = alone.score(np.vstack([x.nodes for x in X[20:]]), np.concatenate(Y[20:]))
print(f"each node alone: {100 * right:.1f} % right")
print(
    f"whole graphs:    {100 * graphs.score(X[20:], Y[20:]):.1f} % right; "
    f"certified gap {graphs.gap_:.1e}"
)

# %%
# A held-out graph, labelled node by node and as a whole. Crosses are wrong.
figure, axes = plt.subplots(1, 2, figsize=(8.0, 4.0), layout="constrained")
graph, truth, place = X[20], Y[20], places[20]
for axis, title, labels in (
    (axes[0], "each node alone", alone.predict(graph.nodes)),
    (axes[1], "whole graph", np.asarray(graphs.predict([graph])[0])),
):
    axis.add_collection(LineCollection(place[graph.edges].tolist(), color="silver"))
    axis.scatter(*place.T, c=labels, cmap="Set1", vmin=0, vmax=8, s=70, zorder=2)
    wrong = labels != truth
    axis.scatter(*place[wrong].T, c="black", marker="x", s=120, zorder=3, linewidths=3)
    axis.set_title(title, fontsize=15)
    axis.set_axis_off()
