"""Estimators in files: parameters and certificate in a JSON header, the fitted state as arrays, a digest of all that.

The class is looked up by name among those of this package, and parameters are data: loading runs no code from a file.
"""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.archive import digest, name_of, read_archive, refusing, write_archive
from ..core.exceptions import StateError
from ..mkl import Features, Kernel
from .kernels import described, made

SAID = ("class", "parameters", "certificate", "values", "columns")       # what the digest is of
FORMAT, VERSION = "pybundle estimators", 1
CERTIFICATE = ("objective_", "lower_bound_", "gap_", "certified_", "converged_", "n_iter_", "n_passes_")
PARAMETERS = "parameters/"          # what names of arrays begin with that belong to parameters


def classes():
    """The classes of this package by name; no other is saved or loaded."""
    from .. import estimators

    named = {name: getattr(estimators, name) for name in estimators.__all__}
    return {name: value for name, value in named.items() if isinstance(value, type)}


def save(estimator, path):
    """See `CertifiedEstimator.save`."""
    name = type(estimator).__name__
    if classes().get(name) is not type(estimator):
        raise StateError(f"{name} is no estimator of pybundle, whose files hold no code; pickle it instead")
    check_is_fitted(estimator)
    estimator = estimator._as_fitted()
    arrays, values = estimator._get_state()
    parameters = {}
    for key, value in estimator.get_params(deep=False).items():
        if key != "callback":               # belongs to the run, not to the model
            parameters[key] = _encode(f"parameter {key} of {name}", PARAMETERS + key, value, arrays)
    header = {"class": name, "parameters": parameters,
              "certificate": {key: values.pop(key) for key in CERTIFICATE if key in values}, "values": values,
              "columns": estimator._columns}
    write_archive(path, FORMAT, VERSION, header | {"digest": digest(header, arrays)}, arrays)


def load(path):
    """An estimator from a file that its `save` wrote.

    Parameters
    ----------
    path : str, path, or binary file open for reading

    Returns
    -------
    estimator
        Of the class that was saved, fitted, with its parameters and its certificate; without `callback`.

    Raises
    ------
    StateError
        Where the file is damaged, was changed, is none of ours, or is of a version that this one does not know. Nothing
        in it is run, and no more memory is taken than the file is long.
    OSError
        Where it cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> import pybundle as pb
    >>> svm = pb.MulticlassSVM().fit([[0.0], [1.0], [3.0]], ["a", "a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     svm.save(os.path.join(folder, "svm.npz"))
    ...     again = pb.load(os.path.join(folder, "svm.npz"))
    >>> again.predict([[3.0]]).tolist(), again.gap_ == svm.gap_
    (['b'], True)
    """
    header, arrays = read_archive(path, FORMAT, VERSION)
    with refusing(f"{name_of(path)}: not an estimator", StateError):
        said = {key: header[key] for key in SAID if key in header}
        if len(said) < len(SAID) or header.get("digest") != digest(said, arrays):
            raise ValueError("its digest does not fit: it was changed, or written before there was one; train again")
        cls = classes().get(header["class"])
        if cls is None:
            raise StateError(f"{name_of(path)}: class {header['class']!r:.60} is unknown; this version has "
                             f"{', '.join(sorted(classes()))}")
        ours = {key: arrays.pop(key) for key in list(arrays) if key.startswith(PARAMETERS)}
        parameters = {key: _decode(value, ours) for key, value in header["parameters"].items()}
        if ours:
            raise ValueError(f"no parameter has the array {min(ours)!r:.60}")
        values = {**header["certificate"], **header["values"]}
        if not all(value is None or isinstance(value, (bool, int, float, str)) for value in values.values()):
            raise ValueError("values must be numbers or texts")
        if not isinstance(header["columns"], (dict, type(None))):
            raise ValueError("columns must be a dictionary or nothing")
        estimator = cls(**parameters)._set_state(arrays, values)
        estimator._columns = header["columns"]
        check_is_fitted(estimator)
        estimator._check_state()
    return estimator


def _encode(what, name, value, arrays):
    """A value as JSON has it; arrays go to `arrays`."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encode(what, f"{name}/{k}", item, arrays) for k, item in enumerate(value)]}
    if isinstance(value, dict):
        return {"dict": [[_encode(what, f"{name}/{k}/key", key, arrays), _encode(what, f"{name}/{k}", item, arrays)]
                         for k, (key, item) in enumerate(value.items())]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        arrays[name] = value
        return {"array": name}
    if isinstance(value, (Kernel, Features)):
        return {"kernel": _encode(what, name, described(value), arrays)}
    raise StateError(f"{what} cannot be saved, since a file holds no code: got {type(value).__name__}; replace it "
                     "with set_params first, or pickle the estimator")


def _decode(value, arrays):
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise ValueError("a parameter is malformed")
        return value
    (kind, content), = value.items()
    if kind == "array":
        return arrays.pop(content)
    if kind == "kernel":
        return made(_decode(content, arrays))
    items = [_decode(item, arrays) for item in content] if kind != "dict" else []
    if kind == "dict":
        return {_decode(key, arrays): _decode(item, arrays) for key, item in content}
    return {"list": list, "tuple": tuple}[kind](items)
