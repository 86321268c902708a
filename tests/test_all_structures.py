"""Every structure, on generated data: a valid oracle, and every method ends with a certificate."""

import numpy as np
import pytest
from reference.treebank import make_treebank

import pybundle as pb

METHODS = ("oca", "bmrm", "prox-bmrm")


def multiclass():
    rng = np.random.default_rng(0)
    return pb.models.Multiclass(3, 4), rng.normal(size=(30, 4)), rng.integers(0, 3, 30)


def chain():
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 6, 20)
    return pb.models.Chain(3, 4), [rng.normal(size=(T, 4)) for T in sizes], [rng.integers(0, 3, T) for T in sizes]


def segmentation():
    rng = np.random.default_rng(2)
    Y = [rng.integers(0, 3, 4) for _ in range(15)]
    widths = np.array([1, 2, 3])
    return pb.models.Segmentation(3, widths), [rng.normal(size=(widths[y].sum(), 3)) for y in Y], Y


def dependency():
    treebank = make_treebank(12, share_crossing=0.1, mean_length=5)
    return pb.models.Dependency.hashed(8, treebank.attributes, ["h.pos m.pos direction"]), treebank.X, treebank.Y


def binary_labeling():
    images = pb.datasets.contrast_images(8, shape=(6, 6))
    return pb.models.BinaryLabeling(images.X[0].nodes.shape[1], images.X[0].edge_features.shape[1]), images.X, images.y


STRUCTURES = [multiclass, chain, segmentation, dependency, binary_labeling]


@pytest.mark.parametrize("make", STRUCTURES)
def test_the_oracle_keeps_all_rules(make):
    model, X, Y = make()
    report = pb.check_oracle(model, X, Y)
    assert report, str(report)


@pytest.mark.parametrize("make", STRUCTURES)
def test_all_methods_reach_the_same_certified_minimum(make):
    model, X, Y = make()
    risk = pb.risks.Structured(model, X, Y)
    lam = 0.05 * float(risk.evaluate(np.zeros(risk.dim))[0].sum())
    results = [pb.minimize(risk, lam=lam, method=method, tol=1e-3, n_parts=P) for method in METHODS for P in (1, 4)]
    best = min(result.fun for result in results)
    for result in results:
        assert result.success and result.certified
        assert result.lower_bound <= best <= result.fun
        assert model.nonneg is None or (result.x[model.nonneg] >= 0.0).all()
    sgd = pb.minimize(risk, lam=lam, method="sgd", max_iter=3, random_state=0)
    assert sgd.lower_bound <= best <= sgd.fun * (1.0 + 1e-9)
    radius = float(np.linalg.norm(results[0].x)) / 2.0
    ball = pb.minimize(risk, penalty=pb.prox.Ball(radius), method="cutting-plane", tol=1e-3)
    assert ball.success and np.linalg.norm(ball.x) <= radius * (1.0 + 1e-9)


@pytest.mark.parametrize("make", [multiclass, chain])
def test_log_loss_reaches_a_certificate(make):
    model, X, Y = make()
    risk = pb.risks.Structured(model, X, Y, loss="logistic")
    report = pb.check_oracle(risk)
    assert report, str(report)
    result = pb.minimize(risk, lam=1.0, tol=1e-3)
    assert result.success and result.certified
