"""The certificate of a run: what it claims about F, and the evidence from which anybody can compute it again.

    upper side    F(w) <= fun + error                                               one pass over the data at w
    lower side    R(v) >= offset + <phi, v> for all v,  hence  min F >= lower_bound  multipliers of labellings or planes
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.archive import name_of, read_archive, refusing, write_archive
from ..core.exceptions import BundleError, InputTypeError, StateError
from ..core.object_graph import check_array
from ..core.ragged import Ragged

FORMAT, VERSION = "pybundle certificates", 1
NUMBERS = ("fun", "error", "lower_bound", "offset", "offset_error", "slope_error")


@dataclass(frozen=True, eq=False)
class Labellings:
    """Multipliers of labellings: `phi = sum_j masses[j] psi_j`, `offset = sum_j masses[j] loss_j`.

    Attributes
    ----------
    examples : intp array, shape (m,)
        The example of each labelling, ascending.
    labellings : ndarray, shape (m,), or Ragged of m arrays
        As the oracle of the risk names them.
    masses : ndarray, shape (m,)
        Multipliers >= 0; those of an example sum to at most its weight c_i. The truth has what they leave.
    """

    kind = "labellings"
    examples: np.ndarray
    labellings: np.ndarray | Ragged
    masses: np.ndarray

    @classmethod
    def of(cls, examples, labellings, masses, weights):
        """Evidence from multipliers of a run: labellings of mass 0 are left out, sums above a weight by rounding cut.

        `weights` (n,) are those of all examples. None where labellings are no numbers, which no file could hold.
        """
        kept = np.flatnonzero(masses > 0.0)
        kept = kept[np.argsort(examples[kept], kind="stable")]
        examples, masses = np.asarray(examples[kept], dtype=np.intp), masses[kept].astype(np.float64)
        try:
            items = _items(labellings, kept)
        except (BundleError, ValueError, TypeError):
            return None
        starts = np.flatnonzero(np.diff(examples, prepend=-1))
        counts = np.diff(starts, append=len(masses))
        sums = np.add.reduceat(masses, starts) if len(starts) else masses
        bounds, rounding = weights[examples[starts]], (counts + 8.0) * 2.0**-52
        cuts = np.where(counts == 1, np.minimum(bounds / np.maximum(sums, 1e-300), 1.0), np.where(
            sums > bounds * (1.0 - rounding), bounds / np.maximum(sums, 1e-300) * (1.0 - rounding), 1.0))
        masses = np.minimum(masses * np.repeat(cuts, counts), np.repeat(bounds, counts))
        return cls(examples, items, masses)

    def arrays(self):
        """What a file holds."""
        is_ragged = isinstance(self.labellings, Ragged)
        labels = {"labels": self.labellings.values, "label_offsets": self.labellings.offsets} if is_ragged else {
            "labels": self.labellings}
        return {"examples": self.examples, "masses": self.masses, **labels}

    @classmethod
    def from_arrays(cls, arrays):
        """What `arrays` gave; ValueError where it cannot be evidence."""
        examples, masses, labels = (arrays.pop(name) for name in ("examples", "masses", "labels"))
        m = len(masses)
        check_array("masses", masses, (m,), low=0.0)
        check_array("examples", examples, (m,), np.intp, 0)
        if (np.diff(examples) < 0).any():
            raise ValueError("examples must be ascending")
        if "label_offsets" in arrays:
            labels = Ragged(labels, arrays.pop("label_offsets"))
        if len(labels) != m:
            raise ValueError(f"there must be {m} labellings, as there are masses")
        return cls(examples, labels, masses)


@dataclass(frozen=True, eq=False)
class Points:
    """Weights of the planes that the risk has at some points.

    Attributes
    ----------
    points : ndarray, shape (k, dim)
    weights : ndarray, shape (k, P)
        Multiplier of the plane of each part at each point. Those of a part sum to at most 1 where its declared lower
        bound is finite: that bound has what they leave. Elsewhere they are divided by their sum.
    """

    kind = "points"
    points: np.ndarray
    weights: np.ndarray

    def arrays(self):
        """What a file holds."""
        return {"points": self.points, "weights": self.weights}

    @classmethod
    def from_arrays(cls, arrays):
        """What `arrays` gave; ValueError where it cannot be evidence."""
        points, weights = arrays.pop("points"), arrays.pop("weights")
        if points.ndim != 2 or weights.ndim != 2:
            raise ValueError("points and weights must be matrices")
        check_array("points", points, points.shape)
        check_array("weights", weights, (len(points), weights.shape[1]), low=0.0)
        return cls(points, weights)


@dataclass(frozen=True, eq=False)
class Certificate:
    """Claims about `F(w) = lam/2 |w|^2 + R(w)` (or R in a ball), with the evidence for them.

    Attributes
    ----------
    w : ndarray, shape (dim,)
        The point of the result.
    fun, error : float
        `F(w)` as computed, and a bound on its rounding error.
    lower_bound : float
        No value of F lies below, says the evidence. Where the best bound of the run rests on multipliers that were
        not kept it is the larger one, `result.lower_bound`.
    lam, radius : float or None
        One of both.
    nonneg : bool array, shape (dim,), or None
        Weights that must not be negative.
    divisor : int
        R is divided by this number: 1, or the number of examples in the scale "mean".
    offset, phi : float, ndarray (dim,)
        The aggregate plane, `R(v) >= offset + <phi, v>`, of the sum of all losses.
    offset_error, slope_error : float
        Bounds on their rounding errors, of phi in the Euclidean norm.
    risk, fingerprint : str, int or None
        Class of the risk, and its number of data, labels, weights and model, where it has one.
    n_examples : int
    evidence : Labellings, Points or None
        None: nothing was kept from which phi and offset could be computed again.

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
    evidence: Labellings | Points | None = None

    @property
    def gap(self):
        """`(fun + error - lower_bound) / |fun|`, 0 where both are equal."""
        difference = max(0.0, self.fun + self.error - self.lower_bound)
        return difference / abs(self.fun) if difference > 0.0 and self.fun != 0.0 else (
            0.0 if difference == 0.0 else float("inf"))

    def save(self, path):
        """Writes one `.npz` without pickled objects, all of it or nothing.

        Raises
        ------
        StateError
            Where the file cannot be written.
        """
        header = {name: getattr(self, name) for name in (
            *NUMBERS, "lam", "radius", "divisor", "risk", "fingerprint", "n_examples")}
        header["evidence"] = None if self.evidence is None else self.evidence.kind
        arrays = {"w": self.w, "phi": self.phi}
        if self.nonneg is not None:
            arrays["nonneg"] = self.nonneg
        if self.evidence is not None:
            arrays |= self.evidence.arrays()
        try:
            write_archive(path, FORMAT, VERSION, header, arrays)
        except (OSError, InputTypeError) as problem:
            raise StateError(f"path must name a file that can be written, got {path!r} ({problem}); choose another "
                             "path") from problem

    def __str__(self):
        kind = "no evidence" if self.evidence is None else f"evidence: {self.evidence.kind}"
        return (f"certificate of {self.risk} with {self.n_examples} examples: F(w) = {self.fun:.6g}, lower bound "
                f"{self.lower_bound:.6g}, gap {self.gap:.3g}; {kind}")

    __repr__ = __str__


def _items(labellings, kept):
    """Those labellings as an array of numbers, or as a `Ragged` of arrays."""
    if isinstance(labellings, np.ndarray) and labellings.ndim == 1 and labellings.dtype.kind in "biu":
        return labellings[kept]
    items = [np.asarray(labellings[j]) for j in kept.tolist()]
    if any(item.dtype.kind not in "biuf" for item in items):
        raise TypeError("labellings must be numbers")
    return Ragged.of(items, "labellings") if any(item.ndim for item in items) else np.array(items or np.empty(0, int))


def load_certificate(path):
    """Reads what `Certificate.save` wrote.

    Raises
    ------
    StateError
        Where it is not such a file, or holds numbers that no certificate has. Whether the claims are true,
        `pb.verify` tells.
    """
    with refusing(f"{name_of(path)}: not a certificate saved by pybundle", StateError):
        header, arrays = read_archive(path, FORMAT, VERSION)
        w, phi = arrays.pop("w"), arrays.pop("phi")
        check_array("w", w, (len(w),))
        check_array("phi", phi, w.shape)
        nonneg = arrays.pop("nonneg", None)
        if nonneg is not None and (nonneg.dtype != np.bool_ or nonneg.shape != w.shape):
            raise ValueError("nonneg must mark entries of w")
        numbers = {name: _number(header, name, name.endswith("error")) for name in NUMBERS}
        lam, radius = (None if header.get(name) is None else _number(header, name, True) for name in ("lam", "radius"))
        if (lam is None) == (radius is None) or not (lam or radius) > 0.0:
            raise ValueError("it must hold one of lam and radius, a number > 0")
        counts = {name: header.get(name) for name in ("divisor", "n_examples")}
        if not all(type(count) is int and count > 0 for count in counts.values()):
            raise ValueError("divisor and n_examples must be integers > 0")
        fingerprint, risk = header.get("fingerprint"), header.get("risk")
        if not isinstance(risk, str) or not (fingerprint is None or type(fingerprint) is int):
            raise ValueError("risk must be a name, fingerprint a number")
        evidence = {None: lambda arrays: None, "labellings": Labellings.from_arrays,
                    "points": Points.from_arrays}[header.get("evidence")](arrays)
        if arrays:
            raise ValueError(f"nobody knows its array {min(arrays)!r:.40}")
        return Certificate(w=w, phi=phi, nonneg=nonneg, lam=lam, radius=radius, risk=risk, fingerprint=fingerprint,
                           evidence=evidence, **numbers, **counts)


def _number(header, name, is_positive=False):
    value = header.get(name)
    if type(value) not in (int, float) or not np.isfinite(value) or (is_positive and value < 0.0):
        raise ValueError(f"{name} must be a finite number{' >= 0' if is_positive else ''}, got {value!r:.40}")
    return float(value)
