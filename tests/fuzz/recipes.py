"""Valid arguments for everything public, one recipe a callable: what the fuzz starts from.

A recipe is a function of a random generator that gives a dict of arguments. A method is called on what the recipe of
its class makes, or on the object of that name in `OBJECTS`: what public calls return, and no folder names.
"""

import functools
import importlib
import inspect
import io

import numpy as np
import scipy.sparse as sp

import pybundle as pb
from pybundle.bundle import Bundle
from pybundle.core.plane import Planes
from pybundle.core.ragged import Ragged
from pybundle.solvers.block._label_dual import LabelDual
from pybundle.solvers.newton.label_multipliers import LabelMultipliers

FOLDERS = ("bundle", "datasets", "estimators", "features", "methods", "metrics", "mkl", "models", "oracles", "proof",
           "prox", "qp", "risks", "runtime.callbacks", "solvers", "templates")
LEFT_OUT = {
    "models.BatchOracle": "a base class", "models.StructuredModel": "a base class", "mkl.Kernel": "a base class",
    "prox.Penalty": "a base class", "prox.GroupwisePenalty": "a base class", "proof.Report": "a result",
    "estimators.MulticlassSVMCV": "MulticlassSVM in a loop", "estimators.ChainSVMCV": "ChainSVM in a loop",
    "estimators.ChainCRFCV": "ChainCRF in a loop", "estimators.DependencyParserCV": "DependencyParser in a loop",
    "estimators.RankingSVMCV": "RankingSVM in a loop",
    **{f"estimators.{name}.{method}": "a hinge has none" for name in (
        "ChainSVM", "GraphSVM", "MultiLabelSVM", "MulticlassSVM")
       for method in ("predict_proba", "predict_log_proba")},
    "models.Chain.entry_scores": "for estimators, which check",
    "bundle.Planes.from_subgradients": "for solvers, which check",
    "risks.ExampleFunctions.predict_losses": "not on offer", "risks.Logistic.blocks": "not on offer",
    **{f"risks.{name}.{method}": "for solvers" for name in ("Structured", "ExampleFunctions")
       for method in ("planes_of", "distributions")},
    "runtime.callbacks.EarlyStopping": "called by runs", "runtime.callbacks.ProgressBar": "prints",
    "runtime.callbacks.StopSignal": "no arguments", "runtime.callbacks.TimeLimit": "called by runs",
}
LEFT_OUT |= {f"prox.{name}.{method}": "for solvers, which check"
             for name in ("Ball", "Box", "ElasticNet", "L1", "L2", "Lq", "OverlappingGroupLasso", "Separable",
                          "SparseGroupLasso", "SquaredL1", "SquaredL2", "SquaredLq", "Sum", "TreeGroupLasso")
             for method in ("along", "bound", "canonical", "contains", "cost", "effective", "has_bound",
                            "has_exact_prox", "least", "lowered", "minimiser", "modulus", "plus", "point",
                            "point_error", "project", "pushed_outside", "replaced", "scaled_least", "scaling", "signed",
                            "support", "uncertainty", "within")}
LEFT_OUT |= {f"methods.{name}": "for own methods" for name in (
    "Method", "Plane", "Run", "Search", "choice", "integer", "number", "option", "or_none")}
LEFT_OUT |= {f"methods.{name}.{method}": "for solvers" for name in vars(pb.methods)["__all__"]
             for method in ("begin", "on_cached", "stage")}
LEFT_OUT |= {f"risks.{name}.{method}": "for solvers and the verifier" for name in vars(pb.risks)["__all__"]
             for method in ("centred", "moved")}
LEFT_OUT |= {f"prox.{name}.dual_norm": "not on offer" for name in ("Ball", "Box", "Separable")}
LEFT_OUT |= {f"prox.Sum{method}": "written a + b" for method in ("", ".conjugate", ".dual_norm", ".prox",
                                                                 ".subgradient_distance", ".value")}
"""Callables without a recipe. The folders capi, distributed and plotting are left out, too."""
OF_SKLEARN = {"get_metadata_routing", "get_params", "set_params", "set_callbacks", "save"}


def f(r, *shape):
    return r.standard_normal(shape)


def flat(r, n=12, d=3, K=3):
    X, y = f(r, n, d), r.integers(0, K, n)
    y[:K] = range(K)
    kind = r.integers(4)
    return {"X": X if kind < 2 else X.astype(np.float32) if kind == 2 else sp.csr_array(X * (X > 0)), "y": y}


def binary(r):
    data = flat(r, K=2)
    return {**data, "y": 2 * data["y"] - 1}


def words(r):
    return {"X": [f(r, 3, 2), f(r, 2, 2)], "Y": [np.array([0, 1, 2]), r.integers(0, 3, 2)]}


def trees(r):
    return {"X": [sp.csr_array(f(r, 4, 2)), sp.csr_array(f(r, 1, 2))], "Y": [np.array([-1, 0, 1]), np.array([-1, 0])]}


def graph(r):
    return pb.models.Graph(f(r, 4, 2), np.array([[0, 1], [1, 2], [2, 3]]), r.random((3, 1)))


def graphs(r):
    return {"X": [graph(r), graph(r)], "Y": [r.integers(0, 2, 4), np.array([0, 1, 0, 1])]}


def segments(r):
    return np.array([[-3, -3, 0, 0], [-3, 8, 8, 0], [8, 8, 0, 0]])


def images(r):
    return {"X": f(r, 3, 16, 2), "Y": r.integers(0, 4, (3, 2, 2))}


def strips(r):
    return {"X": [f(r, 3, 2), f(r, 2, 2)], "Y": [np.array([0, 1]), np.array([1])]}


DATA = {"Chain": words, "Dependency": trees, "BinaryLabeling": graphs, "GraphLabeling": graphs, "Landmarks": images,
        "Segmentation": strips,
        "Multiclass": lambda r: {"X": f(r, 6, 2), "Y": r.integers(0, 3, 6)}}
MODELS = {
    "Chain": lambda r: {"n_labels": 3, "n_features": 2, "start": True, "end": True},
    "Dependency": lambda r: {"n_features": 2, "single_root": bool(r.integers(2))},
    "BinaryLabeling": lambda r: {"n_features": 2, "n_edge_features": 1, "class_weights": (1.0, 2.0)},
    "GraphLabeling": lambda r: {"n_labels": 2, "n_features": 2, "n_edge_features": 1, "symmetric": [0],
                                "antisymmetric": [], "class_weights": (1.0, 2.0)},
    "Landmarks": lambda r: {"shape": (4, 4), "parents": [-1, 0], "descriptor": pb.features.MapFeatures(2),
                            "boxes": np.array([[0, 0, 4, 4], [0, 0, 4, 4]]), "anchors": f(r, 2, 2), "unit": 1.0},
    "Segmentation": lambda r: {"height": 2, "widths": np.array([1, 2]), "symbols": np.array([0, 1])},
    "Multiclass": lambda r: {"n_classes": 3, "n_features": 2, "loss": 1.0 - np.eye(3)},
}
RECIPES = {f"models.{name}": made for name, made in MODELS.items()}


def model(name, r):
    return getattr(pb.models, name)(**MODELS[name](r))


def structured(name, r, **options):
    return pb.risks.Structured(model(name, r), **DATA[name](r), **options)


def example(name, r):
    made, data = model(name, r), DATA[name](r)
    return made, f(r, made.dim), data["X"][0], data["Y"][0], data["Y"][0]


for _name in MODELS:
    def _of(name, *keys):
        def made(r):
            _, w, x, y, z = example(name, r)
            known = {"w": np.abs(w), "x": x, "y": y, "y_hat": z}
            return {key: known[key] for key in keys}
        return made
    RECIPES |= {f"models.{_name}.decode": _of(_name, "w", "x"), f"models.{_name}.loss": _of(_name, "y", "y_hat"),
                f"models.{_name}.joint_feature": _of(_name, "x", "y"),
                f"models.{_name}.loss_augmented_decode": _of(_name, "w", "x", "y"),
                f"models.{_name}.oracle": DATA[_name]}

EDGES = np.array([[0, 1], [1, 2]])
CYCLE = np.array([[0, 1], [1, 2], [2, 0]])


def labelled_graph(r):
    return {"unaries": f(r, 3, 3), "edges": CYCLE, "pairwise": f(r, 3, 3, 3) if r.integers(2) else f(r, 3, 3)}


def labelled_graphs(r):
    return {"unaries": f(r, 6, 3), "edges": np.concatenate([CYCLE, EDGES]), "pairwise": f(r, 5, 3, 3),
            "node_offsets": np.array([0, 3, 6]), "edge_offsets": np.array([0, 3, 5])}


FORESTS = {"scores": lambda r: f(r, 4, 4), "single_root": lambda r: bool(r.integers(2))}
RECIPES |= {
    "models.BinaryLabeling.node_costs": lambda r: {"labels": r.integers(0, 2, 4), "weights": np.ones(4),
                                                   "offsets": np.array([0, 4])},
    "models.GraphLabeling.node_costs": lambda r: {"labels": r.integers(0, 2, 4), "weights": np.ones(4),
                                                  "offsets": np.array([0, 4])},
    "models.GraphLabeling.decode_batch": lambda r: {"w": f(r, model("GraphLabeling", r).dim), "X": graphs(r)["X"]},
    "models.Graph.from_image": lambda r: {"image": f(r, 3, 4, 2), "segments": segments(r), "features": f(r, 3, 1),
                                          "neighbours": (4, 8)[r.integers(2)]},
    "models.WeightedLabels.from_mask": lambda r: {"mask": r.integers(0, 3, (3, 4)), "segments": segments(r),
                                                  "ignore": 255},
    "models.paint": lambda r: {"labels": r.integers(0, 3, 3), "segments": segments(r)},
    "models.Chain.feature": lambda r: {"x": f(r, 3, 2), "y": np.array([0, 1, 2])},
    "models.Chain.labels": lambda r: {"Y": [np.array([0, 1]), np.array([2])], "sizes": np.array([2, 1])},
    "models.Chain.occurring": lambda r: {"X": list(map(sp.csr_array, words(r)["X"])), "Y": words(r)["Y"]},
    "models.Chain.split": lambda r: {"w": f(r, pb.models.Chain(3, 2).dim)},
    "models.Chain.rest": lambda r: {"w": f(r, pb.models.Chain(3, 2).dim)},
    "models.Chain.pair_scores": lambda r: {"w": f(r, pb.models.Chain(3, 2).dim)},
    "models.Chain.token_scores": lambda r: {"w": f(r, pb.models.Chain(3, 2).dim), "x": f(r, 3, 2)},
    "models.Chain.tokens": lambda r: {"X": words(r)["X"]},
    "models.Dependency.arc_scores": lambda r: {"w": f(r, 2), "x": sp.csr_array(f(r, 4, 2))},
    "models.Dependency.hashed": lambda r: {"bits": 8, "attributes": ("word", "pos"), "templates": (
        "h.word distance", "h.pos m.pos"), "single_root": True, "blocks": False, "n_relations": 3, "counts": "heads",
        "relation_templates": ("m.word",), "tag": "pos", "allowed": [(-1, 0, 1, 0), (0, 0, 1, 2)]},
    "models.Dependency.relation_scores": lambda r: {"w": f(r, 2), "x": sp.csr_array(f(r, 4, 2))},
    "models.Landmarks.check_positions": lambda r: {"points": r.integers(0, 4, (3, 2, 2))},
    "models.Landmarks.decode_batch": lambda r: {"w": np.abs(f(r, model("Landmarks", r).dim)), "X": f(r, 3, 16, 2)},
    "models.Landmarks.deformation": lambda r: {"positions": r.integers(0, 4, (3, 2, 2))},
    "models.Landmarks.deviation": lambda r: {"truth": r.integers(0, 4, (3, 2, 2)), "positions": r.integers(
        0, 4, (3, 2, 2)), "weights": np.ones(3)},
    "models.Landmarks.from_examples": lambda r: {"shape": (4, 4), "parents": [-1, 0], "Y": r.integers(0, 4, (3, 2, 2)),
                                                 "descriptor": pb.features.MapFeatures(2), "margin": 1},
    "models.Landmarks.tree": lambda r: {"w": np.abs(f(r, model("Landmarks", r).dim))},
    "models.Landmarks.weights_of_loss": lambda r: {"points": r.integers(0, 4, (3, 2, 2))},
    "models.Segmentation.prepare": lambda r: {"w": f(r, model("Segmentation", r).dim)},
    "models.Segmentation.starts": lambda r: {"y": np.array([0, 1])},
    "models.Segmentation.template": lambda r: {"w": f(r, model("Segmentation", r).dim), "label": 1},
    # ------------------------------------------------------------------ decoders
    "oracles.arborescence_marginals": lambda r: {key: make(r) for key, make in FORESTS.items()},
    "oracles.arborescence_marginals_batch": lambda r: {"scores": f(r, 20), "lengths": np.array([3, 1])},
    "oracles.argmax_batch": lambda r: {"scores": f(r, 4, 3)},
    "oracles.assignment_batch": lambda r: {"costs": f(r, 3, 9)},
    "oracles.shortest_path_batch": lambda r: {"costs": f(r, 3, 3), "arcs": np.array([[0, 1], [0, 2], [1, 2]])},
    "oracles.milp_batch": lambda r: {"costs": f(r, 2, 3), "integrality": 1, "bounds": (0, 1)},
    "oracles.distance_transform": lambda r: {"f": f(r, 4, 5), "a": np.ones(2), "b": np.zeros(2)},
    "oracles.distance_transform_batch": lambda r: {"f": f(r, 3, 4, 5), "a": np.ones(2), "b": np.zeros(2)},
    "oracles.forward_backward": lambda r: {"unary": f(r, 4, 3), "transition": f(r, 3, 3), "start": f(r, 3),
                                           "end": f(r, 3)},
    "oracles.forward_backward_batch": lambda r: {"unary": f(r, 6, 3), "offsets": np.array([0, 4, 6]), "transition": f(
        r, 3, 3), "start": f(r, 3), "end": f(r, 3), "weights": np.ones(2), "entropy": True},
    "oracles.graph_labeling": lambda r: labelled_graph(r), "oracles.graph_relaxation": lambda r: labelled_graph(r),
    "oracles.graph_labeling_batch": lambda r: labelled_graphs(r),
    "oracles.graph_relaxation_batch": lambda r: labelled_graphs(r),
    "oracles.graph_upper": lambda r: {**labelled_graph(r), "messages": f(r, 3, 2, 3)},
    "oracles.k_best_viterbi": lambda r: {"unary": f(r, 4, 3), "transition": f(r, 3, 3), "k": 5, "start": f(r, 3)},
    "oracles.max_arborescence": lambda r: {key: make(r) for key, make in FORESTS.items()},
    "oracles.max_arborescence_batch": lambda r: {"scores": f(r, 20), "lengths": np.array([3, 1])},
    "oracles.min_cut": lambda r: {"unary": f(r, 3), "edges": EDGES, "pairwise": r.random(2)},
    "oracles.min_cut_batch": lambda r: {"unary": f(r, 6), "edges": np.concatenate([EDGES, EDGES]), "pairwise": r.random(
        4), "node_offsets": np.array([0, 3, 6]), "edge_offsets": np.array([0, 2, 4])},
    "oracles.segment": lambda r: {"scores": f(r, 2, 5), "widths": np.array([1, 2]), "transition": f(r, 2, 2)},
    "oracles.segment_batch": lambda r: {"scores": f(r, 9, 2), "offsets": np.array([0, 5, 9]), "widths": np.array(
        [1, 2]), "transition": f(r, 2, 2)},
    "oracles.tree_marginals": lambda r: {"unaries": [f(r, 3), f(r, 2)], "parents": [-1, 0], "pairwise": [None, f(
        r, 3, 2)]},
    "oracles.tree_max_sum": lambda r: {"unaries": [f(r, 3), f(r, 2)], "parents": [-1, 0], "pairwise": [None, f(
        r, 3, 2)]},
    "oracles.tree_max_sum_batch": lambda r: {"unaries": [f(r, 4, 3, 3), f(r, 4, 2, 2)], "parents": [
        -1, 0], "deformations": np.ones((2, 4)), "anchors": np.zeros((2, 2))},
    "oracles.viterbi": lambda r: {"unary": f(r, 4, 3), "transition": f(r, 3, 3), "start": f(r, 3), "end": f(r, 3)},
    "oracles.viterbi_batch": lambda r: {"unary": f(r, 6, 3), "offsets": np.array([0, 4, 6]), "transition": f(r, 3, 3),
                                        "start": f(r, 3)},
    # ------------------------------------------------------------------ features, bundle, master problem
    "features.CodeWindows": lambda r: {"windows": np.array([[3, 3]]), "margin": 2},
    "features.CodeWindows.bind": lambda r: {"X": r.integers(0, 256, (2, 1, 8, 8), dtype=np.uint8), "shape": (4, 4),
                                            "boxes": np.array([[0, 0, 4, 4], [1, 1, 2, 2]])},
    "features.CodeWindows.cells": lambda r: {"n_landmarks": 2},
    "features.CodeWindows.check": lambda r: {"shape": (4, 4), "boxes": np.array([[0, 0, 4, 4]])},
    "features.CodeWindows.sizes": lambda r: {"n_landmarks": 2},
    "features.MapFeatures": lambda r: {"n_features": 2},
    "features.MapFeatures.bind": lambda r: {"X": f(r, 3, 16, 2), "shape": (4, 4), "boxes": np.array([[0, 0, 4, 4]])},
    "features.MapFeatures.check": lambda r: {"shape": (4, 4), "boxes": np.array([[0, 0, 4, 4]])},
    "features.MapFeatures.sizes": lambda r: {"n_landmarks": 2},
    "features.lbp_maps": lambda r: {"images": f(r, 2, 5, 6), "n_maps": 2, "margin": 1},
    "features.kernel_name": lambda r: {}, "risks.kernel_name": lambda r: {},
    "bundle.Bundle": lambda r: {"dim": 4, "n_parts": 2, "storage": ("auto", "dense", "sparse")[r.integers(3)]},
    "bundle.Bundle.append": lambda r: {"planes": some_planes(r), "slack": np.ones(2, bool), "parts": np.array([1, 0])},
    "bundle.Bundle.append_flat": lambda r: {"offsets": np.zeros(2)},
    "bundle.Bundle.append_signs": lambda r: {"coordinates": np.array([0, 2])},
    "bundle.Bundle.combine": lambda r: {"beta": r.random(4)},
    "bundle.Bundle.copy": lambda r: {}, "bundle.Bundle.drop_constraints": lambda r: {},
    "bundle.Bundle.dot": lambda r: {"w": f(r, 4), "first": 1},
    "bundle.Bundle.drop": lambda r: {"indices": np.array([0, 2])},
    "bundle.Bundle.expect": lambda r: {"n": 2},
    "bundle.Bundle.load": lambda r: {"path": "bundle.npz"},
    "bundle.Bundle.last_entries": lambda r: {},
    "bundle.Bundle.weighted_gram": lambda r: {"weights": r.random(4)},
    "bundle.Bundle.model": lambda r: {"products": f(r, 4), "slack": np.ones(2, bool)},
    "bundle.Bundle.move_centre": lambda r: {"w": f(r, 4), "products": f(r, 4)},
    "bundle.Bundle.new_constraints": lambda r: {"numbers": np.array([0, 2])},
    "bundle.Bundle.prepare": lambda r: {"n": 2},
    "bundle.Bundle.prune": lambda r: {"max_idle": 1},
    "bundle.Bundle.reserve": lambda r: {"n_planes": 8},
    "bundle.Bundle.save": lambda r: {"path": "written.npz"},
    "bundle.Bundle.settle": lambda r: {"beta": r.random(4)},
    "bundle.Bundle.shrink_to": lambda r: {"n_planes": 2},
    "bundle.estimate_bytes": lambda r: {"dim": 100, "n_planes": 10, "density": 0.05},
    "bundle.planes_within": lambda r: {"limit": 1e6, "dim": 100, "density": 0.05},
    "qp.solve_simplex_qp": lambda r: {**problem(r), "tol": 1e-6, "x0": r.random(4), "max_steps": 1000},
    "qp.SimplexProblem": lambda r: problem(r),
    "qp.SimplexProblem.measure": lambda r: {"x": np.full(4, 0.5)},
    "qp.SimplexQP": lambda r: {},
    "qp.SimplexQP.solve": lambda r: {**problem(r), "x": r.random(4), "tol": 1e-6, "max_steps": 1000,
                                     "method": "auto"},
}


def problem(r):
    A = f(r, 4, 3)
    return {"H": A @ A.T, "f": f(r, 4), "parts": np.array([0, 0, 1, 1], dtype=np.int32), "slack": np.ones(2, bool)}


def some_planes(r):
    slopes = f(r, 2, 4)
    return Planes(f(r, 2), f(r, 2), slopes if r.integers(2) else sp.csr_array(slopes))


def filled(r):
    """A bundle of four planes."""
    made = Bundle(**RECIPES["bundle.Bundle"](r))
    made.append(some_planes(r))
    made.append(some_planes(r))
    return made


# ---------------------------------------------------------------------- regularisers

GROUPS, NESTED = [[0, 1], [2]], [[0, 1, 2], [0, 1]]
PROX = {"L1": {"rate": 1.0}, "L2": {"rate": 1.0}, "SquaredL2": {"rate": 1.0}, "SquaredL1": {"rate": 1.0},
        "ElasticNet": {"l1": 1.0, "l2": 0.5}, "Lq": {"q": 1.5, "rate": 1.0}, "SquaredLq": {"q": 1.5, "rate": 1.0}}
for _name, _given in PROX.items():
    RECIPES[f"prox.{_name}"] = lambda r, given=_given, name=_name: {
        **given, **({} if name in ("L2", "SquaredL2") or r.integers(2) else {"groups": GROUPS})}
    for _method in ("factors", "shrink"):
        RECIPES[f"prox.{_name}.{_method}"] = lambda r: {"norms": r.random(2), "t": 0.5}
for _name, _given in {**PROX, "OverlappingGroupLasso": {"groups": NESTED, "sweeps": 2}, "SparseGroupLasso": {
        "groups": GROUPS}, "TreeGroupLasso": {"groups": NESTED}, "Box": {"lower": -1.0, "upper": [0.5, 1.0, 2.0]},
        "Ball": {"radius": 1.5},
        "Separable": {"l2": 0.5, "l1": [1.0, 2.0, 0.0], "centre": 0.5, "lower": -1.0, "upper": 2.0}}.items():
    RECIPES.setdefault(f"prox.{_name}", lambda r, given=_given: dict(given))
    RECIPES |= {f"prox.{_name}.value": lambda r: {"x": f(r, 3)}, f"prox.{_name}.conjugate": lambda r: {"y": f(r, 3)},
                f"prox.{_name}.dual_norm": lambda r: {"y": f(r, 3)},
                f"prox.{_name}.prox": lambda r: {"x": f(r, 3), "t": 0.5},
                f"prox.{_name}.subgradient_distance": lambda r: {"x": f(r, 3), "g": f(r, 3)}}
for _name in ("OverlappingGroupLasso", "TreeGroupLasso"):
    RECIPES[f"prox.{_name}.prox_with_gap"] = lambda r: {"x": f(r, 3), "t": 0.5}
RECIPES |= {
    "prox.Groups": lambda r: {"groups": GROUPS, "dim": 3}, "prox.Groups.of": lambda r: {"groups": GROUPS, "dim": 3},
    "prox.Groups.single": lambda r: {"dim": 3}, "prox.Groups.spread": lambda r: {"values": f(r, 2)},
    "prox.Groups.norms": lambda r: {"x": f(r, 3)}, "prox.Groups.scale": lambda r: {"x": f(r, 3), "factors": f(r, 2)},
    "prox.Groups.directions": lambda r: {"x": f(r, 3), "norms": r.random(2)},
    "prox.OverlappingGroups": lambda r: {"groups": NESTED, "dim": 3},
    "prox.OverlappingGroups.of": lambda r: {"groups": NESTED, "dim": 3},
    "prox.OverlappingGroups.add": lambda r: {"v": f(r, 5)}, "prox.OverlappingGroups.check_tree": lambda r: {},
    "prox.OverlappingGroups.norms": lambda r: {"x": f(r, 3)},
    "prox.OverlappingGroups.shrink": lambda r: {"x": f(r, 3), "radii": r.random(2), "sweeps": 2},
    "prox.project_l1_ball": lambda r: {"x": f(r, 3), "radius": 1.0, "groups": GROUPS},
    "prox.project_l2_ball": lambda r: {"x": f(r, 3), "radius": 1.0},
    "prox.project_l21_ball": lambda r: {"x": f(r, 3), "radius": 1.0, "groups": GROUPS},
    "prox.project_simplex": lambda r: {"x": f(r, 3), "radius": 1.0},
    "prox.prox_elastic_net": lambda r: {"x": f(r, 3), "l1": 0.5, "l2": 0.5, "groups": GROUPS},
    "prox.prox_l1": lambda r: {"x": f(r, 3), "t": 0.5, "groups": GROUPS},
    "prox.prox_l2": lambda r: {"x": f(r, 3), "t": 0.5},
    "prox.prox_lq": lambda r: {"x": f(r, 3), "t": 0.5, "q": 1.5, "groups": GROUPS},
    "prox.prox_overlapping": lambda r: {"x": f(r, 3), "t": 0.5, "groups": NESTED, "sweeps": 2},
    "prox.prox_sparse_group": lambda r: {"x": f(r, 3), "l1": 0.5, "l2": 0.5, "groups": GROUPS},
    "prox.prox_squared_l1": lambda r: {"x": f(r, 3), "t": 0.5, "groups": GROUPS},
    "prox.prox_squared_l2": lambda r: {"x": f(r, 3), "t": 0.5},
    "prox.prox_squared_lq": lambda r: {"x": f(r, 3), "t": 0.5, "q": 1.5, "groups": GROUPS},
    "prox.prox_tree": lambda r: {"x": f(r, 3), "t": 0.5, "groups": NESTED},
}

# ---------------------------------------------------------------------- risks

def numbers(r):
    return {**flat(r), "y": f(r, 12)}


ONE_SCORE = {"Pinball": numbers, "Absolute": numbers, "EpsilonInsensitive": numbers, "Huber": numbers,
             "SquaredHinge": binary}
LINEAR = {"MulticlassHinge": flat, "BinaryHinge": binary, "Logistic": binary, **ONE_SCORE}
for _name, _data in LINEAR.items():
    def _linear(r, name=_name, data=_data):
        given = data(r)
        constant = {"fit_intercept": True} if name in ONE_SCORE else {"bias": 1.0}
        return {**given, "n_parts": 2, "sample_weight": r.random(12), **constant, "scale": 0.5,
                **({"loss": 1.0 - np.eye(3)} if name == "MulticlassHinge" and r.integers(2) else {})}
    _K = 3 if _name == "MulticlassHinge" else 1
    RECIPES |= {f"risks.{_name}": _linear, f"risks.{_name}.renewed": lambda r: {"whole": True},
                f"risks.{_name}.oracle": lambda r: {},
                f"risks.{_name}.line_search": lambda r, K=_K: {"S0": f(r, 12, K), "S1": f(r, 12, K), "a": 0.1,
                                                               "b": 0.5, "upper": 1.0},
                f"risks.{_name}.planes_at": lambda r, K=_K: {"S": f(r, 12, K)},
                f"risks.{_name}.scores": lambda r, K=_K: {"w": f(r, 4 * K)}}
    if _name in ONE_SCORE:
        del RECIPES[f"risks.{_name}.oracle"]
        RECIPES[f"risks.{_name}.multipliers"] = lambda r: {"scores": f(r, 12)}
    if _name == "Logistic":
        RECIPES[f"risks.{_name}.value_errors"] = lambda r: {"w": f(r, 4), "values": r.random(2)}
    if _name in ("Logistic", "SquaredHinge", "Huber"):
        RECIPES[f"risks.{_name}.second_derivatives"] = lambda r: {"scores": f(r, 12)}
        RECIPES[f"risks.{_name}.multipliers"] = lambda r: {"scores": f(r, 12)}
        RECIPES[f"risks.{_name}.dual_point"] = lambda r: {"beta": f(r, 12)}
for _name, _dim in {"MulticlassHinge": 12, "BinaryHinge": 4, "Logistic": 4, "Structured": None,
                    "ExampleFunctions": None, "Function": 3, **dict.fromkeys(ONE_SCORE, 4)}.items():
    def _w(r, name=_name, dim=_dim):
        return f(r, dim if dim else pb.models.Chain(3, 2).dim if name == "Structured" else 2)
    RECIPES |= {f"risks.{_name}.{method}": lambda r, w=_w: {"w": w(r)} for method in (
        ("evaluate", "planes") if _name == "Function" else ("evaluate", "planes", "values"))}
    RECIPES[f"risks.{_name}.map_shards"] = lambda r: {"function": len, "items": [ROWS, ROWS]}
    RECIPES[f"risks.{_name}.aim"] = lambda r: {"accuracy": 0.1}
    if _name == "Function":
        RECIPES |= {"risks.Function.derive": lambda r: {"n_parts": 1},
                    "risks.Function.renewed": lambda r: {"whole": True}}
    else:
        RECIPES |= {
            f"risks.{_name}.derive": lambda r: {"n_parts": 2},
            f"risks.{_name}.excerpt": lambda r: {"numbers": [0]},
            **({} if _name in ONE_SCORE else {f"risks.{_name}.oracle": lambda r: {}}),
            f"risks.{_name}.renewed": lambda r: {"whole": True},
            f"risks.{_name}.sum_planes": lambda r: {"work": lambda rows, slope: (1.0, 0.0)}}
for _name in ("Structured", "ExampleFunctions"):
    def _some(r, name=_name):
        return f(r, pb.models.Chain(3, 2).dim if name == "Structured" else 2)
    RECIPES |= {f"risks.{_name}.predict_losses": lambda r, w=_some: {"w": w(r)},
                f"risks.{_name}.value_errors": lambda r, w=_some: {"w": w(r), "values": r.random(1)}}
RECIPES |= {
    "risks.Ranking": lambda r: {"X": flat(r)["X"], "y": r.integers(0, 3, 12) * 1.0, "groups": r.integers(0, 3, 12),
                                "event": r.random(12) < 0.9, "group_weight": None},
    "risks.Ranking.map_shards": lambda r: {"function": len, "items": [ROWS, ROWS]},
    "risks.Ranking.aim": lambda r: {"accuracy": 0.1}, "risks.Ranking.excerpt": lambda r: {"numbers": [0]},
    "risks.Ranking.derive": lambda r: {"n_parts": 2}, "risks.Ranking.renewed": lambda r: {"whole": True},
    **{f"risks.Ranking.{method}": lambda r: {"w": f(r, 3)} for method in (
        "evaluate", "planes", "values", "curvatures")}}
for _name, _more in (("FScore", {"beta": 0.5, "bias": 1.0}), ("PrecisionAtK", {"k": 4}), ("ROCArea", {})):
    RECIPES |= {f"risks.{_name}": lambda r, more=_more: {"X": flat(r)["X"], "y": np.arange(12) % 2, **more}}
    for _method in ("map_shards", "aim", "excerpt", "derive", "renewed", "evaluate", "planes", "values"):
        RECIPES[f"risks.{_name}.{_method}"] = RECIPES[f"risks.Ranking.{_method}"]
RECIPES["risks.ROCArea.curvatures"] = RECIPES["risks.Ranking.curvatures"]
RECIPES["risks.FScore.evaluate"] = RECIPES["risks.FScore.planes"] = RECIPES["risks.FScore.values"] = lambda r: {
    "w": f(r, 4)}
RECIPES |= {
    "risks.OneClass": lambda r: {"X": flat(r)["X"], "nu": 0.3, "sample_weight": r.random(12)},
    "risks.OneClass.value_errors": lambda r: {"w": f(r, 3), "values": f(r, 1)},
    "risks.OneClass.map_shards": lambda r: {"function": len, "items": [ROWS, ROWS]},
    "risks.OneClass.aim": lambda r: {"accuracy": 0.1},
    "risks.OneClass.derive": lambda r: {"n_parts": 1}, "risks.OneClass.renewed": lambda r: {"whole": True},
    **{f"risks.OneClass.{method}": lambda r: {"w": f(r, 3)} for method in ("evaluate", "planes", "values",
                                                                             "threshold")}}


def absolute(w):
    return float(np.abs(w).sum()), np.sign(w)


@functools.cache
def compiled():
    """Two examples in ctypes: labellings 0 and 1, plane loss 1 + w_i where it is 1."""
    import ctypes

    from scipy import LowLevelCallable
    numbers, integers, long = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int32), ctypes.c_int64

    @ctypes.CFUNCTYPE(ctypes.c_int, numbers, long, long, integers, numbers, numbers, ctypes.c_void_p)
    def solve(w, dim, example, labelling, value, upper, data):
        value[0] = max(0.0, 1.0 + w[example])
        labelling[0] = value[0] > 0.0
        return 0

    @ctypes.CFUNCTYPE(ctypes.c_int, long, integers, numbers, ctypes.POINTER(long), integers, numbers, ctypes.c_void_p)
    def plane(example, labelling, loss, n_entries, indices, values, data):
        loss[0], n_entries[0], indices[0], values[0] = labelling[0] != 0, labelling[0] != 0, example, 1.0
        return 0

    return LowLevelCallable(solve), LowLevelCallable(plane)


RECIPES |= {
    "risks.Structured": lambda r: {"model": model("Chain", r), **words(r), "n_parts": 1, "loss": "hinge",
                                   "sample_weight": np.ones(2)},
    "risks.ExampleFunctions": lambda r: {"solve": compiled()[0], "plane": compiled()[1], "n_examples": 2, "dim": 2,
                                         "label_size": 1, "max_entries": 2, "n_parts": 1},
    "risks.Function": lambda r: {"fun": absolute, "dim": 3, "n_parts": 1, "lower_bounds": 0.0},
    # ------------------------------------------------------------------ solvers, proofs
    "solvers.minimize": lambda r: {"risk": some_risk(r), "lam": 0.5, "method": (
        "auto", "oca", "bmrm", "prox-bmrm", "prox-bcfw", "mp-bcfw", "alm", "sgd", "frank-wolfe", "lbfgs")[
            r.integers(10)], "tol": 0.1, "max_iter": 5, "time_limit": 1.0},
    "methods.BMRM": lambda r: {"theta": 0.1, "max_idle": 3, "stop": "published"},
    "methods.ProxBMRM": lambda r: {"K": 0.5, "T": 10, "theta": 0.1}, "methods.OCA": lambda r: {
        "mu": 0.2, "line_search": False}, "methods.SGD": lambda r: {"t0": 3.0},
    "methods.BCFW": lambda r: {"step": "pairwise", "gap_sampling": True, "average": True, "batch": 2, "gap_check": 3},
    "methods.MPBCFW": lambda r: {"gap_check": 3}, "methods.ProxBCFW": lambda r: {"kappa": 0.3, "batch": 2, "n_best": 2},
    "methods.ALM": lambda r: {"sigma": 0.1, "growth": 2.0}, "methods.LBFGS": lambda r: {"memory": 5},
    "methods.Auto": lambda r: {"oca": pb.methods.OCA()},
    **{f"methods.{name}": lambda r: {} for name in ("FrankWolfe", "InteriorPoint", "Newton")},
    "methods.parse": lambda r: {"text": "bmrm theta=0.1"},
    "solvers.Solve": lambda r: {"risk": some_risk(r), "lam": 0.5, "tol": 0.1, "max_iter": 5},
    **{f"solvers.Solve.{name}": lambda r: {} for name in (
        "begin", "step", "finish", "complete", "describe", "resume", "close")},
    "solvers.Solve.save": lambda r: {"path": "solve.npz"},
    "solvers.Checkpoint": lambda r: {"path": "run.npz", "every": 3.0},
    "solvers.path": lambda r: {"risk": some_risk(r), "lams": [1.0, 0.5], "tol": 0.1, "max_iter": 5, "time_limit": 1.0},
    "proof.verify": lambda r: dict(zip(("certificate", "risk"), proven(), strict=True)),
    "proof.load_certificate": lambda r: {"path": "proof.npz"},
    "proof.Certificate": lambda r: {name: getattr(proven()[0], name) for name in inspect.signature(
        pb.Certificate).parameters},
    "proof.Certificate.check": lambda r: {}, "proof.Certificate.problem": lambda r: {},
    "proof.Certificate.save": lambda r: {"path": "written.npz"},
    "proof.Labellings": lambda r: vars(proven()[0].evidence),
    "proof.Labellings.arrays": lambda r: {}, "proof.Labellings.check": lambda r: {"dim": 12, "n_examples": 12},
    "proof.Labellings.from_arrays": lambda r: {"arrays": proven()[0].evidence.arrays()},
    "proof.Labellings.of": lambda r: {"examples": np.array([0, 1]), "labellings": np.array([1, 2]), "masses": np.array(
        [0.5, 0.5]), "weights": np.ones(12)},
    "proof.Multipliers": lambda r: {"beta": f(r, 5)},
    "proof.Multipliers.arrays": lambda r: {}, "proof.Multipliers.check": lambda r: {"dim": 3, "n_examples": 5},
    "proof.Multipliers.from_arrays": lambda r: {"arrays": {"beta": f(r, 5)}},
    "proof.Points": lambda r: {"points": f(r, 2, 3), "weights": np.full((2, 1), 0.5)},
    "proof.Points.arrays": lambda r: {}, "proof.Points.check": lambda r: {"dim": 3, "n_examples": 5},
    "proof.Points.from_arrays": lambda r: {"arrays": {"points": f(r, 2, 3), "weights": np.full((2, 1), 0.5)}},
    # ------------------------------------------------------------------ kernels
    "mkl.B1Spline": lambda r: {"width": 1.0, "sparsity": 0.5}, "mkl.Gaussian": lambda r: {"sigma": 1.0},
    "mkl.Linear": lambda r: {"normalise": True, "low_rank": 2},
    "mkl.Polynomial": lambda r: {"degree": 2, "offset": 1.0},
    "mkl.Mean": lambda r: {"kernels": [pb.mkl.Gaussian(1.0), pb.mkl.Linear()]},
    "mkl.Callable": lambda r: {"function": lambda X, Z: X @ Z.T},
    "mkl.Precomputed": lambda r: {"matrix": np.eye(8), "column": 0},
    "mkl.Features": lambda r: {"columns": [0, 1], "normalise": False},
    "mkl.OnlineMKL": lambda r: {"groups": [pb.mkl.Gaussian(1.0), pb.mkl.Features()], "lam": 0.01, "n_epochs": 1,
                                "solver": ("auto", "online", "certified")[r.integers(3)], "max_iter": 3, "eta0": 0.1,
                                "loss": ("hinge", "logistic")[r.integers(2)]},
    "mkl.OnlineMKL.functions": lambda r: {}, "mkl.OnlineMKL.link_weights": lambda r: {},
    "mkl.OnlineMKL.predict": lambda r: {"X": f(r, 4, 3)},
    "mkl.OnlineMKL.decision_function": lambda r: {"X": f(r, 4, 3)},
    "mkl.OnlineProximal": lambda r: {"model": model("Chain", r), "regularisers": [pb.prox.L1(0.1)], "n_epochs": 1,
                                     "eta0": 0.1, "batch": 1},
    "mkl.OnlineProximal.predict": lambda r: {"X": words(r)["X"]},
    "mkl.OnlineProximal.regret": lambda r: {"theta": np.zeros(pb.models.Chain(3, 2).dim), "mean_loss": 0.5},
}
for _name in ("fit", "partial_fit", "score"):
    RECIPES[f"mkl.OnlineMKL.{_name}"] = lambda r: {"X": f(r, 6, 3), "Y": np.array([0, 1, 2, 0, 1, 2])}
    RECIPES[f"mkl.OnlineProximal.{_name}"] = words
for _name in ("B1Spline", "Gaussian", "Linear", "Polynomial", "Mean", "Callable", "Precomputed"):
    for _method in ("fit", "gram", "take", "is_definite"):
        RECIPES[f"mkl.{_name}.{_method}"] = lambda r, name=_name: {
            "X": np.arange(8.0)[:, None] if name == "Precomputed" else f(r, 8, 3)}


def some_risk(r):
    name = ("flat", "Chain", "Dependency", "Landmarks", "Function")[r.integers(5)]
    if name == "flat":
        return pb.risks.MulticlassHinge(**flat(r))
    return pb.risks.Function(absolute, 3, lower_bounds=0.0) if name == "Function" else structured(name, r)


@functools.cache
def proven():
    r = np.random.default_rng(0)
    risk = pb.risks.MulticlassHinge(f(r, 12, 4), np.arange(12) % 3)
    certificate = pb.minimize(risk, lam=1.0, evidence=True).certificate
    certificate.save("proof.npz")
    filled(r).save("bundle.npz")
    return certificate, risk


# ---------------------------------------------------------------------- estimators, data sets

SMALL = {"tol": 0.1, "max_iter": 5, "time_limit": 1.0}
TAGS = ["N", "V", "D"]


def tagged(r):
    return {"X": [f(r, 3, 2), f(r, 2, 2)], "y": [["N", "V", "D"], ["D", "N"]]}


def parsed(r):
    return {"X": [[("a", "N"), ("b", "V")], [("c", "N")]], "y": [np.array([-1, 0, 1]), np.array([-1, 0])]}


def as_y(data):
    return lambda r: {"X": data(r)["X"], "y": data(r)["Y"]}


def faces(r):
    return {"X": r.random((3, 12, 12)), "y": r.integers(5, 8, (3, 2, 2))}


def graded(r):
    return {"X": f(r, 12, 3), "y": r.integers(0, 3, 12) * 1.0, "qid": np.arange(12) % 2}


def cheap(costs):
    return (costs < 0.0) * 1.0


def ranked(r):
    return {"y": r.integers(0, 3, 12) * 1.0, "scores": f(r, 12), "groups": np.arange(12) % 2}


ESTIMATORS = {
    "MetricSVM": ({"metric": "precision_at_k", "k": 4}, lambda r: {"X": f(r, 12, 3), "y": np.arange(12) % 2}),
    "DecisionFocusedRegressor": ({"solver": cheap, "centre": None}, lambda r: {"X": f(r, 6, 3), "y": f(r, 6, 2)}),
    "RankingSVM": ({"form": "squared", "metric": "ndcg@3"}, graded),
    "LinearSVR": ({}, numbers), "QuantileRegressor": ({"alpha": 0.1}, numbers),
    "MulticlassLogistic": ({}, flat), "MulticlassSVM": ({}, flat), "ChainSVM": ({}, tagged), "ChainCRF": ({}, tagged),
    "DependencyParser": ({"hash_bits": 8, "loss": "logistic"}, parsed), "BinaryLabelingSVM": ({}, as_y(graphs)),
    "GraphSVM": ({"symmetric": [0], "antisymmetric": [], "classes": [0, 1]}, as_y(graphs)),
    "MultiLabelSVM": ({"edges": [[0, 1]]}, lambda r: {"X": f(r, 6, 3), "y": r.integers(0, 2, (6, 2))}),
    "LandmarkDetector": ({"parents": [-1, 0], "windows": [[3, 3]], "shape": (12, 12)}, faces),
    "SegmentationSVM": ({"widths": {0: [1], 1: [2]}}, lambda r: {
        "X": strips(r)["X"], "y": [[(0, 0), (1, 1)], [(1, 0)]]}),
}
for _name, (_given, _data) in ESTIMATORS.items():
    RECIPES[f"estimators.{_name}"] = lambda r, given=_given: {
        **({} if "alpha" in given else {"C": 1.0}), **SMALL, **given}
    RECIPES[f"estimators.{_name}.fit"] = _data
    RECIPES[f"estimators.{_name}.score"] = _data
    for _method in ("predict", "decide", "decision_function", "k_best", "margins", "predict_marginals", "predict_proba",
                    "predict_log_proba"):
        RECIPES[f"estimators.{_name}.{_method}"] = lambda r, data=_data: {"X": data(r)["X"]}
for _name in ("LinearSVR", "MetricSVM", "QuantileRegressor", "MulticlassLogistic", "MulticlassSVM"):
    RECIPES[f"estimators.{_name}.sparsify"] = RECIPES[f"estimators.{_name}.densify"] = lambda r: {}
for _name in ("MetricSVM", "MulticlassLogistic", "MulticlassSVM"):
    RECIPES[f"estimators.{_name}.top_features"] = lambda r: {"label": 1, "k": 2}
for _name in ("ChainSVM", "ChainCRF"):
    RECIPES[f"estimators.{_name}.top_features"] = lambda r: {"label": "N", "k": 2}
    RECIPES[f"estimators.{_name}.transitions"] = lambda r: {}
    RECIPES[f"estimators.{_name}.sparsify"] = lambda r: {}
    RECIPES[f"estimators.{_name}.predict_single"] = lambda r: {"tokens": tagged(r)["X"][0]}
RECIPES |= {
    "estimators.ChainCRF.log_likelihood": tagged,
    "estimators.DependencyParser.predict_single": lambda r: {"sentence": parsed(r)["X"][0]},
    "estimators.SegmentationSVM.template": lambda r: {"label": 0, "width": 1},
    "estimators.GraphSVM.decode": lambda r: {"X": graphs(r)["X"]},
    "estimators.MultiLabelSVM.decode": lambda r: {"X": f(r, 6, 3)},
    "estimators.load": lambda r: {"path": "model.npz"},
    "models.Optimizer": lambda r: {"solver": cheap, "n_costs": 2, "n_features": 3, "loss": "inverse",
                                   "distance": np.negative},
    "models.Optimizer.oracle": lambda r: {"X": f(r, 4, 3), "Y": r.integers(0, 2, (4, 2)) * 1.0},
    "models.Optimizer.solve": lambda r: {"costs": f(r, 4, 2)},
    "estimators.OnlineMKLClassifier": lambda r: {"kernels": [pb.mkl.Gaussian(1.0)], "n_epochs": 1, "max_iter": 3,
                                                 "eta0": 0.1, "loss": "logistic"},
    "estimators.OnlineMKLClassifier.partial_fit": lambda r: {"X": f(r, 6, 3), "y": np.arange(6) % 3, "classes": [
        0, 1, 2]},
    **{f"metrics.{name}": lambda r: {**ranked(r), "k": 3} for name in ("ndcg", "average_precision", "precision",
                                                                       "reciprocal_rank")},
    "metrics.concordance": lambda r: {**ranked(r), "event": r.random(12) < 0.9},
    "metrics.attachment_scores": lambda r: {"y_true": [[(2, "a"), (0, "b")]], "y_pred": [[(2, "a:c"), (0, "b")]],
                                            "counted": [[True, False]]},
    "metrics.rewritten": lambda r: {"labels": ["B-X", "I-X", "O"], "scheme": "BILOU"},
    "metrics.chunks": lambda r: {"labels": ["B-X", "I-X", "O"], "strict": "BIO"},
    "metrics.chunk_scores": lambda r: {"y_true": [["B-X", "O"]], "y_pred": [["B-X", "B-Y"]], "strict": "BIO"},
    "datasets.contrast_images": lambda r: {"n": 2, "shape": (4, 4), "n_sweeps": 2},
    "datasets.digit_strings": lambda r: {"n": 2, "lengths": (2, 3), "noise": 0.1},
    "datasets.load_digits": lambda r: {},
    "datasets.read_arrays": lambda r: {"source": "arrays.npz"},
    "datasets.read_conll": lambda r: {"path": io.BytesIO(b"a N\nb V\n"), "n_columns": 2},
    "datasets.read_conllu": lambda r: {"source": io.BytesIO(b"1\ta\ta\tN\t_\t_\t0\troot\t_\t_\n\n")},
    "datasets.read_csv": lambda r: {"source": io.BytesIO(b"1,2,a\n3,4,b\n"), "label": "last"},
    "datasets.read_letters": lambda r: {"path": io.BytesIO(b"1 a -1 1 1 0 " + b"0 1 " * 64 + b"\n")},
    "datasets.read_svmlight": lambda r: {"path": io.BytesIO(b"1 1:0.5\n-1 2:1\n"), "n_features": 3},
    "datasets.read_attributes": lambda r: {"path": io.BytesIO(b"N\tw=a\tlength:3\nV\tw=b\n"), "unlabelled": False},
    "templates.Templates": lambda r: {"lines": ["U:%x[-1,0]/%x[0,1]", "%suffix3[0,0]"]},
    "templates.affixes": lambda r: {"longest": 2}, "templates.digits": lambda r: {},
    "templates.columns": lambda r: {"n_columns": 2, "size": 1}, "templates.words": lambda r: {"n_columns": 2},
    **{f"templates.{name}": lambda r: {"size": 1} for name in ("lower", "shapes", "window")},
    "templates.read_crfpp": lambda r: {"path": io.BytesIO(b"U00:%x[0,0]\nB\n")},
}
for _method in ("fit", "score"):
    RECIPES[f"estimators.OnlineMKLClassifier.{_method}"] = lambda r: {"X": f(r, 6, 3), "y": np.arange(6) % 3}
for _method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
    RECIPES[f"estimators.OnlineMKLClassifier.{_method}"] = lambda r: {"X": f(r, 4, 3)}

# ---------------------------------------------------------------------- what public calls return

ROWS = np.array([1, 0], dtype=np.intp)
OBJECTS = {
    "oracle of classes": lambda r: pb.risks.MulticlassHinge(**flat(r)).oracle(),
    **{f"oracle of {name}": functools.partial(lambda r, name: oracle(name, r), name=name) for name in MODELS},
    "weighted oracle": lambda r: structured("Chain", r).oracle(),
    "multipliers": lambda r: LabelMultipliers(pb.risks.MulticlassHinge(f(r, 12, 3), np.arange(12) % 3)),
    "dual of labels": lambda r: LabelDual(pb.risks.MulticlassHinge(f(r, 12, 3), np.arange(12) % 3).engine, "float32"),
    "blocks": lambda r: solved("prox-bcfw").state.blocks.copy(),
    "a bundle": lambda r: solved("oca").state.bundle.copy(),
    "windows": lambda r: pb.features.CodeWindows(np.array([[3, 3]]), 2).bind(**RECIPES["features.CodeWindows.bind"](r)),
    "maps": lambda r: pb.features.MapFeatures(2).bind(f(r, 3, 16, 2), (4, 4), np.array([[0, 0, 4, 4], [1, 1, 2, 2]])),
    "examples": lambda r: pb.risks.MulticlassHinge(**flat(r)).examples,
    "rows": lambda r: pb.risks.MulticlassHinge(f(r, 12, 3), np.arange(12) % 3).examples.rows(3),
    "ragged": lambda r: Ragged.of([f(r, 3, 2), f(r, 2, 2)]),
}


@functools.cache
def solved(method):
    return pb.minimize(structured("Chain", np.random.default_rng(0)), lam=0.5, method=method, tol=1e-2)


def oracle(name, r):
    return model(name, r).oracle(**DATA[name](r))


def _labelled(name, r):
    made = oracle(name, r)
    weights = made.prepare(np.abs(f(r, made.dim)))
    return {"rows": ROWS, "labellings": made.solve_batch(ROWS, weights).labellings}


def _dim(name, r):
    return np.abs(f(r, model(name, r).dim))


for _name in MODELS:
    _object = f"oracle of {_name}"
    RECIPES |= {
        f"{_object}.solve": lambda r, name=_name: {"i": 1, "w": _dim(name, r)},
        f"{_object}.prepare": lambda r, name=_name: {"w": _dim(name, r)},
        f"{_object}.planes": lambda r, name=_name: _labelled(name, r),
        f"{_object}.losses": lambda r, name=_name: _labelled(name, r),
        f"{_object}.plane": lambda r, name=_name: {"i": 1, "labelling": _labelled(name, r)["labellings"][0]},
        f"{_object}.solve_batch": lambda r, name=_name: {"rows": ROWS, "weights": oracle(name, r).prepare(
            _dim(name, r))},
        f"{_object}.add_planes": lambda r, name=_name: {**_labelled(name, r), "scales": np.ones(2), "slope": np.zeros(
            model(name, r).dim)},
        f"{_object}.compiled": lambda r: {"batch": 4}}
for _name in ("Chain", "Dependency", "Landmarks"):
    RECIPES[f"oracle of {_name}.marginals_batch"] = lambda r, name=_name: {
        "rows": ROWS, "weights": oracle(name, r).prepare(_dim(name, r)), "scales": np.ones(2),
        "slope": np.zeros(model(name, r).dim)}
RECIPES |= {
    "weighted oracle.solve": lambda r: {"i": 1, "w": _dim("Chain", r)},
    "weighted oracle.solve_batch": lambda r: {"rows": ROWS, "weights": oracle("Chain", r).prepare(_dim("Chain", r))},
    "weighted oracle.planes": lambda r: _labelled("Chain", r),
    "oracle of classes.solve": lambda r: {"i": 1, "w": f(r, 9)}, "oracle of classes.prepare": lambda r: {"w": f(r, 9)},
    "oracle of classes.plane": lambda r: {"i": 1, "labelling": 2},
    "oracle of classes.planes": lambda r: {"rows": ROWS, "labellings": np.array([2, 0])},
    "oracle of classes.compiled": lambda r: {"batch": 4},
    "multipliers.check": lambda r: {"alpha": r.random((12, 3))},
    "multipliers.step": lambda r: {"alpha": r.random((12, 3)), "scores": f(r, 12, 3), "sigma": 0.5},
    "multipliers.aggregate": lambda r: {"alpha": r.random((12, 3)), "support": np.ones(12, dtype=np.int32)},
    "dual of labels.set_point": lambda r: {"w": f(r, 9), "s": 1.0},
    "dual of labels.mark": lambda r: {"S": f(r, 12, 3), "first": 0},
    "dual of labels.value": lambda r: {"S": f(r, 12, 3)},
    "dual of labels.aggregate": lambda r: {"first": 1, "last": 5},
    "dual of labels.restore": lambda r: {"multipliers": r.random((12, 3))},
    "a bundle.dot": lambda r: {"w": f(r, solved("oca").x.size), "first": 1},
    "blocks.sweep": lambda r: {"rows": ROWS},
    "blocks.steps": lambda r: {"rows": ROWS, "places": np.zeros(2, dtype=np.int32)},
    "blocks.add": lambda r: {"rows": ROWS, "offsets": f(r, 2), "slopes": sp.csr_array(f(r, 2, solved("oca").x.size))},
    "blocks.set_point": lambda r: {"x": f(r, solved("oca").x.size), "curvature": 1.0},
    "blocks.weigh": lambda r: {"metric": r.random(solved("oca").x.size) + 0.1},
    "blocks.assign": lambda r: {"alpha": solved("prox-bcfw").state.blocks.arrays()[2]},
    "blocks.average": lambda r: {"k": 0}, "blocks.forget": lambda r: {"max_idle": 2},
    "blocks.shrink": lambda r: {"limit": 100.0}, "blocks.copy": lambda r: {"nonneg": None, "cap": 5, "max_steps": 3},
    "blocks.aggregate": lambda r: {"slope_error": 1e-9, "offset_error": 1e-9},
    "blocks.of_parts": lambda r: {"part": np.array([0, 1]), "slope_errors": f(r, 2), "offset_errors": f(r, 2)},
    "examples.rows": lambda r: {"n_scores": 3},
    "rows.pack": lambda r: {"w": f(r, 9), "precision": "float32"}, "rows.at_level": lambda r: {"level": 1},
    "rows.add": lambda r: {"rows": ROWS, "labels": np.array([0, 2]), "coefs": f(r, 2), "slope": np.zeros(9)},
    "rows.scores": lambda r: {"w": OBJECTS["rows"](r).pack(f(r, 9)), "rows": ROWS, "out": np.zeros((2, 3))},
    "ragged.take": lambda r: {"items": ROWS},
}
for _object, _boxes in {"windows": np.array([[0, 0], [1, 1]]), "maps": np.array([[0, 0], [1, 1]])}.items():
    _size = {"windows": 2 * 9 * 256, "maps": 4}[_object]
    _places = np.stack([_boxes, _boxes]).astype(np.int32)
    RECIPES |= {
        f"{_object}.prepare": lambda r, size=_size: {"W": f(r, size)},
        f"{_object}.maps": lambda r, size=_size, name=_object: {
            "rows": ROWS, "weights": OBJECTS[name](r).prepare(f(r, size)), "out": np.zeros((2, 20))},
        f"{_object}.add": lambda r, size=_size, places=_places: {
            "rows": ROWS, "positions": places, "scales": np.ones((2, 2)), "slope": np.zeros(size)},
        f"{_object}.planes": lambda r, places=_places: {"rows": ROWS, "positions": places + 1, "truth": places,
                                                        "rest": np.ones((2, 1))},
        f"{_object}.add_expected": lambda r, size=_size: {"rows": ROWS, "coefs": r.random((2, 20)), "slope": np.zeros(
            size)}}


# ---------------------------------------------------------------------- which there are

def surface():
    """Names of all public callables: functions, classes, and their own methods."""
    names = []
    for folder in FOLDERS:
        module = importlib.import_module(f"pybundle.{folder}")
        for name in module.__all__:
            value = getattr(module, name)
            if not callable(value):
                continue
            if inspect.isclass(value) and issubclass(value, tuple):     # a record holds what it is given
                names += [f"{folder}.{name}.{method}" for method in dir(value) if method.startswith("from_")]
                continue
            names.append(f"{folder}.{name}")
            if inspect.isclass(value):
                names += [f"{folder}.{name}.{method}" for method in dir(value) if not method.startswith(("_", "set_"))
                          and callable(getattr(value, method)) and method not in OF_SKLEARN]
    return [name for name in names if not any(name == out or name.startswith(f"{out}.") for out in LEFT_OUT)]


def target(name, r):
    """The callable of a name."""
    owner, _, method = name.rpartition(".")
    if owner in OBJECTS:
        return getattr(OBJECTS[owner](r), method)
    folder = next(folder for folder in FOLDERS if name.startswith(f"{folder}."))
    if owner == folder:
        return getattr(importlib.import_module(f"pybundle.{folder}"), method)
    if owner == "bundle.Bundle":
        return getattr(filled(r), method)
    if owner == "proof.Certificate":
        return getattr(proven()[0], method)
    if name == "mkl.OnlineMKL.link_weights":
        chains = pb.mkl.OnlineMKL([pb.mkl.Gaussian(1.0)], model=pb.models.Chain(2, 3), n_epochs=1, eta0=0.1)
        return chains.fit([f(r, 4, 3), f(r, 2, 3)], [np.arange(4) % 2, np.arange(2)]).link_weights
    cls = getattr(importlib.import_module(f"pybundle.{folder}"), owner[len(folder) + 1:])
    if isinstance(inspect.getattr_static(cls, method), (classmethod, staticmethod)):
        return getattr(cls, method)
    made = cls(**RECIPES[owner](r))
    if owner == "solvers.Solve":
        made.step()
    fit = f"{owner}.fit"
    if fit in RECIPES and method not in ("fit", "partial_fit"):
        made.fit(**RECIPES[fit](r))
    return getattr(made, method)
