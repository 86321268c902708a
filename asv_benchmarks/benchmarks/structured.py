"""Passes of structured risks on generated data: decoding and planes, at zero and at random weights."""

import numpy as np

import pybundle as pb


def chain(rng):
    sizes = rng.integers(3, 15, 2000)
    X = [rng.integers(0, 2, (T, 128)).astype(np.uint8) for T in sizes]
    return pb.models.Chain(26, 128), X, [rng.integers(0, 26, T) for T in sizes]


def segmentation(rng):
    widths = np.arange(5, 13)
    Y = [rng.integers(0, 8, 7) for _ in range(300)]
    return pb.models.Segmentation(24, widths), [rng.random((widths[y].sum(), 24)) for y in Y], Y


def binary_labeling(rng):
    images = pb.datasets.contrast_images(100, shape=(16, 16))
    return pb.models.BinaryLabeling(images.X[0].nodes.shape[1], images.X[0].edge_features.shape[1]), images.X, images.y


MODELS = {"chain": chain, "segmentation": segmentation, "binary labelling": binary_labeling}


class Pass:
    params = (tuple(MODELS), ("zero", "random"), (1, 16))
    param_names = ("model", "weights", "n_parts")

    def setup(self, model, weights, n_parts):
        rng = np.random.default_rng(0)
        self.risk = pb.risks.Structured(*MODELS[model](rng), n_parts=n_parts)
        self.w = np.zeros(self.risk.dim) if weights == "zero" else 0.1 * np.abs(rng.normal(size=self.risk.dim))

    def time_planes(self, model, weights, n_parts):
        self.risk.planes(self.w)


class Certified:
    params = (("oca", "bmrm", "prox-bmrm"),)
    param_names = ("method",)

    def setup(self, method):
        self.risk = pb.risks.Structured(*chain(np.random.default_rng(0)))

    def time_chain(self, method):
        pb.minimize(self.risk, lam=1000.0, method=method, tol=1e-2)
