"""Build estimators and risks from arguments and data."""

import importlib
import operator
import os
import sys
from functools import partial, reduce

import numpy as np

from .. import templates
from ..core.exceptions import ParameterError
from ..core.memory import require_memory
from ..core.warn import warn_user
from ..models import TREEBANK_RELATION_TEMPLATES, TREEBANK_TEMPLATES
from ..risks import BinaryHinge, MulticlassHinge
from ..runtime.callbacks import ProgressBar
from .classes import warn_of_measurements
from .data import place
from .scaling import scaled

KINDS = {"svm": ("MulticlassSVM", "row"), "chain": ("ChainSVM", "sequence"), "crf": ("ChainCRF", "sequence"),
         "rank": ("RankingSVM", "row"), "mkl": ("OnlineMKLClassifier", "row"),
         "parser": ("DependencyParser", "sentence")}
"""Estimator and shape of the data by the name of a model."""
RESTRICTED = {"no_intercept": ("svm",), "scale": ("svm",), "hash_bits": ("chain", "crf", "parser"),
              "l1": ("chain", "crf"), "min_count": ("chain", "crf", "parser"), "token_weights": ("chain", "crf"),
              "scheme": ("chain", "crf"), "groups": ("rank",), "no_relations": ("parser",),
              "no_punctuation": ("parser",)}
"""Options that only some models have, with the names of these models."""
SHAPES = {"row": "svm", "sequence": "chain", "sentence": "parser"}
PARSER_C = 0.03
"""Default C of parsers, for a treebank of ten thousand sentences; on the English Web Treebank the accuracy with 0.1 is
half a percentage point lower."""
COPIES = 8
"""Least number of vectors of the length of w that a run holds: points, planes, a direction."""


def kind_of(arguments, data):
    """Return the name of the model, which must suit the data and the options."""
    kind = arguments.model or SHAPES[data.shape]
    check_shape(data, KINDS[kind][1], f"--model {kind}")
    for option, kinds in RESTRICTED.items():
        if getattr(arguments, option, None) and kind not in kinds:
            raise ParameterError(f"--{option.replace('_', '-')} belongs to --model {', '.join(kinds)}, got {kind}")
    if data.groups is not None and arguments.model is None:
        warn_user(f"{data.name} has groups (qid), which {kind} does not use; --model rank learns from them",
                  UserWarning)
    return kind


def check_shape(data, shape, who):
    """Refuse data unless they have the shape that `who` takes."""
    formats = {"row": "svmlight, csv, npz", "sequence": "CoNLL columns, npz with offsets", "sentence": "CoNLL-U"}
    if data.shape != shape:
        raise ParameterError(f"{who} takes {shape}s ({formats[shape]}), got {data.name} of {data.shape}s")


def constant(arguments):
    """Return C as an argument of estimators; empty if it was not given."""
    if arguments.lam is not None:
        return {"C": 1.0 / arguments.lam}
    return {} if arguments.C is None else {"C": arguments.C}


def make_estimator(name, kind, arguments, data, **parameters):
    """Return an estimator of the class `name`, made from the arguments about models."""
    if arguments.no_intercept:
        parameters["fit_intercept"] = False
    for option in ("hash_bits", "min_count", "token_weights", "scheme", "l1"):
        if value := getattr(arguments, option, None):
            parameters[option] = value
    if data.columns.format == "conll" and not data.columns.attributes:
        parameters["templates"] = templates_of("words" if arguments.features is None else arguments.features, data)
    if kind == "parser":
        parameters = {"single_root": not data.columns.multiple_roots} | of_treebank(data) | parameters
        parameters["relations"] = not arguments.no_relations and holds_relations(data)
        if not parameters["relations"]:
            del parameters["relation_templates"]
        parameters.setdefault("hash_bits", 22 if parameters["relations"] else 20)
        if has_no_punctuation(arguments, data):
            parameters["uncounted"] = ("PUNCT",)
        if name == KINDS[kind][0]:
            parameters.setdefault("C", PARSER_C)
    return getattr(estimators(), name)(**parameters)


def templates_of(text, data):
    """Return the templates of the sets in a text, joined by commas, or of the file of that name."""
    n = data.columns.n_features
    sets = {"words": partial(templates.words, n), "columns": partial(templates.columns, n),
            **{name: getattr(templates, name) for name in ("affixes", "digits", "lower", "shapes", "window")}}
    if set(text.split(",")) <= sets.keys():
        return reduce(operator.add, (sets[name]() for name in text.split(",")))
    if not os.path.exists(text):
        raise ParameterError(f"--features {text}: there is no such file, and no such set; sets are "
                             f"{', '.join(sorted(sets))}, as in --features lower,affixes")
    found = templates.read_crfpp(text)
    if found.n_columns > n:
        raise ParameterError(f"{text}: a template reads column {found.n_columns - 1}, but the columns of {data.name} "
                             f"beside the label are 0 to {n - 1}")
    return found


def of_treebank(data):
    """Return parameters of a parser for a treebank: both tags, or only the universal one if there is no other."""
    has_fine = "xpos" in data.columns.names
    parameters = {"attributes": ("lower", "xpos", "pos") if has_fine else ("lower", "pos"), "min_count": 2}
    for name, texts in (("templates", TREEBANK_TEMPLATES), ("relation_templates", TREEBANK_RELATION_TEMPLATES)):
        parameters[name] = list(dict.fromkeys(text if has_fine else text.replace(".xpos", ".pos") for text in texts))
    return parameters


def has_no_punctuation(arguments, data):
    """Return whether punctuation is not to count, which needs words with universal tags."""
    if arguments.no_punctuation and (data.shape != "sentence" or "upos" not in data.columns.names):
        raise ParameterError("--no-punctuation is for words with universal tags (column 4 of CoNLL-U), got "
                             f"{data.name} without")
    return arguments.no_punctuation


def holds_relations(data):
    """Return whether a treebank gives relations: column 8 is not _ everywhere."""
    return any(relation != "_" for sentence in data.X for relation in sentence.relations)


def relations_of(model):
    """Return in words which relations a model has, or None for a model without them."""
    if getattr(model, "relations_", None) is None:
        return None
    return f"{len(model.relations_)}, allowed in {len(model.allowed_)} combinations with tags and direction, as seen"


def rank_pairs(model):
    """Return in words the pairs that a ranker learnt from, or None for other models."""
    return (f"{model.n_pairs_} in {model.n_groups_} groups, {model.n_idle_groups_} of them without a pair"
            if hasattr(model, "n_pairs_") else None)


def pairs_of(data):
    """Return the heads and relations of a treebank, a list of pairs for each sentence."""
    return [list(zip(heads.tolist(), x.relations, strict=True)) for x, heads in zip(data.X, data.y, strict=True)]


def estimators():
    """Import the package that needs scikit-learn; without it the ImportError names the extra to install."""
    return importlib.import_module("pybundle.estimators")


def make_risk(arguments, data):
    """Return the risk of the data for runs without an estimator; for rows this needs no scikit-learn."""
    kind = kind_of(arguments, data)
    if kind != "svm":
        return prepared(kind, arguments, data)[1]
    check_memory(data)
    warn_of_measurements(data.y)
    classes, codes = np.unique(data.y, return_inverse=True)
    if len(classes) < 2:
        raise ParameterError(f"{data.name} must hold at least two classes, got {classes.tolist()[0]!r} only")
    if arguments.scale:
        data, _ = scaled(data)
    bias = None if arguments.no_intercept else 1.0
    if len(classes) == 2:
        return BinaryHinge(data.X, 2 * codes - 1, bias=bias)
    return MulticlassHinge(data.X, codes, bias=bias)


def prepared(kind, arguments, data):
    """Return the estimator of `train`, its risk, the attributes known before a solve, and the scaler or None."""
    if kind == "mkl":
        raise ParameterError("--model mkl is for train; path, bench and verify take svm, chain, crf, rank, parser")
    check_memory(data, n_classes=2 if kind == "rank" else None)
    data, scaler = scaled(data) if arguments.scale else (data, None)
    estimator = make_estimator(KINDS[kind][0], kind, arguments, data)
    return estimator, *estimator._prepare(data.X, targets(kind, estimator, data), None), scaler


def targets(kind, estimator, data):
    """Return the labels of data as the estimator takes them: grades with groups, or pairs of heads and relations."""
    if kind == "rank":
        if data.groups is None and data.columns.names and "qid" in data.columns.features:
            raise ParameterError(f"{data.name} has a column qid, which would be a feature; remove it, and give the "
                                 "sizes of the groups by --groups")
        return estimator._joined(data.X, grades_of(data), data.groups, None)[1]
    if not getattr(estimator, "relations", False):
        return data.y
    for i, x in zip(sorted({*range(len(data.X) + len(data.skipped))}.difference(data.skipped)), data.X, strict=True):
        if "_" in x.relations:
            raise ParameterError(f"{place(data.name, i, x.relations.index('_'))} has no relation in column 8, others "
                                 "have one; fill it in, or give --no-relations")
    return pairs_of(data)


def grades_of(data):
    """Return the labels of rows as numbers."""
    try:
        return np.asarray(data.y).astype(np.float64)
    except ValueError as problem:
        raise ParameterError(f"{data.name} must have numbers as labels, the grades of rows: {problem!s:.90}"
                             ) from problem


def check_memory(data, n_kernels=0, n_classes=None):
    """Refuse data whose weights or kernels do not fit into memory, such as a sparse file with a wrong index."""
    if data.shape != "row":
        return
    n = data.X.shape[0]
    require_memory(f"{data.name}: {n_kernels} kernels of {n} examples", 8 * n_kernels * n**2,
                   "take fewer examples, or --model svm")
    K = n_classes or len(np.unique(data.y))
    require_memory(f"{data.name}: {data.X.shape[1]} features and {K} classes",
                   8 * COPIES * data.X.shape[1] * (1 if K == 2 else K), "is an index wrong? --features N finds it")


def progress(arguments):
    """Return a progress bar on a terminal if tqdm is installed, else nothing."""
    if arguments.quiet or not sys.stderr.isatty():
        return None
    try:
        return ProgressBar(file=sys.stderr)
    except ImportError:
        return None
