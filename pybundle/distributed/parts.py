"""`Parts`: a worker builds the risk of some parts once, and answers questions about it."""

from __future__ import annotations

import copy
import pickle
import re
import time
import traceback
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.exceptions import InputTypeError, ParameterError
from ..core.protocols import Constant, check_risk, completed, constant_of, errors_of, is_risk
from ..core.ragged import Ragged
from ..core.validation import read_only
from ..runtime.executors import single_threaded_blas
from .messages import PACKED_DENSE_FROM, Answer, Failure, pack


class Description(NamedTuple):
    """A description of parts for the driver, without their data; fields as in `Risk`, arrays of shape (P,)."""

    dim: int
    n_examples: int
    lower_bounds: np.ndarray
    slope_errors: np.ndarray
    offset_errors: np.ndarray
    slope_sizes: np.ndarray | None
    smooth: bool
    nonneg: np.ndarray | None
    free: np.ndarray | None
    means: np.ndarray | None
    shift: Any
    constant: Constant
    fingerprint: Any
    assumption: str
    kind: str

    @classmethod
    def of(cls, risk):
        """Return the description of a risk; unknown rounding errors are 0, and unknown `slope_sizes` None."""
        risk = completed(risk).renewed()
        bounds = np.array(np.broadcast_to(np.asarray(risk.lower_bounds, dtype=float), (risk.n_parts,)))
        return cls(risk.dim, risk.n_examples, bounds, *errors_of(risk), risk.slope_sizes, bool(risk.smooth),
                   risk.nonneg, risk.free, risk.means, risk.shift, constant_of(risk), risk.fingerprint,
                   risk.assumption, risk.kind)


class Parts:
    """The risk of some parts, built from its source.

    Parameters
    ----------
    source : callable, Risk or None
        `source()` returns the risk, or None if its parts are empty; the source itself may be None, too.
    n_parts : int
        Number of parts of this group.
    """

    def __init__(self, source, n_parts):
        self._source = source
        if not (source is None or is_risk(source) or callable(source)):
            raise InputTypeError(f"delayed must give risks, got {type(source).__name__}")
        risk = source if source is None or is_risk(source) else source()
        self._risks = {None: None if risk is None else completed(risk)}
        self._rows = getattr(source, "rows", None)
        self.n_parts = n_parts
        if risk is not None:
            check_risk(risk)
            if risk.n_parts != n_parts:
                raise ParameterError(f"the risk of a group must have {n_parts} parts, got {risk.n_parts}")
        if hasattr(risk, "dense_from"):  # below PACKED_DENSE_FROM, `pack` would turn dense slopes into CSR
            self._risks[None] = copy.copy(risk)
            self._risks[None].dense_from = PACKED_DENSE_FROM

    def __reduce__(self) -> Any:
        # the source alone is sent; another worker builds the risk itself
        return Parts, (self._source, self.n_parts)

    def __sizeof__(self):
        # counts the data, because Dask moves objects that seem small from worker to worker
        return super().__sizeof__() + _size(vars(self._source) if hasattr(self._source, "__dict__") else self._source)

    def answer(self, question, w):
        """Return the answer to a question at w, or a `Failure` in it if an oracle raises an exception."""
        began = time.perf_counter()
        try:
            with single_threaded_blas():
                arrays, record = self._ask(question, w)
        except Exception as error:
            return Answer([], time.perf_counter() - began, failure=self._explain(error, w))
        return Answer(arrays, time.perf_counter() - began, record)

    def _ask(self, question, w):
        w = read_only(w)            # workers of one process may share w
        risk = self._risk(question.precision)
        if question.kind == "describe":
            return [], None if risk is None else Description.of(risk)
        if risk is None:
            zeros = np.zeros(self.n_parts)
            empty = [np.empty(0), np.empty(0, np.int32), np.zeros(self.n_parts + 1, np.int32)]
            return ([zeros, zeros, *empty] if question.kind == "planes" else [zeros, zeros]), None
        risk.aim(question.accuracy)
        if question.kind == "planes":
            planes = risk.planes(w)
            return pack(planes, question.single), (planes.slope_errors, risk.decodes_exactly)
        values, errors = (risk.evaluate(w)[0], np.zeros(self.n_parts)) if risk.values is None else risk.values(w)
        return [np.asarray(values, dtype=float), np.asarray(errors, dtype=float)], None

    def _risk(self, precision):
        if precision not in self._risks:
            risk = self._risks[None]
            self._risks[precision] = None if risk is None else risk.derive(precision=precision)
        return self._risks[precision]

    def _explain(self, error, w):
        """Describe the failure, with the index of the example if decoding this example alone fails, too."""
        where, words, numbers = "", str(error), [int(i) for rows in self._rows or [] for i in rows]
        bad = next((k for k in range(len(numbers)) if not self._can_solve(k, w)), None)
        if bad is not None:
            def counted(text):
                # the number that the example has in the whole risk
                return re.sub(rf"\bexample {bad}\b", f"example {numbers[bad]}", text)

            words, where = counted(words), f" for example {numbers[bad]}"
            error.__notes__ = [counted(note) for note in getattr(error, "__notes__", ())]
        try:
            portable = pickle.loads(pickle.dumps(error))
        except Exception:
            portable = None
        return Failure(portable, f"the oracle raised {type(error).__name__}{where}: {words}", traceback.format_exc())

    def _can_solve(self, i, w):
        try:
            self._risks[None].oracle().solve(i, w)
        except Exception:
            return False
        return True


def _size(thing):
    """Return the bytes of the arrays that a value holds; the bytes of a list are estimated from its first item."""
    if isinstance(thing, np.ndarray):
        return thing.nbytes
    if isinstance(thing, list):
        return len(thing) * _size(thing[0]) if thing else 0
    if sp.issparse(thing) or isinstance(thing, Ragged):
        thing = vars(thing)
    parts = thing.values() if isinstance(thing, Mapping) else thing if isinstance(thing, tuple) else ()
    return sum(map(_size, parts))
