"""Algorithm 3 with theta written out, for any model: slow and obvious."""

import numpy as np
import scipy.sparse as sp

from pybundle.prox import SquaredL1, project_l2_ball


def online_mkl(model, groups, X, Y, order, etas, lam, radius=np.inf, shrink=None):
    """The points theta_1, ..., theta_{T+1}; `groups` are labels of the weights of the model."""
    regulariser = SquaredL1(lam, groups) if shrink is None else shrink
    theta, points = np.zeros(model.dim), []
    for i, eta in zip(order, etas, strict=True):
        points.append(theta)
        y_hat = model.loss_augmented_decode(theta, X[i], Y[i])
        psi = dense(model.joint_feature(X[i], y_hat)) - dense(model.joint_feature(X[i], Y[i]))
        theta = regulariser.prox(theta - eta * psi, eta)
        theta = project_l2_ball(theta, radius) if np.isfinite(radius) else theta
    return [*points, theta]


def dense(feature):
    return feature.toarray().ravel() if sp.issparse(feature) else feature


def chain_groups(model, column_groups):
    """Group of every weight of a chain: that of the column of tokens, and one more for pairs of labels."""
    tokens = np.tile(column_groups, model.n_labels)
    return np.concatenate([tokens, np.full(model.dim - len(tokens), max(column_groups) + 1)])
