"""Labels and relaxed points of graphs against enumeration, linear programs and exact arithmetic; refusals."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from reference.graph_labeling import best_score, exact_bound, relaxed_maximum, score

from pybundle.core.exceptions import InputTypeError, ParameterError
from pybundle.oracles import (
    graph_labeling,
    graph_labeling_batch,
    graph_relaxation,
    graph_relaxation_batch,
    graph_upper,
    min_cut,
)

CYCLE = np.array([(0, 1), (1, 2), (2, 0)])


def random_graph(rng, n, K, m, shared=False):
    """m edges of any direction, some of them parallel, between n nodes."""
    m = m if n > 1 else 0
    a = rng.integers(0, n, m)
    edges = np.column_stack([a, (a + rng.integers(1, max(n, 2), m)) % max(n, 1)]) if m else np.empty((0, 2), int)
    return rng.standard_normal((n, K)), edges, rng.standard_normal((K, K) if shared else (m, K, K))


def random_forest(rng, n, K):
    edges = np.array([(j, rng.integers(j)) for j in range(1, n) if rng.random() < 0.8], dtype=int).reshape(-1, 2)
    edges = np.concatenate([edges, edges[:2, ::-1]])                  # parallel edges do not make a cycle
    names = rng.permutation(n)
    return rng.standard_normal((n, K)), names[edges], rng.standard_normal((len(edges), K, K))


def grid(height, width):
    at = np.arange(height * width).reshape(height, width)
    return np.concatenate([np.column_stack([at[:, :-1].ravel(), at[:, 1:].ravel()]),
                           np.column_stack([at[:-1].ravel(), at[1:].ravel()])])


def check_point(point, unaries, edges, pairwise):
    """Whole numbers that are consistent exactly, and the score of the point."""
    nodes, tables = point.nodes * 2**30, point.edges * 2**30
    assert (nodes == np.floor(nodes)).all() and (tables == np.floor(tables)).all()
    assert (nodes >= 0).all() and (tables >= 0).all() and (nodes.sum(axis=1) == 2**30).all()
    assert (tables.sum(axis=2) == nodes[edges[:, 0]]).all() and (tables.sum(axis=1) == nodes[edges[:, 1]]).all()
    size = np.abs(unaries).sum() + np.abs(np.broadcast_to(pairwise, point.edges.shape)).sum()
    assert point.value == pytest.approx((point.nodes * unaries).sum() + (point.edges * pairwise).sum(),
                                        abs=1e-13 * size)
    assert point.value <= point.upper
    # the bound is what the messages prove; only a value above it by rounding lifts it
    assert point.upper == max(graph_upper(unaries, edges, pairwise, point.messages), point.value)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("K", [2, 3, 4])
def test_equals_enumeration(K, shared):
    rng = np.random.default_rng([K, shared])
    closed = 0
    for _ in range(80):
        n = int(rng.integers(1, 7 if K < 4 else 6))
        graph = random_graph(rng, n, K, int(rng.integers(0, 9)), shared)
        labels, value, upper = graph_labeling(*graph)
        best = best_score(*graph)
        assert labels.dtype == np.int32 and value == pytest.approx(score(*graph, labels), abs=1e-12)
        assert value <= best + 1e-12 and upper >= best
        closed += value >= best - 1e-12
        relaxed = graph_relaxation(*graph)
        assert relaxed.upper >= best
        check_point(relaxed, *graph)
    assert closed >= 78


@pytest.mark.parametrize("K", [2, 3, 9, 17])
def test_forests_are_exact(K):
    rng = np.random.default_rng(K)
    for n in (1, 2, 3, 4, 5, 40, 300):
        graph = random_forest(rng, n, K)
        labels, value, upper = graph_labeling(*graph, sweeps=1)
        assert value == pytest.approx(score(*graph, labels), abs=1e-10)
        assert value <= upper <= value + 1e-9
        point = graph_relaxation(*graph, tol=0.0)
        check_point(point, *graph)
        assert point.nodes.argmax(axis=1).tolist() == labels.tolist() and point.upper <= point.value + 1e-9


def test_submodular_pairs_are_exact():
    rng = np.random.default_rng(1)
    for n in (2, 5, 12, 100):
        for shared in (False, True):
            unaries, edges, pairwise = random_graph(rng, n, 2, 3 * n, shared)
            pairwise[..., 1, 1] += np.maximum(
                pairwise[..., 0, 1] + pairwise[..., 1, 0] - pairwise[..., 0, 0] - pairwise[..., 1, 1], 0)
            labels, value, upper = graph_labeling(unaries, edges, pairwise)
            expected = min_cut(unaries, edges, np.array(np.broadcast_to(pairwise, (len(edges), 2, 2))))
            assert labels.tolist() == expected[0].tolist() and value == pytest.approx(expected[1], abs=1e-12)
            assert upper <= value + 1e-9
            assert graph_relaxation(unaries, edges, pairwise).upper >= value


@pytest.mark.parametrize("K", [2, 3, 5])
def test_relaxation_meets_the_linear_program(K):
    rng = np.random.default_rng(K)
    open_gaps = 0
    for i in range(60):
        graph = random_graph(rng, int(rng.integers(3, 9)), K, int(rng.integers(4, 16)), i % 3 == 0)
        maximum = relaxed_maximum(*graph)
        point = graph_relaxation(*graph, tol=3e-3)
        check_point(point, *graph)
        assert point.upper >= maximum - 1e-9 and point.value <= maximum + 1e-7
        assert graph_labeling(*graph).upper >= maximum - 1e-9
        open_gaps += point.upper - point.value > 3e-3
    assert open_gaps == 0


def test_grids_meet_the_linear_program():
    rng = np.random.default_rng(2)
    edges = grid(7, 7)
    for scale, K in ((0.3, 5), (1.0, 3)):
        unaries = rng.standard_normal((49, K))
        pairwise = scale * rng.standard_normal((len(edges), 1, 1)) * np.eye(K)
        maximum = relaxed_maximum(unaries, edges, pairwise)
        point = graph_relaxation(unaries, edges, pairwise, tol=1e-3 * maximum)
        assert maximum - 1e-3 * maximum <= point.value <= point.upper <= maximum + 1e-3 * maximum
        check_point(point, unaries, edges, pairwise)


def test_bounds_in_exact_arithmetic():
    rng = np.random.default_rng(3)
    for i in range(500):
        K = int(rng.integers(2, 4))
        unaries, edges, pairwise = random_graph(rng, int(rng.integers(1, 6)), K, int(rng.integers(0, 9)), i % 4 == 0)
        unaries *= 10.0 ** rng.integers(-12, 13, unaries.shape) if i % 2 else 1.0
        pairwise *= 10.0 ** rng.integers(-12, 13, pairwise.shape) if i % 2 else 1.0
        d = rng.standard_normal((len(edges), 2, K)) * 10.0 ** rng.integers(-12, 13, (len(edges), 2, K))
        size = np.abs(unaries).sum() + np.abs(np.broadcast_to(pairwise, (len(edges), K, K))).sum() + np.abs(d).sum()
        bound = exact_bound(unaries, edges, pairwise, d)
        assert bound <= Fraction(graph_upper(unaries, edges, pairwise, d)) <= bound + Fraction(1e-13 * size)
        if i % 5 == 0:
            best = best_score(unaries, edges, pairwise, Fraction)
            labels, _, upper = graph_labeling(unaries, edges, pairwise)
            assert score(unaries, edges, pairwise, labels, Fraction) <= best <= Fraction(upper)
            point = graph_relaxation(unaries, edges, pairwise, sweeps=20)
            assert best <= Fraction(point.upper)
            exact = sum((Fraction(float(p)) * Fraction(float(t)) for p, t in zip(
                np.concatenate([point.nodes.ravel(), point.edges.ravel()]),
                np.concatenate([unaries.ravel(), np.broadcast_to(pairwise, point.edges.shape).ravel()]),
                strict=True)), Fraction(0))
            assert exact <= Fraction(point.upper) and abs(exact - Fraction(point.value)) <= Fraction(1e-13 * size)


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e90])
def test_scales(scale):
    rng = np.random.default_rng(4)
    for _ in range(20):
        unaries, edges, pairwise = random_graph(rng, 5, 3, 8)
        value, upper = graph_labeling(scale * unaries, edges, scale * pairwise, tol=1e-3 * scale)[1:]
        assert value <= upper and value == pytest.approx(graph_labeling(unaries, edges, pairwise).value * scale)
        point = graph_relaxation(scale * unaries, edges, scale * pairwise, tol=1e-3 * scale)
        check_point(point, scale * unaries, edges, scale * pairwise)
        maximum = scale * relaxed_maximum(unaries, edges, pairwise)
        assert maximum * (1 - 1e-9) <= point.upper <= maximum + (2e-3 if scale > 1e-290 else 1.0) * scale


def test_frustrated_cycles():
    for n in (3, 5, 9):
        edges = np.column_stack([np.arange(n), (np.arange(n) + 1) % n])
        differ = 1.0 - np.eye(2)
        labels, value, upper = graph_labeling(np.zeros((n, 2)), edges, differ)
        assert (value, upper) == (n - 1.0, pytest.approx(n)) and len(labels) == n
        point = graph_relaxation(np.zeros((n, 2)), edges, differ, tol=1e-6)
        check_point(point, np.zeros((n, 2)), edges, differ)
        assert point.value >= n - 1e-6
    # three labels are enough for odd cycles
    assert graph_labeling(np.zeros((3, 3)), CYCLE, 1.0 - np.eye(3)).value == 3.0


def test_a_tree_beside_a_cycle_and_an_isolated_node():
    rng = np.random.default_rng(5)
    edges = np.concatenate([CYCLE, [(3, 4), (5, 4)]])
    for _ in range(20):
        graph = rng.standard_normal((7, 3)), edges, rng.standard_normal((5, 3, 3))
        best = best_score(*graph)
        labels, value, upper = graph_labeling(*graph)
        assert value == pytest.approx(best, abs=1e-12) and upper >= best
        point = graph_relaxation(*graph)
        check_point(point, *graph)
        assert (point.nodes[3:].max(axis=1) == 1.0).all() and point.nodes[3:].argmax(axis=1).tolist() == labels[
            3:].tolist()


def test_parallel_edges_add_up():
    rng = np.random.default_rng(6)
    for shared in (False, True):
        for _ in range(30):
            unaries, edges, pairwise = random_graph(rng, 5, 3, 7, shared)
            both = np.concatenate([edges, edges[:, ::-1]])
            half = 0.5 * (pairwise + pairwise.T) if shared else np.concatenate(
                [0.5 * pairwise, 0.5 * pairwise.transpose(0, 2, 1)])
            one = graph_labeling(unaries, edges, pairwise + pairwise.T if shared else pairwise)
            two = graph_labeling(unaries, both, half)
            assert two.labels.tolist() == one.labels.tolist() and two.value == pytest.approx(one.value)
            assert two.upper == pytest.approx(one.upper)
            check_point(graph_relaxation(unaries, both, half), unaries, both, half)
    point = graph_relaxation(rng.standard_normal((2, 4)), [(0, 1), (1, 0), (0, 1)], rng.standard_normal((3, 4, 4)))
    assert point.upper - point.value <= 1e-9                         # merged, the edges are a tree


def test_names_of_nodes_labels_and_ends_do_not_matter():
    rng = np.random.default_rng(7)
    for _ in range(20):
        unaries, edges, pairwise = random_graph(rng, 5, 4, 8)
        maximum = best_score(unaries, edges, pairwise)
        nodes, labels, order = rng.permutation(5), rng.permutation(4), rng.permutation(len(edges))
        renamed = np.empty_like(unaries)
        renamed[nodes] = unaries[:, labels]
        again = nodes[edges][order][:, ::-1], pairwise[:, labels][:, :, labels][order].transpose(0, 2, 1)
        found = graph_relaxation(renamed, *again)
        assert found.upper >= maximum and found.value >= graph_relaxation(unaries, edges, pairwise).value - .05


def test_kept_messages_save_sweeps():
    rng = np.random.default_rng(8)
    edges = grid(8, 8)
    unaries, pairwise = rng.standard_normal((64, 4)), rng.standard_normal((len(edges), 4, 4))
    messages = np.zeros((len(edges), 2, 4))
    first = graph_labeling(unaries, edges, pairwise, messages=messages)
    assert graph_upper(unaries, edges, pairwise, messages) == first.upper
    again = graph_labeling(unaries, edges, pairwise, messages=messages, sweeps=1)
    assert again.upper <= first.upper + 1e-12 * abs(first.upper)
    assert again.upper < graph_labeling(unaries, edges, pairwise, sweeps=1).upper
    found = graph_relaxation(unaries, edges, pairwise, tol=0.5)
    assert found.upper - found.value <= 0.5
    for _ in range(3):
        pairwise = pairwise + 0.01 * rng.standard_normal(pairwise.shape)
        assert graph_relaxation(unaries, edges, pairwise, messages=found.messages, tol=0.5).messages is found.messages
        warm = graph_relaxation(unaries, edges, pairwise, messages=found.messages.copy(), sweeps=5, tol=0.5)
        cold = graph_relaxation(unaries, edges, pairwise, sweeps=5, tol=0.5)
        assert warm.upper < cold.upper and warm.value <= warm.upper


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(9)
    graphs = [random_graph(rng, int(n), 3, int(rng.integers(0, 2 * n))) for n in rng.integers(1, 30, 150)]
    offsets = np.cumsum([[0, 0]] + [[len(unaries), len(edges)] for unaries, edges, _ in graphs], axis=0).T
    return graphs, [np.concatenate(arrays) for arrays in zip(*graphs, strict=True)], offsets


def test_batch_equals_single_calls_with_any_executor(batch):
    graphs, arrays, offsets = batch
    tols = np.geomspace(1e-3, 1.0, len(graphs))
    labels, values, uppers = graph_labeling_batch(*arrays, *offsets, tol=tols)
    singles = [graph_labeling(*graph, tol=tol) for graph, tol in zip(graphs, tols, strict=True)]
    assert labels.tolist() == np.concatenate([single.labels for single in singles]).tolist()
    assert (values.tolist(), uppers.tolist()) == ([s.value for s in singles], [s.upper for s in singles])
    points = graph_relaxation_batch(*arrays, *offsets, tol=tols, sweeps=60)
    singles = [graph_relaxation(*graph, tol=tol, sweeps=60) for graph, tol in zip(graphs, tols, strict=True)]
    for i in (0, 1, 4):
        assert points[i].tobytes() == np.concatenate([single[i] for single in singles]).tobytes()
    assert (points.value.tolist(), points.upper.tolist()) == ([s.value for s in singles], [s.upper for s in singles])
    with ThreadPoolExecutor(2) as executor:
        for _ in range(3):
            found = graph_labeling_batch(*arrays, *offsets, tol=tols, executor=executor)
            assert [array.tobytes() for array in found] == [labels.tobytes(), values.tobytes(), uppers.tobytes()]
            found = graph_relaxation_batch(*arrays, *offsets, tol=tols, sweeps=60, executor=executor)
            assert [array.tobytes() for array in found] == [array.tobytes() for array in points]


def test_cuts_and_messages_in_one_batch():
    rng = np.random.default_rng(10)
    graphs = [random_graph(rng, 4, 2, 5) for _ in range(40)]
    for _, _, pairwise in graphs[::2]:
        pairwise[:, 0, 0] += 5.0
    offsets = np.arange(41) * 4, np.arange(41) * 5
    found = graph_labeling_batch(*(np.concatenate(arrays) for arrays in zip(*graphs, strict=True)), *offsets)
    singles = [graph_labeling(*graph) for graph in graphs]
    assert found.labels.tolist() == np.concatenate([single.labels for single in singles]).tolist()
    assert (found.value.tolist(), found.upper.tolist()) == ([s.value for s in singles], [s.upper for s in singles])
    assert (found.upper - found.value)[::2].max() <= 1e-9


def test_empty_graphs_and_batches():
    none = np.empty((0, 3)), [], np.empty((0, 3, 3))
    assert graph_labeling(*none)[1:] == (0.0, 0.0) and graph_relaxation(*none).upper == 0.0
    labels, value, upper = graph_labeling([[1, 3, 2]], [], [])
    assert (labels.tolist(), value) == ([1], 3.0) and upper == pytest.approx(3.0)
    assert graph_upper([[1, 3, 2]], [], np.zeros((3, 3)), []) >= 3.0
    assert graph_relaxation([[1, 3, 2]], [], []).nodes.tolist() == [[0.0, 1.0, 0.0]]
    assert len(graph_labeling_batch(*none, [0], [0]).value) == len(graph_relaxation_batch(*none, [0], [0]).value) == 0
    assert graph_labeling_batch([[1, 2]], [], [], [0, 0, 1, 1], [0, 0, 0, 0]).value.tolist() == [0.0, 2.0, 0.0]


@pytest.mark.parametrize("K", [2, 7, 8, 9, 16, 17, 40])
def test_any_number_of_labels(K):
    rng = np.random.default_rng(K)
    for _ in range(5):
        graph = random_graph(rng, 3, K, 5)
        assert graph_labeling(*graph).upper >= (best := best_score(*graph) if K < 18 else -np.inf)
        point = graph_relaxation(*graph, tol=1e-3)
        check_point(point, *graph)
        assert point.upper >= max(best, relaxed_maximum(*graph) - 1e-9) and point.upper - point.value <= 0.1


TWO = np.zeros((2, 2))


@pytest.mark.parametrize("unaries, edges, pairwise, text", [
    ([[0.0], [1.0]], [(0, 1)], [[1.0]], r"unaries must have shape \(n, K\) with at least 2 .* got shape \(2, 1\)"),
    ([0.0, 1.0], [(0, 1)], TWO, r"unaries must have shape \(n, K\)"),
    ([[0, np.nan], [0, 0]], [(0, 1)], TWO, r"unaries\[0, 1\] must be finite .* got nan"),
    ([[0, 1e100], [0, 0]], [(0, 1)], TWO, r"unaries\[0, 1\] must be finite and below 1e\+100 in size"),
    (TWO, [(0, 1)], [[[0, 0], [-np.inf, 0]]], r"pairwise\[0, 1, 0\] must be finite .* got -inf"),
    (TWO, [(0, 1), (0, 2)], TWO, r"edges\[1\] must join nodes 0..1, got \(0, 2\)"),
    (TWO, [(-1, 1)], TWO, r"edges\[0\] must join nodes 0..1, got \(-1, 1\)"),
    (TWO, [(0, 1), (1, 1)], TWO, r"edges\[1\] must join two different nodes, got \(1, 1\); drop it, or add"),
    (TWO, [(0, 1, 1)], TWO, r"edges must have shape \(m, 2\)"),
    (TWO, [(0, 1)], np.zeros((2, 2, 2)), r"pairwise must have shape \(m, K, K\) = \(1, 2, 2\), a table an edge, or"),
    (TWO, [(0, 1)], np.zeros((3, 3)), r"pairwise must have shape .* or \(K, K\) = \(2, 2\), got \(3, 3\)"),
])  # fmt: skip
def test_bad_graphs_are_refused(unaries, edges, pairwise, text):
    for function in (graph_labeling, graph_relaxation):
        with pytest.raises(ParameterError, match=text):
            function(unaries, edges, pairwise)


@pytest.mark.parametrize("given, error, text", [
    ({"tol": -1.0}, ParameterError, "tol must be finite and >= 0, got -1"),
    ({"tol": np.nan}, ParameterError, "tol must be finite and >= 0, got nan"),
    ({"tol": [1.0, 2.0]}, ParameterError, r"tol must be a number or 1 of them, one for each graph, got shape \(2,\)"),
    ({"sweeps": 0}, ParameterError, "sweeps must be an integer >= 1, got 0"),
    ({"sweeps": 1.5}, InputTypeError, "sweeps must be an integer"),
    ({"messages": [[[0.0, 0.0]] * 2]}, InputTypeError, "messages must be a float64 array, which is overwritten"),
    ({"messages": np.zeros((1, 2, 2), int)}, InputTypeError, "messages must be a float64 array.* got dtype int64"),
    ({"messages": np.zeros((1, 2, 3))}, ParameterError, r"of shape \(m, 2, K\) = \(1, 2, 2\), got shape \(1, 2, 3\)"),
    ({"messages": np.zeros((1, 2, 4))[:, :, ::2]}, ParameterError, "messages must be a writeable array in C order"),
    ({"messages": np.full((1, 2, 2), np.inf)}, ParameterError, r"messages\[0, 0, 0\] must be finite"),
])  # fmt: skip
def test_bad_settings_are_refused(given, error, text):
    for function in (graph_labeling, graph_relaxation):
        with pytest.raises(error, match=text):
            function(TWO, [(0, 1)], TWO, **given)


def test_bad_messages_of_a_bound_are_refused():
    with pytest.raises(ParameterError, match=r"messages must have shape \(m, 2, K\) = \(1, 2, 2\), got \(1, 4\)"):
        graph_upper(TWO, [(0, 1)], TWO, np.zeros((1, 4)))


def test_a_bad_edge_of_a_batch_is_named(batch):
    _, (unaries, edges, pairwise), (nodes, arcs) = batch
    graph = int(np.flatnonzero(np.diff(arcs) > 2)[-1])
    wrong = edges.copy()
    wrong[arcs[graph] + 1] = (0, 500)
    with pytest.raises(ParameterError, match=rf"edges\[{arcs[graph] + 1}\] must join .*\(graph {graph}, edge 1 of it"):
        graph_labeling_batch(unaries, wrong, pairwise, nodes, arcs)
    with pytest.raises(ParameterError, match="must describe the same graphs, got 150 and 149"):
        graph_relaxation_batch(unaries, edges, pairwise, nodes, np.delete(arcs, 5))
