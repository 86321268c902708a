"""Decoders alone against the peers that can be installed, each on the same scores in the same process.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/decoders.py [--only chain ...] [--repeats 7]

One thread; a row is the least time of the repeats, candidates in turn. A comparison whose peer (or data) is absent
is skipped and said. Writes results/decoders.md, one section a decoder; with --only the other sections are kept.
"""

import argparse
import os
import time
from itertools import pairwise
from pathlib import Path

from common import RESULTS, table, version  # sets threads: before NumPy

# isort: split
import numpy as np

from pybundle import oracles

PAGE = RESULTS / "decoders.md"
TITLE = """# Decoders alone

`asv_benchmarks/reproduce/decoders.py`, one thread, least time of the repeats, candidates in turn in one process."""


class Skipped(Exception):
    """What a comparison needs is not here."""


def least_times(candidates, repeats):
    """Least CPU seconds of every callable; they take turns."""
    best = dict.fromkeys(candidates, np.inf)
    for _ in range(repeats):
        for name, run in candidates.items():
            began = time.thread_time()
            run()
            best[name] = min(best[name], time.thread_time() - began)
    return best


def data_file(*parts):
    folder = os.environ.get("PYBUNDLE_DATA")
    if not folder or not Path(folder, *parts).exists():
        raise Skipped(f"PYBUNDLE_DATA must hold {'/'.join(parts)}")
    return Path(folder, *parts)


def chain(repeats):
    """Viterbi on the OCR words, 26 labels: a compiled textbook loop, python-crfsuite's tagger with the same scores."""
    try:
        import numba
    except ImportError as problem:
        raise Skipped("numba is not installed") from problem

    @numba.njit
    def textbook(unary, offsets, transition, labels, values):
        K = unary.shape[1]
        f, g = np.empty(K), np.empty(K)
        back = np.empty((np.max(np.diff(offsets)), K), np.int32)
        for i in range(len(offsets) - 1):
            first, last = offsets[i], offsets[i + 1]
            f[:] = unary[first]
            for t in range(first + 1, last):
                for k in range(K):
                    best, arg = f[0] + transition[0, k], 0
                    for j in range(1, K):
                        score = f[j] + transition[j, k]
                        if score > best:
                            best, arg = score, j
                    g[k], back[t - first, k] = best + unary[t, k], arg
                f, g = g, f
            y = np.argmax(f)
            values[i] = f[y]
            for t in range(last - 1, first - 1, -1):
                labels[t] = y
                y = back[t - first, y]

    with np.load(data_file("ocr_letters", "ocr_letters.npz"), allow_pickle=False) as file:
        X, y, offsets = file["X"], file["y"], file["offsets"].astype(np.int64)
    rng = np.random.default_rng(0)
    counts = np.zeros((26, 26))
    inside = np.setdiff1d(np.arange(1, len(y)), offsets[1:-1])
    np.add.at(counts, (y[inside - 1], y[inside]), 1)
    means = np.stack([X[y == k].mean(axis=0) for k in range(26)])
    naive = X @ np.log((means + 0.01) / (1.01 - means)).T + np.log(1.01 - means).sum(axis=1)
    cases = {"naive Bayes scores": (naive, np.log((counts + 1) / (counts + 1).sum(axis=1, keepdims=True))),
             "random scores": (rng.standard_normal((len(y), 26)), rng.standard_normal((26, 26)))}
    rows = []
    for case, (unary, transition) in cases.items():
        unary = np.ascontiguousarray(unary, dtype=np.float64)
        labels, values = np.empty(len(y), np.int32), np.empty(len(offsets) - 1)
        candidates = {"viterbi_batch": lambda u=unary, T=transition: oracles.viterbi_batch(u, offsets, T),
                      "numba textbook loop": lambda u=unary, T=transition, at=labels, to=values: textbook(
                          u, offsets, T, at, to)}
        candidates["numba textbook loop"]()
        if not np.allclose(oracles.viterbi_batch(unary, offsets, transition)[1], values, rtol=1e-12):
            raise AssertionError("the loop and viterbi_batch disagree")
        candidates["forward_backward_batch"] = lambda u=unary, T=transition: oracles.forward_backward_batch(
            u, offsets, T)
        times = least_times(candidates, repeats)
        for name, seconds in times.items():
            rows.append((case, name, f"{1e3 * seconds:.1f}", f"{len(y) / seconds / 1e6:.2f}",
                         f"{seconds / times['viterbi_batch']:.1f}"))
    rows += crfsuite_row(X, y, offsets, rows)
    return "## Chains\n\n" + f"{len(offsets) - 1} OCR words, {len(y)} letters, 26 labels.\n\n" + table(
        ("scores", "candidate", "ms", "million letters a second", "times viterbi_batch"), rows)


def crfsuite_row(X, y, offsets, rows):
    """Tagging of the same words by a model of python-crfsuite, trained for a moment; its own scores included."""
    try:
        import pycrfsuite
    except ImportError:
        print("python-crfsuite is not installed: its row is left out")
        return []
    words = [pycrfsuite.ItemSequence([[f"p{j}" for j in np.flatnonzero(x)] for x in X[first:last]])
             for first, last in pairwise(offsets)]
    labels = [[str(k) for k in y[first:last]] for first, last in pairwise(offsets)]
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"pybundle-decoders-{os.getpid()}.crfsuite"
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"max_iterations": 5})
    for word, letters in zip(words[::10], labels[::10], strict=True):
        trainer.append(word, letters)
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    seconds = least_times({"tag": lambda: [tagger.tag(word) for word in words]}, 2)["tag"]
    path.unlink()
    mine = min(float(row[2]) for row in rows if row[1] == "viterbi_batch") / 1e3
    return [("its own, from features", "python-crfsuite, tagging", f"{1e3 * seconds:.0f}",
             f"{len(y) / seconds / 1e6:.2f}", f"{seconds / mine:.0f}")]


def tree(repeats):
    """The distance transform over sizes, and trees of eight landmarks on a 40 x 40 grid by it and by tables."""
    rng = np.random.default_rng(0)
    rows = []
    for n in (10**3, 10**4, 10**5, 10**6):
        walk, noise = rng.standard_normal(n).cumsum(), rng.standard_normal(n)
        candidates = {"line, random walk": lambda f=walk: oracles.distance_transform(f, 0.01, 0.1),
                      "line, white noise": lambda f=noise: oracles.distance_transform(f, 0.01, 0.1),
                      "line, white noise, a < 0": lambda f=noise: oracles.distance_transform(f, -0.1, 0.1)}
        side = round(n**0.5)
        scores = rng.standard_normal((side, side))
        candidates["map, white noise"] = lambda f=scores: oracles.distance_transform(f, (0.05, 0.1))
        if n == 10**3:
            distance = np.arange(n)[:, None] - np.arange(n)
            cost = 0.01 * distance**2 + 0.1 * distance
            candidates["line, every pair (NumPy)"] = lambda f=noise, c=cost: (f - c).argmax(axis=1)
        for name, seconds in least_times(candidates, repeats).items():
            count = side * side if name.startswith("map") else n
            rows.append((name, f"{count}", f"{1e3 * seconds:.3f}", f"{1e9 * seconds / count:.1f}"))
    rows.sort(key=lambda row: row[0])
    parents, n = [-1, 0, 0, 0, 0, 1, 2, 0], 50
    maps = rng.standard_normal((8, n, 40, 40))
    costs, anchors = np.tile([0.1, 0.0, 0.1, 0.0], (8, 1)), 4.0 * rng.standard_normal((8, 2))
    tables = [None, *rng.standard_normal((7, 1600, 1600))]
    flat = list(maps[:, :1].reshape(8, 1, -1))
    times = least_times({
        "deformation, batch": lambda: oracles.tree_max_sum_batch(maps, parents, deformations=costs, anchors=anchors),
        "deformation, one call": lambda: oracles.tree_max_sum(maps[:, 0], parents, deformations=costs,
                                                              anchors=anchors),
        "general tables, one call": lambda: oracles.tree_max_sum_batch(flat, parents, tables)}, repeats)
    times["deformation, batch"] /= n
    trees = [(name, f"{1e3 * seconds:.3f}") for name, seconds in times.items()]
    title = "## Trees and distance transforms\n\n"
    title += "Checks and arrays of a call take most of the smallest rows.\n\n"
    lines = table(("distance transform", "positions", "ms", "ns a position"), rows)
    return title + lines + "\n\n" + table(("eight landmarks, 40 x 40 positions each", "ms a tree"), trees)


def cut(repeats):
    """Minimum cuts of grids and superpixel graphs: scipy's integer flow, and PyMaxflow where somebody installed it."""
    import scipy.sparse as sp
    from scipy.ndimage import gaussian_filter
    from scipy.sparse.csgraph import maximum_flow

    try:
        import maxflow  # GPL: no dependency of anything here, only compared with
    except ImportError:
        print("PyMaxflow is not installed: its column is left out")
        maxflow = None

    def scipy_flow(unary, edges, weights, scale=1e6):
        n = len(unary)
        unary, weights, nodes = np.rint(scale * unary), np.rint(scale * weights), np.arange(n)
        tails = np.concatenate([edges[:, 0], edges[:, 1], np.full(n, n), nodes])
        heads = np.concatenate([edges[:, 1], edges[:, 0], nodes, np.full(n, n + 1)])
        capacities = np.concatenate([weights, weights, np.maximum(unary, 0), np.maximum(-unary, 0)]).astype(np.int32)
        graph = sp.csr_array((capacities, (tails, heads)), shape=(n + 2, n + 2))
        return (np.maximum(unary, 0).sum() - maximum_flow(graph, n, n + 1).flow_value) / scale

    def py_maxflow(unary, edges, weights):
        graph = maxflow.Graph[float](len(unary), len(edges))
        nodes = graph.add_nodes(len(unary))
        graph.add_edges(edges[:, 0], edges[:, 1], weights, weights)
        graph.add_grid_tedges(nodes, np.maximum(unary, 0), np.maximum(-unary, 0))
        flow = graph.maxflow()
        graph.get_grid_segments(nodes)
        return np.maximum(unary, 0).sum() - flow

    candidates = {"min_cut": lambda *problem: oracles.min_cut(*problem)[1], "scipy": scipy_flow}
    if maxflow:
        candidates["PyMaxflow"] = py_maxflow
    rng, couplings = np.random.default_rng(0), (0.1, 0.3, 1.0, 3.0, 10.0)
    problems = {}
    for side, n in ((16, 50), (100, 3)):
        nodes = np.arange(side * side).reshape(side, side)
        edges = np.concatenate([np.column_stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()]),
                                np.column_stack([nodes[:-1].ravel(), nodes[1:].ravel()])])
        rough = rng.standard_normal((n, side, side))
        smooth = gaussian_filter(rough, (0.0, 3.0, 3.0))
        for kind, unaries in (("random", rough), ("smooth", smooth / smooth.std())):
            for coupling in couplings:
                problems[f"{side} x {side}, {kind}, {coupling:g}"] = [
                    (unary.ravel(), edges, coupling * rng.random(len(edges))) for unary in unaries]
    try:
        with np.load(data_file("weizmann_horses", "weizmann_horses.npz"), allow_pickle=False) as file:
            nodes, ends = file["node_offsets"], file["edge_offsets"]
            edges, features = file["edges"].astype(np.int64), file["edge_features"].astype(np.float64)
        weights = (features / features.max(axis=0)).sum(axis=1)
        for coupling in couplings:
            problems[f"superpixels, random, {coupling:g}"] = [
                (rng.standard_normal(nodes[i + 1] - nodes[i]), edges[ends[i]:ends[i + 1]],
                 coupling * weights[ends[i]:ends[i + 1]]) for i in range(50)]
    except Skipped as reason:
        print(f"superpixels: left out, {reason}")
    rows = []
    for name, graphs in problems.items():
        values = [[solve(*graph) for graph in graphs] for solve in candidates.values()]
        if not np.allclose(values, values[0], rtol=0.0, atol=1e-6 * sum(len(graph[1]) for graph in graphs)):
            raise AssertionError("the flows disagree")
        times = least_times({key: lambda f=solve, todo=graphs: [f(*graph) for graph in todo]
                             for key, solve in candidates.items()}, repeats)
        times = {key: seconds / len(graphs) for key, seconds in times.items()}
        rows.append((name, f"{1e3 * times['min_cut']:.3f}",
                     *(f"{times[key] / times['min_cut']:.2f}" for key in candidates if key != "min_cut")))
    return "## Cuts\n\n" + (
        "Graph building included. Grids of four neighbours and superpixel graphs of about 230 nodes and 640 edges;\n"
        "mean over 50 graphs (3 of 100 x 100) one after another, so that no candidate learns one by heart. Unaries of\n"
        "variance 1, independent or smoothed; weights uniform in 0..coupling, on superpixels coupling times the sum\n"
        "of their edge features. Other columns: times min_cut.\n\n") + table(
        ("graph, unaries, coupling", "min_cut, ms", *(key for key in candidates if key != "min_cut")), rows)


def arborescence(repeats):
    """Best trees of dense random scores: ufal.chu_liu_edmonds, and networkx on a few."""
    try:
        from ufal.chu_liu_edmonds import chu_liu_edmonds
    except ImportError as problem:
        raise Skipped("ufal.chu-liu-edmonds is not installed") from problem
    try:
        import networkx
    except ImportError:
        print("networkx is not installed: its column is left out")
        networkx = None

    def by_networkx(scores):
        graph = networkx.DiGraph()
        graph.add_weighted_edges_from((h, m, scores[h, m]) for h in range(len(scores))
                                      for m in range(1, len(scores)) if h != m)
        return networkx.maximum_spanning_arborescence(graph).size("weight")

    rng, rows = np.random.default_rng(0), []
    for kind, draw in (("normal", rng.standard_normal), ("uniform", rng.random)):
        for n in (20, 50, 100):
            matrices = draw((200, n + 1, n + 1))
            turned = [np.ascontiguousarray(scores.T) for scores in matrices]      # ufal wants scores[word, head]
            flat, lengths = matrices.ravel(), np.full(len(matrices), n)
            words = np.arange(1, n + 1)
            for scores, other in zip(matrices, turned, strict=True):
                heads = np.array(chu_liu_edmonds(other)[0])
                if not np.isclose(oracles.max_arborescence(scores)[1], scores[heads[1:], words].sum(), rtol=1e-12):
                    raise AssertionError("ufal.chu_liu_edmonds and max_arborescence disagree")
            times = least_times({
                "call": lambda S=matrices: [oracles.max_arborescence(scores) for scores in S],
                "batch": lambda s=flat, k=lengths: oracles.max_arborescence_batch(s, k),
                "one root, call": lambda S=matrices: [oracles.max_arborescence(scores, True) for scores in S],
                "one root, batch": lambda s=flat, k=lengths: oracles.max_arborescence_batch(s, k, True),
                "marginals": lambda s=flat, k=lengths: oracles.arborescence_marginals_batch(s, k),
                "ufal": lambda S=turned: [chu_liu_edmonds(scores) for scores in S],
            }, repeats)
            times = {name: seconds / len(matrices) for name, seconds in times.items()}
            if networkx:
                times["networkx"] = least_times({"": lambda S=matrices: [by_networkx(scores) for scores in S[:3]]},
                                                2)[""] / 3
                found = [oracles.max_arborescence(scores)[1] for scores in matrices[:3]]
                if not np.allclose(found, [by_networkx(scores) for scores in matrices[:3]], rtol=1e-12):
                    raise AssertionError("networkx and max_arborescence disagree")
            rows.append((f"{kind}, {n} words", *(f"{1e6 * times[name]:.1f}" for name in times),
                         *(f"{times['ufal'] / times[name]:.1f}" for name in ("call", "batch"))))
    return "## Dependency trees\n\n" + (
        "200 matrices of independent scores; microseconds a sentence; networkx builds its graph from the matrix.\n\n"
        ) + table(("scores", *(name for name in times), "ufal / call", "ufal / batch"), rows)


SECTIONS = {"chain": chain, "cut": cut, "tree": tree, "arborescence": arborescence}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    kept = {}
    if PAGE.exists():
        for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
            kept[section.split("\n")[0].strip()] = "## " + section.strip()
    for name in arguments.only:
        try:
            section = SECTIONS[name](arguments.repeats)
        except Skipped as reason:
            print(f"{name}: skipped, {reason}")
            continue
        print(section + "\n")
        kept[section.split("\n")[0].removeprefix("## ")] = f"{section}\n\npybundle {version()}."
    PAGE.write_text("\n\n".join([TITLE, *(kept[title] for title in sorted(kept))]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
