"""Compare labels with the true labels (`pybundle evaluate`)."""

import copy
import math
import re

import numpy as np

from ..core.exceptions import ParameterError
from ..core.warn import warn_user
from ..datasets.conllu import trees_of
from ..datasets.lines import numbered_lines
from ..datasets.tables import SEPARATORS, plain_label
from ..metrics import attachment_scores, chunk_scores
from ..models.dependency.oracle import why_no_tree
from .classes import check_groups, check_known, warn_of_measurements
from .data import place, read
from .models import grades_of, has_no_punctuation, holds_relations, pairs_of
from .output import print_json, print_rows
from .predict import load_with_data, predictions
from .scores import accuracy, holds_chunks, ranking_scores


def evaluate(arguments):
    """Print accuracy, scores of chunks by type if labels are chunks, UAS and LAS of parses, scores of rankings."""
    if arguments.load is not None:
        model, data = load_with_data(arguments, labelled=True, keeps_text=True)
        is_ranking = hasattr(model, "n_pairs_")
        if is_ranking:
            check_groups(data, model)
        else:
            if arguments.groups is not None:
                raise ParameterError(f"--groups belongs to models of rankings, got a {type(model).__name__}")
            check_known(data, model)
        found = predictions(model, data)
    else:
        if arguments.data == "-" and arguments.predictions == "-":
            raise ParameterError("only one of DATA and --predictions can be standard input")
        data = read(arguments)
        is_ranking = data.groups is not None
        if data.shape == "row" and not is_ranking:
            warn_of_measurements(data.y)
        found = _predictions(arguments, data)
    record = ranking_scores(grades_of(data), found, data.groups) if is_ranking else _scores(arguments, data, found)
    chunks = _chunk_scores(arguments, data, found)
    if chunks is not None:
        record |= {f"chunk {name}": getattr(chunks.total, name) for name in ("precision", "recall", "f1")}
    if record.get("accuracy") == 0.0 and data.columns.format == "csv":
        warn_user(f"{data.name}: no label is right; do its labels stand in the last column, or that of --label?",
                  UserWarning)
    if arguments.json:
        print_json({"data": data.name, **record, **({"left out": len(data.skipped)} if data.skipped else {}),
                    **({} if chunks is None else {"types": {kind: s._asdict() for kind, s in chunks.types.items()}})})
    else:
        print(f"{data.name}: {data.describe()}")
        print_rows([(name, f"{100.0 * value:.2f} %") for name, value in record.items()])
        if chunks is not None:
            print(f"\n{chunks}")
    return 0


def _chunk_scores(arguments, data, found):
    """Return the scores of chunks, or None if the labels are no chunks."""
    # predictions may hold chunks where the truth holds none
    if data.shape != "sequence" or not any(map(holds_chunks, (data.y, [*data.y, *found]))):
        if arguments.strict is not None:
            raise ParameterError(f"--strict is for labels of chunks like B-NP, I-NP and O, got {data.name} without")
        return None
    try:
        return chunk_scores(data.y, found, strict=arguments.strict)
    except ValueError as problem:
        names = {"true": data.name, "pred": arguments.predictions or arguments.load}
        raise ParameterError(re.sub(r"^y_(true|pred)\[(\d+)\]\[(\d+)\]", lambda m: place(
            names[m[1]], int(m[2]), int(m[3])), str(problem))) from problem


def _scores(arguments, data, found):
    is_left_out = has_no_punctuation(arguments, data)
    if data.shape == "sentence":
        counted = [[tag != "PUNCT" for tag in x.upos] for x in data.X] if is_left_out else None
        truth = pairs_of(data) if holds_relations(data) else data.y
        uas, las, las_without_subtypes, _ = attachment_scores(truth, found, counted)
        return {"UAS": uas} if math.isnan(las) else {"UAS": uas, "LAS without subtypes": las_without_subtypes,
                                                     "LAS with subtypes": las}
    truth = [np.asarray(labels).tolist() for labels in data.y]
    if data.shape == "row":
        return {"accuracy": accuracy(*([plain_label(label) for label in side] for side in (truth, found)))}
    joined, mine = ([label for labels in side for label in labels] for side in (truth, found))
    return {"token accuracy": accuracy(joined, mine), "sequence accuracy": accuracy(truth, found)}


def _predictions(arguments, data):
    """Return the labels in a file that `predict` or another program wrote; for parses with relations, return pairs."""
    name = arguments.predictions
    if data.shape == "sentence" or data.rows is not None or _holds_examples(name, data.columns.format):
        other = copy.copy(arguments)
        other.data, other.format, other.skip_bad, other.checks_trees = name, data.columns.format, False, False
        if arguments.skip_bad:
            _align(other, data)
        theirs = read(other)
        _check_lengths(name, theirs.y, data)
        if data.shape == "row":
            X = data.X              # another program may have rounded the numbers
            if theirs.X.shape != X.shape or (abs(theirs.X - X) > 1e-6 * abs(X).max()).sum():
                raise ParameterError(f"{name} must hold the rows of {data.name}, {X.shape[1]} features and a label, "
                                     f"got {theirs.describe()} that differ; give what predict wrote, or a label a line")
            return theirs.y.tolist()
        for i, (mine, ours) in enumerate(zip(_words(theirs), _words(data), strict=True)):
            if mine != ours:
                raise ParameterError(f"{name}: sentence {i + 1} has other words than in {data.name}")
        for part, whole in ((theirs, data), (data, theirs)) if data.rows is not None else ():
            if part.rows == [[token[:-1] for token in tokens] for tokens in whole.rows]:
                raise ParameterError(f"{part.name} holds the columns of {whole.name} without the labels; bring them")
        for i, x in enumerate(theirs.X if data.shape == "sentence" else ()):
            if why_no_tree("heads", x.heads, len(x.heads), False):
                raise ParameterError(f"{name}: the heads of sentence {i + 1} must be a tree, got words on a cycle, "
                                     f"{x.heads[1:].tolist()!r:.60}; leave the sentence out of both files")
        if data.shape == "sentence" and holds_relations(theirs):
            return pairs_of(theirs)
        return [np.asarray(labels).tolist() for labels in theirs.y]
    with_numbers = all(np.asarray(labels).dtype.kind in "iufb" for labels in data.y)
    found = []
    for number, line in numbered_lines(name):
        labels = line.split() if data.shape == "sequence" else [line.strip()]
        try:
            labels = [float(label) for label in labels] if with_numbers else labels
        except ValueError as problem:
            raise ParameterError(f"{name}, line {number}: {problem!s:.200}, but {data.name} has numbers") from problem
        if data.shape == "sequence" and len(found) < len(data.y) and len(labels) != len(data.y[len(found)]):
            raise ParameterError(f"{name}, line {number}: expected {len(data.y[len(found)])} labels, got {len(labels)}")
        found.append(labels if data.shape == "sequence" else labels[0])
    _check_lengths(name, found, data)
    return found


def _align(other, data):
    """Leave the sentences that the data skipped out of the predictions; `predict` copies such sentences unchanged."""
    whole = len(data.y) + len(data.skipped)
    n = whole if other.data == "-" else len(trees_of(other.data, trees=None)[0])
    if n == whole:
        other.left_out = data.skipped
    elif n != len(data.y):          # skip bad sentences of the predictions, too
        other.skip_bad = other.checks_trees = True


def _holds_examples(name, format):
    """Return whether a file holds examples with labels, as `predict` writes them, rather than labels alone."""
    signs = {"csv": SEPARATORS, "svmlight": ":"}.get(format, "")
    return signs != "" and (name == "-" or any(sign in line for _, line in numbered_lines(name) for sign in signs))


def _words(data):
    if data.shape == "sentence":
        return [sentence.forms for sentence in data.X]
    return [[token[0] for token in tokens] for tokens in data.rows]


def _check_lengths(name, found, data):
    if len(found) != len(data.y):
        raise ParameterError(f"{name} must hold {len(data.y)} predictions, one for each example of {data.name}, got "
                             f"{len(found)}" + "; --skip-bad leaves bad ones out" * (data.shape == "sentence"))
