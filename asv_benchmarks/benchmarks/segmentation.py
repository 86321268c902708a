"""Segmentation: the decoder alone, and a pass of the model with its products."""

import numpy as np

import pybundle as pb
from pybundle.oracles import segment, segment_batch


class Decoder:
    """300 images of about 90 columns; labels of 5 to 13 columns, sorted by width or not, and one of a column."""

    params = ([36, 325], [True, False])
    param_names = ("n_labels", "sorted")

    def setup(self, n_labels, ordered):
        rng = np.random.default_rng(0)
        self.offsets = np.concatenate([[0], np.cumsum(rng.integers(70, 110, 300))])
        self.widths = np.concatenate([[1], np.sort(rng.integers(5, 14, n_labels - 1))])
        if not ordered:
            rng.shuffle(self.widths)
        self.scores = rng.standard_normal((int(self.offsets[-1]), n_labels))
        self.one = np.ascontiguousarray(self.scores[:90]).T

    def time_batch(self, n_labels, ordered):
        segment_batch(self.scores, self.offsets, self.widths)

    def time_one_image(self, n_labels, ordered):
        segment(self.one, self.widths)


class Model:
    """A pass over 100 images of about 90 columns of 24 pixels, 34 symbols of each width and a filler."""

    params = [1, 3]
    param_names = ("n_widths",)

    def setup(self, n_widths):
        rng = np.random.default_rng(0)
        X = [rng.random((size, 24), dtype=np.float32) for size in rng.integers(70, 110, 100)]
        widths = [1, *np.repeat(range(8, 8 + n_widths), 34)]
        model = pb.models.Segmentation(24, widths, fillers=[0])
        self.risk = pb.risks.Structured(model, X, [np.zeros(len(x), dtype=int) for x in X])
        self.w = rng.standard_normal(model.dim)

    def time_pass(self, n_widths):
        self.risk.evaluate(self.w)
