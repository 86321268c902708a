"""Estimators whose fitted state is arrays, numbers and texts, so that files hold no code."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import pairwise

import numpy as np
from sklearn.base import BaseEstimator

from ..core.exceptions import StateError
from ..core.validation import check_number


@contextmanager
def unchanged_by_failure(estimator):
    """What checks of the data have noted of them is taken back where a fit ends before there is a model.

    A fit that gave a model also drops what the command line noted of the data of another one.
    """
    mine, names = vars(estimator), ("n_features_in_", "feature_names_in_")
    before, last = {name: mine[name] for name in names if name in mine}, mine.get("history_")
    try:
        yield
    except BaseException:
        if mine.get("history_") is last:
            for name in names:
                mine.pop(name, None)
            mine.update(before)
        raise
    finally:
        if mine.get("history_") is not last:
            mine.pop("_columns", None)


class StoredEstimator(BaseEstimator):
    """Base of estimators that can be saved.

    The fitted state is what stands in attributes with a trailing underscore: arrays, numbers, texts, lists of texts and
    dictionaries of arrays, nothing else. Whatever a prediction needs beyond is made from them and the parameters.
    """

    _columns = None     # what the command line noted of the columns of the data: a dictionary that JSON can hold

    def save(self, path):
        """Writes parameters, certificate and fitted state into one file, which `pybundle.load` reads.

        Parameters
        ----------
        path : str or path
            Of an `.npz` file without pickled objects; an old one is replaced when the new one is complete. `callback`
            and what a warm start keeps of the data are left out.

        Raises
        ------
        StateError
            Where a parameter is something that only code can make: a callable, a random state, an object.
        """
        from .saving import save  # which knows all classes

        save(self, path)

    def _as_fitted(self):
        """The estimator with the parameters that its model has."""
        return self

    def _get_state(self):
        """The fitted state as `(arrays, values)`: a dictionary of arrays and one that JSON can hold.

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
                elif isinstance(item, list):
                    arrays |= _packed(key, item)
                elif item is None or isinstance(item, (bool, int, float, str)):
                    values[key] = item
                else:
                    raise StateError(f"{key} of {type(self).__name__} must be an array, a number or a text to be "
                                     f"saved, got {type(item).__name__}")
        return arrays, values

    def _set_state(self, arrays, values):
        """Takes over what `_get_state` of an estimator with the same parameters gave; returns self.

        Only names are checked, which can be no others than those of attributes of a fit: StateError.
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
        if "feature_names_in_" in attributes:       # as scikit-learn has them
            attributes["feature_names_in_"] = attributes["feature_names_in_"].astype(object)
        vars(self).update(attributes)
        return self

    def _check_state(self):
        """StateError where a state from a file is not one of a fit: nothing may be read beyond an array later."""
        mine = vars(self)
        for name in ("objective_", "lower_bound_", "gap_", "n_passes_"):
            if not isinstance(mine.get(name), float):
                raise StateError(f"{name} must be a number, got {mine.get(name)!r:.60}")
        for name in ("certified_", "converged_"):
            if not isinstance(mine.get(name), bool):
                raise StateError(f"{name} must be True or False, got {mine.get(name)!r:.60}")
        # both bounds are rounded; without a certificate, as after partial_fit, all three may be NaN
        excess = self.lower_bound_ - self.objective_ - 1e-9 * abs(self.objective_)
        if not (excess <= 0.0 and self.gap_ >= 0.0) and (self.certified_ or excess > 0.0 or self.gap_ < 0.0):
            raise StateError(f"lower_bound_ <= objective_ and gap_ >= 0 must hold, got {self.lower_bound_:.6g}, "
                             f"{self.objective_:.6g} and {self.gap_:.3g}")
        for name in ("C", "tol"):
            if name in self.get_params(deep=False):
                check_number(name, mine[name], low=0.0, strict=True)
        classes = mine.get("classes_", np.arange(2))
        if not isinstance(classes, np.ndarray) or classes.ndim != 1 or len(classes) < 2 or \
                (classes[1:] <= classes[:-1]).any():
            raise StateError("classes_ must be two or more, sorted")
        if len({np.shape(values)[:1] for values in mine.get("history_", {}).values()}) > 1:
            raise StateError("history_ must have arrays of one length")


def _plain(name, array):
    """An array of objects, as labels from pandas are, as texts; others as they are."""
    if array.dtype != object:
        return array
    if not all(isinstance(item, str) for item in array.ravel()):
        raise StateError(f"{name} must hold numbers or texts to be saved, got {type(array.ravel()[0]).__name__}")
    return array.astype(str)


def _packed(name, texts):
    """A list of texts as two arrays: an array of texts would give each the room of the longest."""
    pieces = [text.encode() for text in texts]
    return {f"{name}/utf8": np.frombuffer(b"".join(pieces), dtype=np.uint8),
            f"{name}/ends": np.cumsum([len(piece) for piece in pieces], dtype=np.int64)}


def _unpacked(utf8, ends):
    bounds = [0, *ends.tolist(), len(utf8)]
    if utf8.dtype != np.uint8 or utf8.ndim != 1 or bounds != sorted(bounds) or bounds[-1] != bounds[-2]:
        raise StateError("a list of texts is malformed")
    joined, starts = utf8.tobytes(), [0, *ends.tolist()]
    return [joined[first:last].decode() for first, last in pairwise(starts)]
