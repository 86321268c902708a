"""Minimum cuts against enumeration and scipy's flow; bounds, ties, forbidden labels, refusals."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.graphcut import best_labelling, flow_value, score

from pybundle.core.exceptions import InputTypeError, ParameterError
from pybundle.oracles import min_cut, min_cut_batch


def random_edges(rng, n, m):
    """m edges between n >= 2 nodes, some of them twice."""
    a = rng.integers(0, n, m)
    return np.column_stack([a, (a + rng.integers(1, n, m)) % n])


def random_problem(rng, n, integer, tables, two):
    m = int(rng.integers(0, 2 * n)) if n > 1 else 0
    edges = random_edges(rng, n, m) if m else np.empty((0, 2), int)

    def draw(*shape):
        return rng.integers(-3, 4, shape).astype(float) if integer else rng.standard_normal(shape)

    unary = draw(n, 2) if two else draw(n)
    if not tables:
        return unary, edges, np.abs(draw(m))
    pairwise = draw(m, 2, 2)
    short = pairwise[:, 0, 1] + pairwise[:, 1, 0] - pairwise[:, 0, 0] - pairwise[:, 1, 1]
    pairwise[:, 1, 1] += np.maximum(short, 0)
    if integer:                                  # exactly modular tables among them
        return unary, edges, pairwise
    pairwise[:, 0, 0] += rng.random(m)
    return unary, edges, pairwise


def grid_edges(height, width):
    nodes = np.arange(height * width).reshape(height, width)
    across = np.column_stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()])
    return np.concatenate([across, np.column_stack([nodes[:-1].ravel(), nodes[1:].ravel()])])


@pytest.mark.parametrize("tables", [False, True])
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("integer", [False, True])
def test_equals_enumeration(tables, two, integer):
    rng = np.random.default_rng([tables, two, integer])
    for _ in range(250):
        n = int(rng.integers(1, 9))
        unary, edges, pairwise = random_problem(rng, n, integer, tables, two)
        labels, value, upper = min_cut(unary, edges, pairwise)
        expected, best = best_labelling(unary, edges, pairwise)
        assert value == pytest.approx(best, abs=1e-12)
        assert value == pytest.approx(score(unary, edges, pairwise, labels), abs=1e-12)
        assert value <= upper <= value + 1e-11
        assert upper >= best
        if integer:                              # sums are exact, so ties are true ties
            assert value == best
            assert labels.tolist() == expected.tolist()


def test_forbidden_labels_and_pairs():
    rng = np.random.default_rng(1)
    for _ in range(1000):
        n = int(rng.integers(2, 8))
        unary, edges, pairwise = random_problem(rng, n, False, True, True)
        unary[rng.random((n, 2)) < 0.2] = -np.inf
        for k in (1, 2):
            pairwise.reshape(-1, 4)[rng.random(len(edges)) < 0.2, k] = -np.inf
        labels, value, upper = min_cut(unary, edges, pairwise)
        best = best_labelling(unary, edges, pairwise)[1]
        if best == -np.inf:
            assert value == upper == -np.inf
        else:
            assert value == pytest.approx(best, abs=1e-12)
            assert best <= upper <= best + 1e-10
            assert np.isfinite(score(unary, edges, pairwise, labels))


@pytest.mark.parametrize("coupling", [1, 30, 300, 3000])
@pytest.mark.parametrize("smooth", [False, True])
def test_equals_the_integer_flow_of_scipy(coupling, smooth):
    rng = np.random.default_rng([coupling, smooth])
    for side in (3, 16, 40):
        unary = rng.integers(-1000, 1001, (side, side))
        if smooth:
            unary = unary.cumsum(axis=0).cumsum(axis=1) // side
        unary = unary.ravel()
        for edges in (grid_edges(side, side), random_edges(rng, side * side, 3 * side * side)):
            weights = rng.integers(0, coupling + 1, len(edges))
            _, value, upper = min_cut(unary, edges, weights)
            assert value == flow_value(unary, edges, weights)
            assert value <= upper <= value + 1e-9 * np.abs(unary).sum()


@given(st.data())
def test_bound_and_symmetries(data):
    n = data.draw(st.integers(1, 40))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    scale = data.draw(st.sampled_from([1e-200, 1e-8, 1.0, 1e12, 1e200]))
    tables = data.draw(st.booleans())
    unary, edges, pairwise = random_problem(rng, n, data.draw(st.booleans()), tables, False)
    unary, pairwise = scale * unary, scale * pairwise
    labels, value, upper = min_cut(unary, edges, pairwise)
    size = np.abs(unary).sum() + np.abs(pairwise).sum()
    assert value <= upper <= value + 1e-11 * size
    for _ in range(10):
        other = rng.integers(0, 2, n)
        assert score(unary, edges, pairwise, other) <= upper
    # other order of edges and nodes, ends exchanged: the same problem
    order, names = rng.permutation(len(edges)), rng.permutation(n)
    swapped = pairwise.transpose(0, 2, 1) if tables else pairwise
    renamed = np.empty(n)
    renamed[names] = unary
    again, same, _ = min_cut(renamed, names[edges][order][:, ::-1], swapped[order])
    assert same == pytest.approx(value, abs=1e-11 * size)
    if scale == 1.0 and np.all(unary == np.round(unary)) and np.all(pairwise == np.round(pairwise)):
        assert again[names].tolist() == labels.tolist()


def test_weights_equal_tables_and_duplicates_add():
    rng = np.random.default_rng(2)
    for _ in range(200):
        unary, edges, weights = random_problem(rng, 12, True, False, False)
        tables = np.zeros((len(edges), 2, 2))
        tables[:, 0, 1] = tables[:, 1, 0] = -weights
        labels, value, _ = min_cut(unary, edges, weights)
        for other in (min_cut(unary, edges, tables),
                      min_cut(np.column_stack([np.zeros(12), unary]), edges.astype(np.int32), weights),
                      min_cut(unary, np.concatenate([edges, edges[:, ::-1]]), np.concatenate([weights, weights]) / 2)):
            assert other[0].tolist() == labels.tolist()
            assert other[1] == value


def test_capacities_of_very_different_size_end():
    """Augmentations never stop at a threshold: capacities over 30 orders of magnitude."""
    rng = np.random.default_rng(3)
    for side in (4, 12):
        edges = grid_edges(side, side)
        for _ in range(50):
            unary = rng.standard_normal(side * side) * 10.0 ** rng.integers(-15, 16, side * side)
            weights = rng.random(len(edges)) * 10.0 ** rng.integers(-15, 16, len(edges))
            _, value, upper = min_cut(unary, edges, weights)
            assert value <= upper <= value + 1e-12 * np.abs(unary).sum()


def test_denormals_and_zeros():
    tiny = 5e-324
    labels, value, upper = min_cut([tiny, -tiny, 0.0], [(0, 1), (1, 2)], [tiny, 0.0])
    assert labels.tolist() == [0, 0, 0]
    assert value == 0.0 <= upper
    labels, value, upper = min_cut(np.zeros(5), grid_edges(1, 5), np.ones(4))
    assert labels.tolist() == [0] * 5
    assert value == upper == 0.0


def test_a_nearly_modular_table_is_rounding():
    table = np.array([[[0.3, 0.1 + 0.2], [0.0, 0.0]]])          # 0.1 + 0.2 > 0.3 by one bit
    _, value, upper = min_cut([0.0, 0.0], [(0, 1)], table)
    assert value == 0.1 + 0.2
    assert value <= upper


def test_small_graphs():
    assert min_cut([], np.empty((0, 2)), [])[1] == 0.0
    labels, value, upper = min_cut([2.0], [], [])
    assert (labels.tolist(), value) == ([1], 2.0) and upper >= 2.0
    assert labels.dtype == np.uint8
    assert min_cut(np.float32([[-1.0, -3.0]]), [], np.empty((0, 2, 2)))[0].tolist() == [0]


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(4)
    problems = [random_problem(rng, int(n), False, True, False) for n in rng.integers(1, 60, 400)]
    sizes = [[len(unary), len(edges)] for unary, edges, _ in problems]
    offsets = np.concatenate([[[0, 0]], np.cumsum(sizes, axis=0)]).T
    return problems, [np.concatenate(arrays) for arrays in zip(*problems, strict=True)], offsets


def test_batch_equals_single_calls_with_any_executor(batch):
    problems, arrays, offsets = batch
    labels, values, uppers = min_cut_batch(*arrays, *offsets)
    singles = [min_cut(*problem) for problem in problems]
    assert labels.tolist() == np.concatenate([single[0] for single in singles]).tolist()
    assert values.tolist() == [single[1] for single in singles]
    assert uppers.tolist() == [single[2] for single in singles]
    with ThreadPoolExecutor(4) as executor:
        for _ in range(3):
            again = min_cut_batch(*arrays, *offsets, executor=executor)
            assert [array.tobytes() for array in again] == [labels.tobytes(), values.tobytes(), uppers.tobytes()]


def test_an_empty_batch():
    labels, values, uppers = min_cut_batch([], np.empty((0, 2), int), [], [0], [0])
    assert len(labels) == len(values) == len(uppers) == 0


@pytest.mark.parametrize("unary, edges, pairwise, text", [
    ([0.0, np.nan], [(0, 1)], [1.0], r"unary\[1\] must be a finite number or -inf, got nan"),
    ([[0, 0], [0, np.inf]], [(0, 1)], [1.0], r"unary\[1, 1\] must be a finite number or -inf, got inf"),
    ([0.0, 1.0], [(0, 1), (0, 2)], [1.0, 1.0], r"edges\[1\] must join nodes 0..1, got \(0, 2\)"),
    ([0.0, 1.0], [(-1, 1)], [1.0], r"edges\[0\] must join nodes 0..1, got \(-1, 1\)"),
    ([0.0, 1.0], [(0, 1), (1, 1)], [1.0, 1.0], r"edges\[1\] must join two different nodes, got \(1, 1\)"),
    ([0.0, 1.0], [(0, 1), (1, 0)], [1.0, -2.0], r"pairwise\[1\] must be a finite weight >= 0, got -2.0 on edge "
                                                r"\(1, 0\)"),
    ([0.0, 1.0], [(0, 1)], [np.inf], r"pairwise\[0\] must be a finite weight >= 0, got inf"),
    ([0.0, 1.0], [(0, 1)], [[[0, 1], [1, 0]]], r"pairwise\[0\] of edge \(0, 1\) is not submodular: t\[0, 0\] \+ "
                                               r"t\[1, 1\] = 0 must be at least t\[0, 1\] \+ t\[1, 0\] = 2"),
    ([0.0, 1.0], [(0, 1)], [[[-np.inf, 1], [1, 0]]], r"not submodular"),
    ([0.0, 1.0], [(0, 1)], [[[0, np.nan], [0, 0]]], r"pairwise\[0\] must hold finite numbers or -inf"),
    ([0.0, 1.0], [(0, 1)], [1.0, 1.0], r"pairwise must have shape \(m,\) = \(1,\)"),
    ([0.0, 1.0], [(0, 1, 2)], [1.0], r"edges must have shape \(m, 2\)"),
    ([[0.0, 1.0, 2.0]], [], [], r"unary must have shape \(n,\) or \(n, 2\)"),
    ([1e307, 1e307], [(0, 1)], [1.0], r"sum to less than 1e307"),
])  # fmt: skip
def test_bad_input_is_refused(unary, edges, pairwise, text):
    with pytest.raises(ParameterError, match=text):
        min_cut(unary, edges, pairwise)


def test_bad_types_are_refused():
    with pytest.raises(InputTypeError, match=r"edges must be integers, got dtype float64"):
        min_cut([0.0, 1.0], [(0.0, 1.0)], [1.0])
    with pytest.raises(InputTypeError, match=r"unary must be an array of real numbers"):
        min_cut(["a"], [], [])


def test_a_bad_graph_of_a_batch_is_named(batch):
    _, (unary, edges, pairwise), (nodes, arcs) = batch
    first = int(arcs[300])
    wrong = edges.copy()
    wrong[first + 1] = (0, 500)
    wrong[-1] = 7
    with pytest.raises(ParameterError, match=rf"edges\[{first + 1}\] must join nodes .*graph 300, edge 1 of it"):
        min_cut_batch(unary, wrong, pairwise, nodes, arcs)
    wrong = unary.copy()
    wrong[nodes[7] + 2] = np.nan
    with pytest.raises(ParameterError, match=rf"unary\[{nodes[7] + 2}\] .*graph 7, node 2 of it"):
        min_cut_batch(wrong, edges, pairwise, nodes, arcs)
    with pytest.raises(ParameterError, match="must describe the same graphs, got 400 and 399"):
        min_cut_batch(unary, edges, pairwise, nodes, np.delete(arcs, 5))


@pytest.mark.parametrize("real, whole", [(">f8", ">i4"), ("<f8", ">i8"), ("<f4", "<u2"), (">f4", "<i8")])
def test_any_byte_order_and_width(real, whole):
    unary, edges, weights = [3.0, -1.0, -4.0], [(0, 1), (1, 2)], [2.0, 0.5]
    labels, value, _ = min_cut(np.array(unary, real), np.array(edges, whole), np.array(weights, real))
    assert labels.tolist() == [1, 1, 0] and value == 1.5


def test_tables_beyond_the_range_are_not_called_supermodular():
    with pytest.raises(ParameterError, match="the scores of the graph must sum to less than 1e307"):
        min_cut([0.0, 0.0], [(0, 1)], np.full((1, 2, 2), 1.7e308))
    with pytest.raises(ParameterError, match="the scores of graph 1 must sum to less than 1e307"):
        min_cut_batch([0.0, 0.0, 1e308, 0.0], np.zeros((0, 2), int), [], [0, 2, 4], [0, 0, 0])


def test_ragged_edges_are_refused():
    with pytest.raises(InputTypeError, match="edges must be integers"):
        min_cut(np.zeros(3), [(0, 1), (1,)], [1.0, 1.0])
