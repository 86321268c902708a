"""Train a model (`pybundle train`)."""

import os
import sys
import time
from dataclasses import replace

from ..core.exceptions import ParameterError
from ..solvers.checkpointing import Checkpoint
from .classes import class_counts, describe_counts, warn_of_attributes, warn_of_measurements
from .data import read
from .models import KINDS, check_memory, constant, kind_of, make_estimator, progress, rank_pairs, relations_of, targets
from .output import certificate, certificate_rows, check_outputs, print_json, print_rows, shown
from .scaling import scaled, unscale
from .scores import chunk_f1
from .verify import stated


def train(arguments):
    """Fit, save, and print the certificate; after Ctrl-C save the best state so far."""
    check_outputs(arguments, "save", "certificate", "checkpoint")
    for option, path in (("--save", arguments.save), ("--certificate", arguments.certificate)):
        if path is not None:
            check_place(option, path)
    data = read(arguments)
    kind = kind_of(arguments, data)
    check_memory(data, 5 if kind == "mkl" else 0, 2 if kind == "rank" else None)
    estimator = _estimator(kind, arguments, data)
    classes = class_counts(data) if kind != "rank" else None
    if classes and data.shape == "row" and data.y.dtype.kind == "U":        # `fit` checks only labels that are numbers
        warn_of_measurements(data.y)
    if data.shape == "sequence":
        warn_of_attributes(data, classes)
    data, scaler = scaled(data) if arguments.scale else (data, None)
    estimator._column_names = data.columns.features if data.columns.names else None
    started = time.perf_counter()
    try:
        estimator.fit(data.X, targets(kind, estimator, data))
    except KeyboardInterrupt:
        if arguments.save is not None and hasattr(estimator, "gap_"):
            save(estimator, data, scaler, arguments.save)
            print(f"pybundle: the best model so far, gap {shown('gap', estimator.gap_)}, is in {arguments.save}",
                  file=sys.stderr)
        raise
    record = {"model": kind, "class": type(estimator).__name__, "data": data.describe(), "classes": classes,
              "relations": relations_of(estimator),
              "C": estimator.C if arguments.cv is None else estimator.C_, **certificate(estimator),
              "scaled": arguments.scale, "seconds": time.perf_counter() - started, "saved": None,
              "hint": getattr(estimator, "_hint", "") or None}
    if kind == "rank":
        record |= {"pairs": estimator.n_pairs_, "groups": estimator.n_groups_, "idle_groups": estimator.n_idle_groups_}
    if arguments.cv is not None:
        means = estimator.scores_.mean(axis=0)
        record |= {name: dict(zip(estimator.Cs_.tolist(), values.tolist(), strict=True))
                   for name, values in (("scores", means), ("status", estimator.status_))}
    if kind == "mkl":
        names = [type(kernel).__name__ for kernel in estimator.kernels_]
        record["kernels"] = list(zip(names, estimator.kernel_weights_.tolist(), strict=True))
    if arguments.save is not None:
        save(estimator, data, scaler, arguments.save)
        record["saved"] = str(arguments.save)
    if arguments.certificate is not None:
        replace(estimator.certificate_, options=stated(arguments, kind, data)).save(arguments.certificate)
    if arguments.json:
        print_json(record)
    else:
        print(f"{record['class']} on {record['data']}, C = {record['C']:g}")
        print_rows([("classes", classes and describe_counts(classes)), ("relations", record["relations"]),
                    ("pairs", rank_pairs(estimator)),
                    *(_score_rows(record, "score" if arguments.scheme is None else "F1 of chunks")
                      if arguments.cv is not None else ()),
                    ("columns", arguments.scale and "scaled; the certificate is of the scaled columns"),
                    *certificate_rows(record), ("hint", record["hint"]),
                    *(("kernel weight", f"{weight:.4f} {name}") for name, weight in record.get("kernels", ())),
                    ("model saved", record["saved"])])
    return 0 if estimator.converged_ else 1


def _score_rows(record, what):
    """Return rows of scores, called `what`, for the tried values of C, and a row on the values not solved in full."""
    rows = [(f"C = {C:g}", f"cross-validated {what} {score:.4f}") for C, score in record["scores"].items()
            if record["status"][C] != "not tried"]
    kinds = {verb: ", ".join(f"{C:g}" for C, status in record["status"].items() if status == kind)
             for kind, verb in (("probed", "only probed"), ("not tried", "did not try"))}
    left = " and ".join(f"{verb} C = {values}" for verb, values in kinds.items() if values)
    return [*rows, ("search", f"it {left}")] if left else rows


def save(estimator, data, scaler, path):
    """Save the model with its columns, and with weights of the unscaled columns."""
    if scaler is not None:
        unscale(estimator, scaler)
    if hasattr(estimator, "scoring"):       # `scoring` is a function, which no file can hold
        estimator.scoring = None
    estimator._columns = data.columns._replace(trained_on=data.describe())._asdict()
    estimator.save(path)


def check_place(option, path):
    """Refuse, before the training, a path that could not be written after it."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise ParameterError(f"{option} {path}: there is no such folder")
    if os.path.isdir(path):
        raise ParameterError(f"{option} {path}: this is a folder; name a file in it")
    if not os.access(folder, os.W_OK):
        raise ParameterError(f"{option} {path}: nothing can be written into {folder}")


def _estimator(kind, arguments, data):
    name = KINDS[kind][0]
    if kind == "mkl":
        return _kernel_learner(name, kind, arguments, data)
    parameters = {"tol": arguments.tol, "atol": arguments.atol, "method": arguments.method, "n_jobs": arguments.jobs,
                  "time_limit": arguments.time_limit, "max_iter": arguments.max_iter, "random_state": arguments.seed,
                  "callback": progress(arguments)}
    if arguments.cv is None:
        if arguments.grid is not None:
            raise ParameterError("--grid belongs to --cv FOLDS; give that, or one value by -C")
        parameters |= constant(arguments)
    else:
        if arguments.l1:
            raise ParameterError("--cv is without an l1 norm, so --l1 cannot be given with it; try values of -C with "
                                 "evaluate")
        if any(value is not None for value in (
                arguments.C, arguments.lam, arguments.checkpoint, arguments.certificate)):
            raise ParameterError("--cv chooses C in many runs, so -C, --lam, --checkpoint and --certificate cannot be "
                                 "given with it")
        name += "CV"
        parameters |= {"cv": arguments.cv, "Cs": 8 if arguments.grid is None else arguments.grid}
        if arguments.scheme is not None:
            parameters["scoring"] = chunk_f1
    estimator = make_estimator(name, kind, arguments, data, **parameters)
    file = None if arguments.checkpoint is None else Checkpoint(arguments.checkpoint, every=arguments.checkpoint_every)
    estimator._further = {"n_parts": arguments.parts, "evidence": arguments.certificate is not None,
                          "checkpoint": file}
    return estimator


def _kernel_learner(name, kind, arguments, data):
    """Return an estimator of kernels; refuse options that it does not have."""
    for option in ("method", "atol", "parts", "cv", "time_limit", "grid", "certificate", "checkpoint"):
        if getattr(arguments, option) not in (None, "auto"):
            raise ParameterError(f"--{option.replace('_', '-')} is for other models than mkl; --max-iter bounds its "
                                 "passes")
    parameters = {"tol": arguments.tol, "n_jobs": arguments.jobs, "random_state": arguments.seed, "solver": "certified"}
    if arguments.max_iter is not None:
        parameters["max_iter"] = arguments.max_iter
    return make_estimator(name, kind, arguments, data, **parameters, **constant(arguments))
