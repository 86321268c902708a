"""Small risks for runs elsewhere: random classes, and a model in plain Python whose oracle can fail."""

import numpy as np

import pybundle as pb


def blobs(n=240, d=12, K=3, seed=0, n_parts=6, kind=None, **options):
    """Normal examples whose classes a noisy linear map gives."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (X @ rng.normal(size=(d, K)) + rng.normal(size=(n, K))).argmax(axis=1)
    return (kind or pb.risks.MulticlassHinge)(X, y, n_parts, **options)


class Signs(pb.models.StructuredModel):
    """A sign for each example; decoding one whose first feature is 7 fails, but for w = 0."""

    dim = 3

    def joint_feature(self, x, y):
        return y * x

    def loss(self, y, y_hat):
        return float(y != y_hat)

    def decode(self, w, x):
        return 1 if w @ x >= 0.0 else -1

    def loss_augmented_decode(self, w, x, y):
        if x[0] == 7.0 and w.any():
            raise ZeroDivisionError("no way to decode this")
        return max((1, -1), key=lambda z: self.loss(y, z) + z * (w @ x))


def signs(bad=None, n_parts=4):
    """The risk of 30 examples of `Signs`, of which number `bad` fails."""
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(30, 3)), rng.choice([-1, 1], size=30)
    if bad is not None:
        X[bad, 0] = 7.0
    return pb.risks.Structured(Signs(), X, list(Y), n_parts=n_parts)
