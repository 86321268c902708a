"""The problems of the papers by name: a risk to train on, and held-out errors of a point, as fractions."""

import functools
import time

from common import data_file  # sets threads: before NumPy

# isort: split
import horses
import labelled_graphs
import landmarks
import numpy as np
import plates
import race

import pybundle as pb
from pybundle.models.binary_labeling.oracle import BinaryLabelingOracle

PAUSE = 2e-3        # seconds of a call of the slow oracle


def mnist():
    """60000 digits, pixels / 255 in float32; even rows of the test part are the validation set, odd ones the test set.

    The first 5000 test digits are much harder than the last: such halves would have 11.0 and 6.0 % where the report
    has 8.6 % on its validation half.
    """
    with np.load(data_file("mnist", "mnist.npz"), allow_pickle=False) as file:
        X, X_test = (np.ascontiguousarray(file[name].reshape(len(file[name]), -1), dtype=np.float32) / np.float32(255.0)
                     for name in ("X_train", "X_test"))
        y, y_test = (file[name].astype(np.int32) for name in ("y_train", "y_test"))
    risk = pb.risks.MulticlassHinge(X, y)

    def error(rows):
        return lambda w: float(np.mean((X_test[rows] @ w.reshape(10, -1).T).argmax(axis=1) != y_test[rows]))

    return risk, {"validation": error(slice(0, None, 2)), "test": error(slice(1, None, 2))}


def parted(**options):
    """The digits of `mnist` in other parts."""
    risk, errors = problem("mnist")
    return pb.risks.MulticlassHinge(risk.examples.X, risk.labels, **options), errors


def weizmann(kind=pb.models.BinaryLabeling):
    """200 training images of horses, mean Hamming loss."""
    data = horses.read(data_file("weizmann_horses", "weizmann_horses.npz"))
    model = kind(data.X[0].nodes.shape[1], data.X[0].edge_features.shape[1])
    test = pb.risks.Structured(model, *horses.examples(data, data.test))
    return pb.risks.Structured(model, *horses.examples(data, data.train)), {
        "test": lambda w: float(test.predict_losses(w).mean())}


def graphs(read, argument):
    """Graphs with many labels, the relaxed risk; the error is that of nodes."""
    (X, Y), test = read(argument)
    model = labelled_graphs.model_of(X, Y)
    held_out, n_nodes = pb.risks.Structured(model, *test), sum(map(len, test[1]))
    return pb.risks.Structured(model, X, Y), {"test": lambda w: float(held_out.predict_losses(w).sum() / n_nodes)}


class SlowOracle(BinaryLabelingOracle):
    """Pauses before the answers of a batch."""

    def _decode(self, rows, weights, loss):
        if loss:
            time.sleep(PAUSE * len(rows))
        return super()._decode(rows, weights, loss)


class SlowLabeling(pb.models.BinaryLabeling):
    """Binary labelling whose oracle pauses at every call."""

    def oracle(self, X, Y):
        return SlowOracle(self, X, Y)


LOADERS = {"mnist": mnist, "mnist, parts in order": lambda: parted(partition="contiguous"),
           "mnist, shuffle 1": lambda: parted(random_state=1), "mnist, shuffle 2": lambda: parted(random_state=2),
           "landmarks": landmarks.problem, "plates": plates.problem, "horses": weizmann,
           "horses, slow": lambda: weizmann(SlowLabeling),
           "snakes": lambda: graphs(labelled_graphs.snakes, 180),
           "horses, three labels": lambda: graphs(labelled_graphs.horses, 3),
           "horses, eight labels": lambda: graphs(labelled_graphs.horses, 8),
           "usps": lambda: (race.usps()[0], {}), "ocr": lambda: (race.ocr()[0], {})}


@functools.cache
def problem(name):
    """(risk, {name of an error: function of w})."""
    return LOADERS[name]()
