"""Look at a saved model: what it is, its certificate, its heaviest weights by name, its transitions (`info MODEL`)."""

import textwrap

import scipy.sparse as sp

from .columns import columns_of
from .models import estimators, rank_pairs, relations_of
from .output import certificate, certificate_rows, print_json, print_rows, print_table

MOST = 12
"""Largest number of labels whose transitions are printed as a table; with more, the heaviest transitions are listed."""
WIDTH, INDENT = 118, 21


def look(arguments):
    """Print a saved model, or all of its facts as JSON."""
    model = estimators().load(arguments.model)
    columns = columns_of(model)
    if columns is not None and columns.names:
        model._column_names = columns.features
    record = _facts(model, columns, arguments.top)
    if arguments.json:
        print_json(record)
        return 0
    trained_on = f", trained on {record['trained on']}" if record["trained on"] else ""
    print(" ".join(model.__repr__(N_CHAR_MAX=200).split()) + trained_on)
    labels, weights = record["labels"], record["weights"]
    print_rows([("C", f"{model.C_:g}, by cross-validation" if hasattr(model, "C_") else None),
                ("labels", labels and _wrapped([f"{len(labels)}: {labels[0]}", *labels[1:]])),
                ("relations", record["relations"]), ("pairs", record["pairs"]), ("features", record["features"]),
                ("weights", weights and f"{weights}, {record['not 0']} of them not 0"),
                *certificate_rows(record),
                *(("kernel weight", f"{weight:.4f} {name}") for name, weight in record.get("kernels", ()))])
    if "top features" in record:
        print("\nheaviest weights")
        print_rows([(str(label), _wrapped(map(_weighed, pairs)) or "none above 0")
                    for label, pairs in record["top features"].items()])
    if "transitions" in record:
        _print_transitions(record, arguments.top)
    return 0


def _facts(model, columns, top):
    coef = getattr(model, "coef_", None)
    numbers = coef.data if sp.issparse(coef) else coef
    record = {"class": type(model).__name__, "parameters": {
                  name: value if isinstance(value, (int, float, str, type(None))) else str(value)
                  for name, value in model.get_params(deep=False).items() if name != "callback"},
              "trained on": None if columns is None else columns.trained_on,
              "labels": model.classes_.tolist() if hasattr(model, "classes_") else None,
              "relations": relations_of(model), "pairs": rank_pairs(model),
              "features": getattr(model, "n_features_in_", None),
              "weights": None if coef is None else int(numbers.size),
              "not 0": None if coef is None else int((numbers != 0.0).sum()), **certificate(model)}
    if hasattr(model, "top_features"):
        record["top features"] = model.top_features(k=top)
    if hasattr(model, "transitions"):
        record["transitions"] = model.transitions()
        ends = zip(("start", "end"), model.model_.pair_scores(model.coef_)[1:], strict=True)
        record |= {name: dict(zip(record["labels"], weights.tolist(), strict=True))
                   for name, weights in ends if getattr(model, name) or weights.any()}
    if hasattr(model, "kernel_weights_"):
        names = [type(kernel).__name__ for kernel in model.kernels_]
        record["kernels"] = list(zip(names, model.kernel_weights_.tolist(), strict=True))
    return record


def _print_transitions(record, top):
    """Print transitions as a table with a row for each first label; with many labels, print the extreme weights."""
    table, labels = record["transitions"], record["labels"]
    if len(labels) <= MOST:
        rows = {"start": record["start"]} if "start" in record else {}
        ends = record.get("end", {})
        print("\ntransitions (row: label before)")
        print_table(["", *map(str, labels), *(["end"] if ends else [])],
                    [(name, *(f"{row[label]:.3f}" for label in labels),
                      *([f"{ends[name]:.3f}" if name in ends else ""] if ends else []))
                     for name, row in (rows | table).items()])
        return
    pairs = sorted(((f"{before} -> {after}", weight) for before, row in table.items() for after, weight in row.items()),
                   key=lambda pair: -pair[1])
    print("\ntransitions")
    print_rows([("largest", _wrapped(map(_weighed, pairs[:2 * top]))),
                ("most negative", _wrapped(map(_weighed, pairs[:-2 * top - 1:-1])))])


def _weighed(pair):
    return f"{pair[0]} {pair[1]:.3g}"


def _wrapped(items):
    """Return items joined by commas, on lines that are indented below the first one."""
    lines = textwrap.wrap(", ".join(map(str, items)), WIDTH - INDENT, break_long_words=False, break_on_hyphens=False)
    return ("\n" + " " * INDENT).join(lines)
