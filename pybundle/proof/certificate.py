"""The certificate of a run: its claims about F, and the evidence from which they can be recomputed.

    upper side    F(w) <= fun + error                                               one pass over the data at w
    lower side    R(v) >= offset + <phi, v> for all v,  hence  min F >= lower_bound  multipliers of labellings or planes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from ..core.archive import name_of, read_archive, refusing, write_archive
from ..core.exceptions import InputTypeError, StateError
from ..core.kept import check_array
from ..core.types import PathLike, Source
from ..features.shift import Shift
from .evidence import LARGEST, Labellings, Multipliers, Points
from .limits import Limits
from .penalty import ProvenPenalty, digest
from .rows import Rows

FORMAT, VERSION = "pybundle certificates", 1
NUMBERS = ("fun", "error", "lower_bound", "offset", "offset_error", "slope_error")
IN_HEADER = (*NUMBERS, "lam", "radius", "divisor", "risk", "fingerprint", "n_examples", "options")


@dataclass(frozen=True, eq=False)
class Certificate:
    """Claims about `F(w) = lam/2 |w|^2 + R(w)`, or R in a ball, or with another penalty; and the evidence for them.

    Attributes
    ----------
    w : ndarray, shape (dim,)
        The point of the result.
    fun, error : float
        `F(w)` as computed, and a bound on its rounding error.
    lower_bound : float
        The lower bound that the evidence proves. `result.lower_bound`, the best of the whole run, is larger if its
        multipliers were not kept. Without evidence this is that best bound, which nobody else can check.
    lam, radius, penalty : float, float, ProvenPenalty; or None
        One of them is given, the others are None.
    nonneg : bool array, shape (dim,), or None
        Weights that must not be negative.
    divisor : int
        R is divided by this number: 1, or the number of examples in the scale "mean".
    offset, phi : float, ndarray (dim,)
        The aggregate plane, `R(v) >= offset + <phi, v>`, of the sum of all losses.
    offset_error, slope_error : float
        Bounds on their rounding errors, of phi in the Euclidean norm.
    risk, fingerprint : str, int or None
        Class of the risk, and its fingerprint, a number that depends on data, labels, weights and model.
    n_examples : int
    evidence : Labellings, Points, Multipliers or None
        None means that nothing was kept from which phi and offset could be computed again.
    rows : Rows or None
        Linear constraints, with multipliers if there is evidence.
    limits : Limits or None
        Proof of how large weights without penalty can be, if there are any and there is evidence.
    messages : ndarray, shape (m, 2, K), or None
        For `GraphLabeling` with evidence: the dual point that proves the value of R at w, see `pb.oracles.graph_upper`.
        None above 64 MB: then the verifier decodes.
    options : list or tuple of str
        The options of `pybundle train` that define the risk; `pybundle verify` makes the risk from them.
    shift : Shift or None
        Change of variables of a problem with free intercepts. w is the point of the user; phi, offset and evidence
        belong to the risk of `X - m` and `y - c`, whose bounds and values are the same.

    Examples
    --------
    >>> import pybundle as pb
    >>> risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1])
    >>> certificate = pb.minimize(risk, lam=1.0, tol=1e-6).certificate
    >>> certificate.evidence.kind, pb.verify(certificate, risk).ok
    ('labellings', True)
    """

    w: np.ndarray
    fun: float
    error: float
    lower_bound: float
    lam: float | None
    radius: float | None
    nonneg: np.ndarray | None
    divisor: int
    offset: float
    phi: np.ndarray
    offset_error: float
    slope_error: float
    risk: str
    fingerprint: int | None
    n_examples: int
    evidence: Any = None
    penalty: Any = None
    rows: Any = None
    limits: Any = None
    shift: Any = None
    messages: Any = None
    options: Sequence[str] = ()

    @property
    def gap(self) -> float:
        """`(fun + error - lower_bound) / |fun|`, 0 if this is 0/0 or fun and lower_bound are both 0."""
        if self.fun == 0.0:
            return 0.0 if self.lower_bound >= 0.0 else float("inf")
        return max(0.0, self.fun + self.error - self.lower_bound) / abs(self.fun)

    def check(self) -> None:
        """Raises ValueError if numbers or shapes are invalid; `pb.verify` decides whether the claims are true."""
        check_array("w", self.w, (np.size(self.w),))
        check_array("phi", self.phi, self.w.shape)
        if max(np.abs(self.w).max(initial=0.0), np.abs(self.phi).max(initial=0.0)) > LARGEST:
            raise ValueError(f"w and phi must have entries of at most {LARGEST:g}")
        if self.nonneg is not None and (self.nonneg.dtype != np.bool_ or self.nonneg.shape != self.w.shape):
            raise ValueError("nonneg must mark entries of w")
        for name in NUMBERS:
            _check_number(name, getattr(self, name), 0.0 if name.endswith("error") else -np.inf)
        given = [x for x in (self.lam, self.radius, self.penalty) if x is not None]
        if len(given) != 1:
            raise ValueError("it must hold one of lam, radius and penalty")
        if self.penalty is None:
            _check_number("lam or radius", given[0], 1e-300)
            if self.rows is not None or self.limits is not None:
                raise ValueError("rows and limits must belong to a penalty")
        else:
            self.penalty.check(len(self.w))
            if self.nonneg is not None:
                raise ValueError("nonneg must be bounds of the penalty")
        for name in ("divisor", "n_examples"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise ValueError(f"{name} must be an integer > 0")
        if not isinstance(self.risk, str) or type(self.fingerprint) not in (int, type(None)):
            raise ValueError("risk must be a name, fingerprint a number")
        if not isinstance(self.options, (list, tuple)) or not all(isinstance(text, str) for text in self.options):
            raise ValueError("options must be texts")
        if self.evidence is not None:
            self.evidence.check(len(self.w), self.n_examples)
        if self.rows is not None:
            self.rows.check(len(self.w))
        if self.limits is not None:
            self.limits.check(self.penalty, self.n_examples)
        if self.messages is not None:
            m, K = len(self.messages), np.shape(self.messages)[-1] if np.ndim(self.messages) == 3 else 0
            check_array("messages", self.messages, (m, 2, K))
            if np.abs(self.messages).max(initial=0.0) > LARGEST:
                raise ValueError(f"messages must have entries of at most {LARGEST:g}")
        if self.shift is not None:
            columns = self.shift.columns
            check_array("shift", columns, (np.size(columns),))
            _check_number("shift", self.shift.target, -np.inf)
            if len(self.w) % (len(columns) + 1) or np.abs(columns).max(initial=0.0) > LARGEST:
                raise ValueError(f"shift must fit w, with entries of at most {LARGEST:g}")

    @property
    def lam_error(self) -> float:
        """Relative error of lam; in the scale "mean" it is `n lam / n`, which is rounded twice."""
        return 0.0 if self.divisor == 1 else 2.0**-50

    def problem(self) -> str:
        """The complete problem in words; each array is shown by a digest [...], equal only for equal arrays."""
        term = str(self.penalty) if self.penalty is not None else (
            f"lam = {self.lam:.17g}" if self.radius is None else f"radius = {self.radius:.17g}")
        if self.rows is not None:
            A, upper = self.rows.A.tocoo(), self.rows.upper
            term += f", {len(upper)} linear constraints {digest(np.concatenate([A.row, A.col, A.data, upper]))}"
        signs = "" if self.nonneg is None else f", {np.count_nonzero(self.nonneg)} weights >= 0 {digest(self.nonneg)}"
        mean = "" if self.divisor == 1 else ", mean of the losses"
        signs += "" if self.shift is None else f", shifted {digest(np.append(self.shift.columns, self.shift.target))}"
        return f"{self.risk} of {self.n_examples} examples, {term}{mean}{signs}"

    def save(self, path: PathLike) -> None:
        """Writes one `.npz` without pickled objects, all of it or nothing.

        Raises
        ------
        StateError
            If the file cannot be written.
        """
        header = {name: getattr(self, name) for name in IN_HEADER}
        header["evidence"] = None if self.evidence is None else self.evidence.kind
        arrays = {"w": self.w, "phi": self.phi}
        if self.shift is not None:
            header["shift"], arrays["shift_columns"] = self.shift.target, self.shift.columns
        arrays |= {name: getattr(self, name) for name in ("nonneg", "messages") if getattr(self, name) is not None}
        for name, part in (("evidence", self.evidence), ("rows", self.rows), ("limits", self.limits),
                           ("penalty", self.penalty)):
            header[f"has_{name}"] = part is not None
            arrays |= {} if part is None else part.arrays()
        try:
            write_archive(path, FORMAT, VERSION, header, arrays)
        except (OSError, InputTypeError) as problem:
            raise StateError(f"path must name a file that can be written, got {path!r} ({problem}); choose another "
                             "path") from problem

    def __str__(self) -> str:
        kind = "no evidence" if self.evidence is None else f"evidence: {self.evidence.kind}"
        return (f"certificate of {self.risk} with {self.n_examples} examples: F(w) = {self.fun:.6g}, lower bound "
                f"{self.lower_bound:.6g}, gap {self.gap:.3g}; {kind}")

    __repr__ = __str__


def fingerprint_of(risk):
    """Return the fingerprint of a risk as an integer; None if it has none or raises an error."""
    try:
        fingerprint = getattr(risk, "fingerprint", None)
    except Exception:       # an oracle of the user may fail after the run
        return None
    if fingerprint is None or (isinstance(fingerprint, (int, np.integer)) and not isinstance(fingerprint, bool)):
        return None if fingerprint is None else int(fingerprint)
    return crc32(repr(fingerprint).encode())


def load_certificate(path: Source) -> Certificate:
    """Reads what `Certificate.save` wrote.

    Raises
    ------
    StateError
        If it is not such a file, or holds numbers that no certificate has. `pb.verify` checks whether the claims are
        true.
    """
    with refusing(f"{name_of(path)}: not a certificate saved by pybundle", StateError):
        header, arrays = read_archive(path, FORMAT, VERSION)
        kinds: Any = {"masses": Labellings, "points": Points, "beta": Multipliers}  # a key is an array of its kind only
        kind = ({None: None} | {one.kind: one for one in kinds.values()})[header.get("evidence")]
        w, has = arrays.pop("w"), {name: header.get(f"has_{name}") for name in ("penalty", "rows", "limits")}
        limits = Limits.from_arrays(arrays, kinds) if has["limits"] else None
        columns = arrays.pop("shift_columns", None)
        shift = None if columns is None else Shift(columns, header.get("shift"))
        found = Certificate(w=w, shift=shift, phi=arrays.pop("phi"), nonneg=arrays.pop("nonneg", None),
                            messages=arrays.pop("messages", None),
                            evidence=None if kind is None else kind.from_arrays(arrays), limits=limits,
                            penalty=ProvenPenalty.from_arrays(arrays) if has["penalty"] else None,
                            rows=Rows.from_arrays(arrays, len(w)) if has["rows"] else None,
                            **{name: header.get(name) for name in IN_HEADER})
        if arrays:
            raise ValueError(f"unknown array {min(arrays)!r:.40}")
        found.check()
        return found


def _check_number(name, value, low):
    if type(value) not in (int, float) or not (np.isfinite(value) and value >= low and abs(value) <= LARGEST**2):
        raise ValueError(f"{name} must be a finite number{'' if low == -np.inf else f' >= {low:g}'}, got {value!r:.40}")
