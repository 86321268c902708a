"""Arguments of odd types, shapes and sizes are refused by name, not by an exception from NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp

import pybundle as pb
from pybundle.prox import Groups, OverlappingGroups

X, Y = np.arange(24.0).reshape(8, 3), np.arange(8) % 2
HUGE = [2**31, 2**40, 2**62, 2**63, 2**64]


def data_as(name, kind):
    made = sp.csr_array(np.eye(3))
    setattr(made, name, kind(getattr(made, name)))
    return made


@pytest.mark.parametrize("cls", [Groups, OverlappingGroups])
@pytest.mark.parametrize("number", HUGE)
def test_huge_groups(cls, number):
    """MemoryError and OverflowError, from arrays of that length."""
    with pytest.raises(pb.ParameterError, match=rf"dim must be an integer <= 2147483647, got {number}"):
        cls([[0], [1]], dim=number)
    with pytest.raises((pb.ParameterError, pb.InputTypeError), match="groups"):
        cls([[0], [number]], dim=2)
    with pytest.raises(pb.ParameterError, match="dim"):
        Groups.single(number)


def test_few_groups_of_many_features():
    with pytest.raises(pb.ParameterError, match="but 2147483645 of them, feature 1 first"):
        Groups([[0], [2]], dim=2**31 - 1)


@pytest.mark.parametrize("number", HUGE)
def test_huge_maps(number):
    with pytest.raises(pb.ParameterError, match="margin must be an integer <= 1024"):
        pb.features.lbp_maps(np.zeros((3, 3)), margin=number)
    with pytest.raises(pb.ParameterError, match=r"n_maps must leave blocks .* got .*; 2 is the most"):
        pb.features.lbp_maps(np.zeros((3, 3)), n_maps=number)


@pytest.mark.parametrize("kind", [memoryview, list])
@pytest.mark.parametrize("name", ["data", "indices"])
def test_csr_of_other_things_than_arrays(name, kind):
    with pytest.raises(pb.InputTypeError, match=rf"X\.{name} must be a vector, an ndarray, got {kind.__name__}"):
        pb.risks.MulticlassHinge(data_as(name, kind), [0, 1, 2])


@pytest.mark.parametrize("name", ["parts", "slack"])
def test_ragged_columns_of_a_program(name):
    arguments = {"parts": [0, 0], "slack": False} | {name: [[0], [1, 2]]}
    with pytest.raises(pb.InputTypeError, match=f"{name} must be a vector, got"):
        pb.qp.solve_simplex_qp(np.eye(2), np.ones(2), **arguments)


@pytest.mark.parametrize("columns", [0, True, [[0]], [[0], [1, 2]], slice("a"), [9], 2**70], ids=str)
@pytest.mark.parametrize("kind", [pb.mkl.Features, pb.mkl.Linear])
def test_columns_of_a_group(kind, columns):
    for data in (X, sp.csr_array(X)):
        with pytest.raises(pb.ParameterError, match=r"columns of .* must be "):
            pb.mkl.OnlineMKL([kind(columns=columns)]).fit(data, Y)


@pytest.mark.parametrize("y", [[[0], [1, 2]] * 4, np.array([0, None] * 4, dtype=object)], ids=["ragged", "none"])
def test_classes_of_tokens(y):
    with pytest.raises(pb.InputTypeError, match="y must be a vector of classes"):
        pb.mkl.OnlineMKL([pb.mkl.Linear()]).fit(X, y)


def test_values_of_a_callable_kernel():
    with pytest.raises(pb.ParameterError, match=r"function of Callable must give shape \(8, 8\), got \(8,\)"):
        pb.mkl.OnlineMKL([pb.mkl.Callable(lambda A, B: A[:, 0])]).fit(X, Y)


@pytest.mark.parametrize("field", ["nodes", "edges", "edge_features"])
@pytest.mark.parametrize("odd", [[[0, 1], [1]], [np.zeros(2), np.zeros(3)], "ab", None, 3], ids=str)
def test_graphs_of_odd_fields(field, odd):
    good = pb.core.graph.Graph(np.zeros((4, 2)), np.array([[0, 1], [1, 2]]), np.ones((2, 1)))
    with pytest.raises((pb.InputTypeError, pb.ParameterError)):
        pb.models.BinaryLabeling(2, 1).oracle([good, good._replace(**{field: odd})], [np.array([0, 1, 0, 1])] * 2)


def test_scores_of_trees_that_are_not_aligned():
    scores = np.zeros(9 * 8 + 1, dtype=np.uint8)[1:].view(np.float64).reshape(3, 3)
    scores[:] = [[0, 5, 1], [0, 0, 4], [0, 2, 0]]
    assert not scores.flags.aligned
    assert pb.oracles.max_arborescence(scores)[0].tolist() == pb.oracles.max_arborescence(scores.copy())[0].tolist()
