"""Save estimators in files: parameters and certificate in a JSON header, the fitted state as arrays, a digest of all.

The class is looked up by name among those of this package, and parameters are data: loading runs no code from a file.
"""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..core.archive import digest, name_of, read_archive, refusing, write_archive
from ..core.exceptions import StateError
from ..core.types import Estimator, PathLike, Source
from ..core.validation import check_number
from ..mkl import Features, Kernel
from ..solvers.method import Method
from ..templates import Templates
from .kernels import described, made

COVERED = ("class", "parameters", "certificate", "values", "columns")    # entries of the header that the digest covers
FORMAT, VERSION = "pybundle estimators", 1
CERTIFICATE = ("objective_", "lower_bound_", "gap_", "certified_", "converged_", "n_iter_", "n_passes_")
PARAMETERS = "parameters/"          # prefix of the names of arrays that belong to parameters


class StoredEstimator(BaseEstimator):
    """Base class of estimators that can be saved.

    The fitted state consists of the attributes with a trailing underscore: arrays, numbers, texts, lists of texts and
    dictionaries of arrays, nothing else. Predictions derive everything else from these and the parameters.
    """

    _doc_link_module = "pybundle"
    _doc_link_template = "https://pybundle.readthedocs.io/en/stable/api/generated/pybundle.{estimator_name}.html"
    _columns = None     # the columns of the data as the command line describes them, in JSON form
    _takes_sparse = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        return tags

    def _take_arguments(self, given):
        """Store the arguments of `__init__`, its `locals()`, under their names, as scikit-learn expects."""
        vars(self).update((name, value) for name, value in given.items() if name not in ("self", "__class__"))

    def save(self, path: PathLike) -> None:
        """Writes parameters, certificate and fitted state into one file, which `pybundle.load` reads.

        Parameters
        ----------
        path : str or path
            Path of an `.npz` file without pickled objects; an old one is replaced when the new one is complete.
            `callback`, `certificate_` and what a warm start keeps of the data are left out.

        Raises
        ------
        StateError
            If a parameter is something that only code can make: a callable, a random state, an object.
        """
        name = type(self).__name__
        if class_of(name) is not type(self):
            raise StateError(f"{name} is no estimator of pybundle, whose files hold no code; pickle it instead")
        check_is_fitted(self)
        estimator = self._as_fitted()
        arrays, values = estimator._get_state()
        parameters = {}
        for key, value in estimator.get_params(deep=False).items():
            if key != "callback":               # a callback belongs to the run, not to the model
                parameters[key] = _encode(f"parameter {key} of {name}", PARAMETERS + key, value, arrays)
        header = {"class": name, "parameters": parameters,
                  "certificate": {key: values.pop(key) for key in CERTIFICATE if key in values}, "values": values,
                  "columns": estimator._columns}
        write_archive(path, FORMAT, VERSION, header | {"digest": digest(header, arrays)}, arrays)

    def _as_fitted(self):
        """Return the estimator with the parameters of the fit."""
        return self

    def _get_state(self):
        """Return the fitted state as `(arrays, values)`: a dictionary of arrays, and a dictionary that JSON can hold.

        Keys are names of attributes, `name/key` for a dictionary of arrays.
        """
        arrays, values = {}, {}
        for name, value in vars(self).items():
            if not name.endswith("_") or name.startswith("_") or name == "certificate_":
                continue
            for key, item in ({f"{name}/{k}": v for k, v in value.items()} if isinstance(value, dict)
                              else {name: value}).items():
                if isinstance(item, np.ndarray):
                    arrays[key] = _plain(key, item)
                elif sp.issparse(item):
                    arrays |= {f"{key}/{part}": getattr(item, part) for part in ("data", "indices", "indptr")}
                    arrays[f"{key}/shape"] = np.array(item.shape)
                elif isinstance(item, list):
                    arrays |= _packed(key, item)
                elif item is None or isinstance(item, (bool, int, float, str)):
                    values[key] = item
                else:
                    raise StateError(f"{key} of {type(self).__name__} must be an array, a number or a text to be "
                                     f"saved, got {type(item).__name__}")
        return arrays, values

    def _set_state(self, arrays, values):
        """Set the state that `_get_state` of an estimator with the same parameters returned; return self.

        Only names are checked: a name that cannot be an attribute of a fit raises StateError.
        """
        attributes = {}
        for name, value in {**arrays, **values}.items():
            name, _, key = name.partition("/")
            if not name.isidentifier() or not name.endswith("_") or name.startswith("_") or hasattr(type(self), name):
                raise StateError(f"{name!r} is no attribute of a fitted {type(self).__name__}")
            if key:
                attributes.setdefault(name, {})[key] = value
            else:
                attributes[name] = value
        for name, value in attributes.items():
            if isinstance(value, dict) and value.keys() == {"utf8", "ends"}:
                attributes[name] = _unpacked(**value)
            elif isinstance(value, dict) and value.keys() == {"data", "indices", "indptr", "shape"}:
                attributes[name] = sp.csr_matrix((value["data"], value["indices"], value["indptr"]),
                                                 shape=tuple(value["shape"].tolist()))
        if "feature_names_in_" in attributes:       # scikit-learn stores names as objects
            attributes["feature_names_in_"] = attributes["feature_names_in_"].astype(object)
        vars(self).update(attributes)
        return self

    def _check_state(self):
        """Raise StateError unless a fit can have this state, so that no prediction reads beyond an array."""
        mine = vars(self)
        for name in ("objective_", "lower_bound_", "gap_", "n_passes_"):
            if not isinstance(mine.get(name), float):
                raise StateError(f"{name} must be a number, got {mine.get(name)!r:.60}")
        for name in ("certified_", "converged_"):
            if not isinstance(mine.get(name), bool):
                raise StateError(f"{name} must be True or False, got {mine.get(name)!r:.60}")
        # values are rounded; without a certificate, as after partial_fit, bound, objective and gap may be NaN
        excess = self.lower_bound_ - self.objective_ - 1e-9 * abs(self.objective_)
        if not (excess <= 0.0 and self.gap_ >= 0.0) and (self.certified_ or excess > 0.0 or self.gap_ < 0.0):
            raise StateError(f"lower_bound_ <= objective_ and gap_ >= 0 must hold, got {self.lower_bound_:.6g}, "
                             f"{self.objective_:.6g} and {self.gap_:.3g}")
        for name in ({"tol"} if "C_" in mine else {"C", "tol"}) & self.get_params(deep=False).keys():
            check_number(name, 1.0 if name == "C" and mine[name] == np.inf else mine[name], low=0.0, strict=name == "C")
        classes = mine.get("classes_", np.arange(2))
        if not isinstance(classes, np.ndarray) or classes.ndim != 1 or len(classes) < 2 or \
                (classes[1:] <= classes[:-1]).any():
            raise StateError("classes_ must be two or more, sorted")


def load(path: Source) -> Estimator:
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
        in it is run, and no array is larger than the file.
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
        covered = {key: header[key] for key in COVERED if key in header}
        if len(covered) < len(COVERED) or header.get("digest") != digest(covered, arrays):
            raise ValueError("its digest does not fit: it was changed, or written before there was one; train again")
        cls = class_of(header["class"])
        if cls is None:
            raise StateError(f"{name_of(path)}: class {header['class']!r:.60} is unknown; this version has "
                             f"{', '.join(sorted(names()))}")
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
    """Return a value in JSON form; arrays go to `arrays`, kernels become what `described` returns."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Method):
        return str(value)
    if isinstance(value, Templates):
        return {"templates": list(value.lines)}
    if isinstance(value, (list, tuple, range)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encode(what, f"{name}/{k}", item, arrays) for k, item in enumerate(value)]}
    if isinstance(value, dict):
        return {"dict": [[_encode(what, f"{name}/{k}/key", key, arrays), _encode(what, f"{name}/{k}", item, arrays)]
                         for k, (key, item) in enumerate(value.items())]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        arrays[name] = value
        return {"array": name}
    if isinstance(value, (Features, Kernel)):
        return {"object": _encode(what, name, described(value), arrays)}
    raise StateError(f"{what} cannot be saved, since a file holds no code: got {type(value).__name__}; replace it "
                     "before the fit, or pickle the estimator")


def _decode(value, arrays):
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise ValueError("a parameter is malformed")
        return value
    (kind, content), = value.items()
    if kind == "array":
        return arrays.pop(content)
    if kind == "templates":
        return Templates(content)
    if kind == "object":
        return made(_decode(content, arrays))
    if kind == "dict":
        return {_decode(key, arrays): _decode(item, arrays) for key, item in content}
    items = [_decode(item, arrays) for item in content]
    return {"list": list, "tuple": tuple}[kind](items)


def names():
    """Return the names of the classes of this package; no other is saved or loaded."""
    return set(import_module(__package__).__all__) - {"load"}


def class_of(name):
    """Return the class of that name, or None."""
    return getattr(import_module(__package__), name) if name in names() else None


def _plain(name, array):
    """Return an array of objects, like labels from pandas, as texts; return other arrays unchanged."""
    if array.dtype != object:
        return array
    if not all(isinstance(item, str) for item in array.ravel()):
        raise StateError(f"{name} must hold numbers or texts to be saved, got {type(array.ravel()[0]).__name__}")
    return array.astype(str)


def _packed(name, texts):
    """Return a list of texts as two arrays; a single array would pad every text to the longest."""
    pieces = [text.encode() for text in texts]
    return {f"{name}/utf8": np.frombuffer(b"".join(pieces), dtype=np.uint8),
            f"{name}/ends": np.cumsum([len(piece) for piece in pieces], dtype=np.int64)}


def _unpacked(utf8, ends):
    bounds, joined = [0, *ends.tolist()], utf8.tobytes()
    if utf8.dtype != np.uint8 or utf8.ndim != 1 or bounds != sorted(bounds) or bounds[-1] != len(joined):
        raise StateError("a list of texts is malformed")
    return [joined[first:last].decode() for first, last in pairwise(bounds)]
