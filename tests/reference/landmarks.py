"""Slow and obvious twin of the landmark model: features written out, every placement tried."""

import itertools

import numpy as np

NEIGHBOURS = [(-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1)]


def lbp_code(image, y, x, scale):
    """Code at one pixel: means of blocks of 2^scale pixels, border pixels repeated."""
    size = 2**scale
    height, width = image.shape

    def block(top, left):
        return sum(float(image[min(max(top + k, 0), height - 1), min(max(left + l, 0), width - 1)])
                   for k in range(size) for l in range(size))

    centre = block(y, x)
    return sum(2**bit for bit, (dy, dx) in enumerate(NEIGHBOURS) if block(y + size * dy, x + size * dx) >= centre)


def window_feature(codes, margin, cells, position):
    """Indicators (cell, code) seen from a position (x, y)."""
    feature = np.zeros((len(cells), 256))
    for c, (s, dy, dx) in enumerate(cells):
        feature[c, codes[s, margin + position[1] + dy, margin + position[0] + dx]] = 1.0
    return feature.ravel()


def joint_feature(model, appearance, y):
    """Psi(x, y) from `appearance(j, position)` and the definition of the deformation."""
    parts = [appearance(j, y[j]) for j in range(len(y))]
    for j, p in enumerate(model.parents):
        if p >= 0:
            u, v = (np.asarray(y[j]) - y[p] - model.anchors[j]) / model.spreads[j]
            parts.append([-u * u, -u, -v * v, -v])
    return np.concatenate(parts)


def placements(model):
    boxes = [[(x0 + k, y0 + l) for l in range(h) for k in range(w)] for x0, y0, w, h in model.boxes.tolist()]
    return itertools.product(*boxes)
