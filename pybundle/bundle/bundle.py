"""The bundle: stored planes of all parts, their Gram matrix and their age.

A plane bounds the risk R, not the objective, so a bundle is valid for every lam. `H = A A^T` is updated and never
computed again: appending k planes to n costs one product of `2 k n dim` flops, and dropping planes copies rows.

A constraint w_k >= 0 is stored like a plane, as the row `-w_k <= 0`: it has slope -e_k, offset 0 and the number -1 - k
in place of a part. Its multiplier is nonnegative but belongs to no simplex; all other operations treat it as a plane.
Row k of other linear constraints `<a_k, w> <= u_k` has slope a_k and offset -u_k. A bundle has constraints of one kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..core.archive import name_of, read_archive, refusing, write_archive
from ..core.exceptions import InputTypeError, ParameterError, StateError
from ..core.kept import check_array
from ..core.plane import Planes
from ..core.rounding import UNIT
from ..core.sparse import check_sparse
from ..core.types import Array, Floats, PathLike
from ..core.validation import (
    bool_array,
    check_choice,
    check_count,
    check_indices,
    check_integer,
    check_shape,
    integer_array,
    is_scalar,
    shown,
)
from ._dense import DensePlanes
from ._sparse import SparsePlanes
from .saved import FORMAT, VERSION, contents, fill
from .sizes import SPARSE_BELOW, estimate_bytes


def _column(name, doc=None):
    """Return a property: a column of the table of planes, as far as it is in use."""
    def column(self) -> Array:
        return self._columns[name][:self.n_planes]

    return property(column, doc=doc)


class Bundle:
    """Planes `offsets[j] + <a_j, w> <= R_p(w)` with p = parts[j], and `H[i, j] = <a_i, a_j>`.

    Parameters
    ----------
    dim, n_parts : int
    storage : {"auto", "dense", "sparse"}
        "auto" decides at the first `append`: sparse if less than 10 % of the entries are non-zero.

    Attributes
    ----------
    n_planes : int
    offsets : ndarray, shape (n_planes,)
    parts : ndarray of int32, shape (n_planes,)
        The part of every plane, and -1 - k for constraint k.
    H : ndarray, shape (n_planes, n_planes)
        A view of a larger array: each row is contiguous, but the distance of rows exceeds n_planes.
    beta : ndarray, shape (n_planes,)
        Multipliers of the last master solution, from which the next master starts; 0 for planes added since.
    idle : ndarray of int, shape (n_planes,)
        Number of master solutions in a row in which the multiplier was 0.
    centre : ndarray, shape (dim,), or None
        Point whose inner products with the planes are kept in `products`.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.bundle import Bundle
    >>> from pybundle.core.plane import Planes
    >>> bundle = Bundle(dim=2, n_parts=1)
    >>> bundle.append(Planes(np.array([1.0]), np.array([1.0]), np.array([[3.0, 4.0]])))
    >>> bundle.n_planes, bundle.H.tolist()
    (1, [[25.0]])
    """

    def __init__(self, dim: int, n_parts: int, storage: str = "auto") -> None:
        self.dim: int = check_count("dim", dim)
        self.n_parts: int = check_count("n_parts", n_parts)
        self.storage: str = check_choice("storage", storage, ("auto", "dense", "sparse"))
        self._room: int | None = None           # the number of planes passed to `reserve`
        self._store: Any = None if storage == "auto" else self._new_store(storage == "sparse")
        self.n_planes: int = 0
        self._gram = np.empty((0, 0))
        self._columns: dict[str, Array] = {
            "offsets": np.empty(0), "parts": np.empty(0, dtype=np.int32), "beta": np.empty(0),
            "idle": np.empty(0, dtype=np.int64), "products": np.empty(0), "origins": np.empty(0, dtype=np.int64)}
        self.centre: Any = None

    def _new_store(self, sparse):
        return SparsePlanes(self.dim) if sparse else DensePlanes(self.dim, self._room or 32)

    def reserve(self, n_planes: int) -> None:
        """Allocate memory for `n_planes` dense planes and their Gram matrix at once; growing would leave some unused.

        Stored planes move to the new memory. If the machine has too little memory, the method does nothing.
        """
        n_planes = check_integer("n_planes", n_planes, low=1)
        try:
            np.empty(estimate_bytes(self.dim, n_planes), dtype=np.uint8)
        except (MemoryError, ValueError):       # NumPy raises ValueError for sizes that no machine has
            return
        self._room = n_planes
        if self.n_planes:
            self.__setstate__(self.__getstate__() | {"room": n_planes})

    @property
    def H(self) -> Floats:
        return self._gram[:self.n_planes, :self.n_planes]

    offsets: Floats = _column("offsets")
    parts: Array = _column("parts")
    beta: Floats = _column("beta")
    idle: Array = _column("idle")
    origins: Array = _column(
        "origins", "Index of the point of each plane in the `Record` of a run; -1 for planes without a point.")
    products: Floats = _column("products", "`<a_j, centre>` for every plane, once `move_centre` has set one.")

    def move_centre(self, w: ArrayLike, products: ArrayLike | None = None) -> None:
        """Make w the centre; a caller that has the inner products of the stored planes with w passes `products`."""
        known = self.dot(w) if products is None else check_shape("products", products, (self.n_planes,))
        self.centre = w
        self.products[:] = known

    @property
    def slope_bytes(self) -> int:
        """Bytes of slopes in use."""
        return 0 if self._store is None else self._store.nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of slopes and Gram matrix in use."""
        return self.slope_bytes + 8 * self.n_planes**2

    @property
    def is_sparse(self) -> bool:
        """Whether slopes are stored as CSR."""
        return self._store is not None and self._store.is_sparse

    def append(self, planes: Planes, slack: bool | ArrayLike = False, parts: ArrayLike | None = None,
               inner: ArrayLike | None = None) -> None:
        """Add one plane for each part (row p belongs to part p, or to `parts[p]`).

        Exact copies of a stored plane are left out. In the parts with `slack` (bool or shape (P,)) planes with slope 0
        and offset <= 0 are left out, too, because the zero plane lies above them. The caller must have checked that all
        numbers are finite. Cost: one GEMM of `2 dim n_planes P` flops, unless the products of the new planes with the
        stored ones and with each other are passed as `inner`.
        """
        slopes, offsets, slack, parts, inner = self._check(planes, slack, parts, inner)
        if self._store is None:
            self._store = self._new_store(Planes(offsets, offsets, slopes).density() < SPARSE_BELOW)
        first, last = self.n_planes, self.n_planes + len(offsets)
        self._grow(last)
        self._store.append(slopes)
        self._columns["offsets"][first:last] = offsets
        self._columns["parts"][first:last] = parts
        self._columns["beta"][first:last] = 0.0
        self._columns["idle"][first:last] = 0
        self._columns["origins"][first:last] = planes.origin
        if inner is None:
            inner = self._store.inner(first)
        self._gram[first:last, :last] = inner
        self._gram[:first, first:last] = inner[:, :first].T
        self.n_planes = last
        if self.centre is not None:
            self.products[first:] = self.dot(self.centre, first)
        useless = (self.H.diagonal()[first:] == 0.0) & (offsets <= 0.0) & slack
        useless |= self._copies(first)
        if useless.any():
            self.drop(first + np.flatnonzero(useless))

    def _check(self, planes, slack, parts, inner):
        """Return the arguments of `append` as arrays of matching shapes."""
        if not isinstance(planes, Planes):
            raise InputTypeError(f"planes must be Planes, got {type(planes).__name__}")
        offsets, slopes = check_shape("offsets", planes.offsets, (np.size(planes.offsets),)), planes.slopes
        n = len(offsets)
        if not sp.issparse(slopes):
            slopes = check_shape("slopes", slopes, (n, self.dim))
        elif check_sparse("slopes", slopes).shape != (n, self.dim) or slopes.dtype.kind not in "biuf":
            raise ParameterError(f"slopes must have shape {(n, self.dim)}, one row an offset, got {slopes.shape} of "
                                 f"{slopes.dtype}")
        parts = np.arange(n) if parts is None else integer_array("parts", parts)
        if parts.ndim != 1 or (parts.size and not -2**31 <= parts.min() <= parts.max() < self.n_parts):
            raise ParameterError(f"parts must be a vector of integers below {self.n_parts}, negative for constraints, "
                                 f"got {shown(parts)}")
        if len(parts) != n:
            raise ParameterError(f"parts must have {n} entries, one an offset, got {len(parts)}")
        slack = bool_array("slack", slack, () if is_scalar(slack) else (n,))
        if inner is not None:
            inner = check_shape("inner", inner, (n, self.n_planes + n))
        check_integer("origin", planes.origin, low=-1)
        return slopes, offsets, slack, parts, inner

    def new_constraints(self, numbers: ArrayLike) -> Array:
        """Return the numbers of those constraints that are not stored yet."""
        numbers = check_indices("numbers", numbers, 2**31 - 1)
        return np.setdiff1d(numbers, -1 - self.parts[self.parts < 0]) if len(numbers) else numbers

    def append_signs(self, coordinates: ArrayLike) -> None:
        """Add the constraints `w_k >= 0` of those coordinates k that have none yet."""
        coordinates = self.new_constraints(check_indices("coordinates", coordinates, self.dim))
        if len(coordinates) == 0:
            return
        n = len(coordinates)
        rows = sp.csr_array((np.full(n, -1.0), (np.arange(n), coordinates)), shape=(n, self.dim))
        zeros, inner = np.zeros(n), None
        if self._store is not None and not self.is_sparse:      # a product with -e_k is minus one entry of a slope
            inner = np.concatenate([0.0 - self._store.columns(coordinates).T, np.eye(n)], axis=1)
        self.append(Planes(zeros, zeros, rows if self.is_sparse else rows.toarray()), parts=-1 - coordinates,
                    inner=inner)

    def drop_constraints(self) -> None:
        """Drop all constraints."""
        if (self.parts < 0).any():
            self.drop(np.flatnonzero(self.parts < 0))

    def append_flat(self, offsets: ArrayLike) -> None:
        """Add the plane `offsets[p] + <0, w>` to every part of finite offset."""
        offsets = check_shape("offsets", offsets, (self.n_parts,))
        if self._store is None:
            self._store = self._new_store(False)
        for p in np.flatnonzero(np.isfinite(offsets)):
            self._push(p, np.zeros(self.dim), float(offsets[p]), np.zeros(self.n_planes), 0.0)

    def _push(self, part, slope, offset, row, norm2):
        """Add one plane, given its inner products `row` with the others and its squared norm."""
        j = self.n_planes
        self._grow(j + 1)
        self._store.append(slope[None, :])
        self._gram[j, :j] = self._gram[:j, j] = row
        self._gram[j, j] = norm2
        self.n_planes += 1
        self.offsets[j], self.parts[j], self.beta[j], self.idle[j], self.origins[j] = offset, part, 0.0, 0, -1
        self.products[j] = 0.0 if self.centre is None else slope @ self.centre

    def _copies(self, first):
        """Return which planes from `first` on equal an older plane of their part, and set the age of the older to 0.

        The same labelling gives the same slope to the last bit. The Gram matrix only finds candidates: its rounding
        errors hide distances up to about 1e-7, so the slopes of candidates are compared themselves.
        """
        H, parts, offsets = self.H, self.parts, self.offsets
        norms = H.diagonal()
        rounding = (self.dim + 8) * 2.0**-52 * norms[first:]
        same = np.abs(H[:first, first:] - norms[first:]) <= rounding
        if same.any():
            same &= np.abs(norms[:first, None] - norms[first:]) <= rounding
            same &= parts[:first, None] == parts[first:]
            same &= np.abs(offsets[:first, None] - offsets[first:]) <= 1e-14 * np.abs(offsets[first:])
            for i, j in zip(*same.nonzero(), strict=True):
                same[i, j] = self._store.equal(i, first + j)
            self.idle[:first][same.any(axis=1)] = 0
        return same.any(axis=0)

    def _grow(self, n):
        if n <= len(self._gram):
            return
        size = max(n, 32, len(self._gram) * 3 // 2) if self._room is None else max(n, self._room)
        gram = np.empty((size, size))
        gram[:self.n_planes, :self.n_planes] = self.H
        self._gram = gram
        for name, column in self._columns.items():
            grown = np.zeros(size, dtype=column.dtype)
            grown[:self.n_planes] = column[:self.n_planes]
            self._columns[name] = grown

    def drop(self, indices: ArrayLike) -> None:
        """Remove planes; planes from the end take their places, so the order changes."""
        indices = check_indices("indices", indices, self.n_planes)
        if len(indices) == 0:
            return
        order = survivors(self.n_planes, indices)
        moved = np.flatnonzero(order != np.arange(len(order)))
        for k in moved:                      # move rows first, and then columns
            self._gram[k, :self.n_planes] = self._gram[order[k], :self.n_planes]
        for k in moved:
            self._gram[:len(order), k] = self._gram[:len(order), order[k]]
        self._store.keep(order)
        for column in self._columns.values():
            column[moved] = column[order[moved]]
        self.n_planes = len(order)

    def settle(self, beta: ArrayLike) -> None:
        """Store the multipliers of a master solution; the age `idle` of planes with multiplier 0 grows by one."""
        beta = check_shape("beta", beta, (self.n_planes,))
        idle = self.idle
        self.beta[:] = beta
        idle += 1
        idle[beta > 0.0] = 0

    def prune(self, max_idle: int) -> None:
        """Drop planes whose multiplier was 0 in more than `max_idle` master solutions in a row."""
        old = (self.idle > check_integer("max_idle", max_idle)).nonzero()[0]
        if len(old):
            self.drop(old)

    def shrink_to(self, n_planes: int) -> Floats:
        """Reduce the bundle to `n_planes` planes, or to the fewest that still prove the lower bound of `beta`.

        First the planes that were idle longest are dropped. Then the support of each part is replaced by its aggregate
        `(sum beta_j b_j, sum beta_j a_j) / sum beta_j` with multiplier `sum beta_j` (Kiwiel 1983). Constraints are
        dropped last. Without sign constraints the bound stays the same, without other linear constraints it falls.

        Returns
        -------
        ndarray, shape (P,)
            Bound on the norm of the rounding error of each part's aggregate slope. The offsets of aggregates are
            lowered by their own rounding errors.
        """
        n_planes = check_integer("n_planes", n_planes, low=0)
        excess, errors = self.n_planes - n_planes, np.zeros(self.n_parts)
        if excess <= 0:
            return errors
        idle = np.flatnonzero(self.beta == 0.0)
        idle = idle[np.argsort(-self.idle[idle], kind="stable")][:excess]
        if len(idle):
            self.drop(idle)
        if self.n_planes > n_planes:
            self._aggregate(n_planes, errors)
        if self.n_planes > n_planes:
            signs = np.flatnonzero(self.parts < 0)
            self.drop(signs[np.argsort(self.beta[signs], kind="stable")][:self.n_planes - n_planes])
        return errors

    def _aggregate(self, n_planes, errors):
        sizes = np.bincount(self.parts[(self.beta > 0.0) & (self.parts >= 0)], minlength=self.n_parts)
        for p in np.argsort(-sizes, kind="stable"):
            if self.n_planes <= n_planes or sizes[p] < 2:
                break
            support = np.flatnonzero((self.parts == p) & (self.beta > 0.0))
            total = self.beta[support].sum()
            weights = np.zeros(self.n_planes)
            weights[support] = self.beta[support] / total
            slope, offset = self._store.combine(weights), float(weights @ self.offsets)
            # relative rounding error of both sums; the weights sum to 1 up to the rounding of `total`
            rounding = 1.01 * (2.0 * len(support) + 4.0) * UNIT
            offset -= rounding * float(weights @ np.abs(self.offsets))
            errors[p] = rounding * float(weights @ np.sqrt(self.H.diagonal()))
            # weights @ H @ weights is not used for the squared norm: rounding might make it negative
            norm2, row = float(slope @ slope), (self.H @ weights)[survivors(self.n_planes, support)]
            self.drop(support)              # before `_push`, because a full bundle has no room for another plane
            self._push(p, slope, offset, row, norm2)
            self.beta[-1] = total

    def combine(self, beta: ArrayLike) -> tuple[Floats, float]:
        """Return the sums `phi = sum_j beta_j a_j`, shape (dim,), and `sum_j beta_j b_j` over planes of parts only."""
        beta = check_shape("beta", beta, (self.n_planes,))
        if self._store is None:
            return np.zeros(self.dim), 0.0
        beta = np.where(self.parts >= 0, beta, 0.0)
        return self._store.combine(beta), float(beta @ self.offsets)

    def dot(self, w: ArrayLike, first: int = 0) -> Floats:
        """Return `<a_j, w>` for the planes from `first` on."""
        w, first = check_shape("w", w, (self.dim,)), check_integer("first", first, low=0, high=self.n_planes)
        return np.empty(0) if self._store is None else self._store.dot(w, first)

    def last_entries(self) -> Floats:
        """Return the last entry of every slope, shape (n_planes,)."""
        return self.dot(np.append(np.zeros(self.dim - 1), 1.0))

    def weighted_gram(self, weights: ArrayLike) -> Floats:
        """Return `A diag(weights) A^T`; it is cheap if most weights are 0, or if most are equal."""
        weights = check_shape("weights", weights, (self.dim,))
        if self._store is None:
            return np.empty((0, 0))
        base = float(np.max(weights, initial=0.0))
        others, some = np.flatnonzero(weights != base), np.flatnonzero(weights)
        if len(some) <= len(others):
            base, others = 0.0, some
        columns = self._columns_of(others)
        gram = (columns * (weights[others] - base)) @ columns.T
        return np.ascontiguousarray((gram.toarray() if sp.issparse(gram) else gram) + base * self.H)

    def _columns_of(self, coordinates):
        """Return `A[:, coordinates]`, dense or CSR like the store."""
        if not self.is_sparse:
            return self._store.columns(coordinates)
        arrays = self._store.arrays()
        parts = tuple(arrays[f"slopes_{name}"] for name in ("data", "indices", "indptr"))
        return sp.csr_array(parts, shape=(self.n_planes, self.dim))[:, coordinates]

    def model(self, products: Array, slack: bool | ArrayLike) -> Floats:
        """Return the cutting-plane model `max_j b_j + <a_j, w>` of every part, from `products[j] = <a_j, w>`.

        Parts with `slack` have the zero plane, too. Other parts have the model minus infinity if they have no planes.
        """
        products = check_shape("products", products, (self.n_planes,))
        out = np.where(check_shape("slack", slack, (self.n_parts,)) != 0.0, 0.0, -np.inf)
        planes = self.parts >= 0
        np.maximum.at(out, self.parts[planes], (self.offsets + products)[planes])
        return out

    def copy(self) -> Bundle:
        """Return an independent bundle with the same planes, without a centre."""
        return self._restored(*contents(self))

    def __getstate__(self) -> Any:
        # the compiled store cannot be pickled, so its arrays are, as in `save`
        header, arrays = contents(self)
        return {"arrays": arrays, "header": header, "is_chosen": self._store is not None, "room": self._room,
                "centre": self.centre, "products": None if self.centre is None else self.products}

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(self._restored(state["header"], state["arrays"], state["room"]).__dict__)
        if self._store is None and state["is_chosen"]:
            self._store = self._new_store(state["header"]["sparse"])
        self.centre = state["centre"]
        if self.centre is not None:
            check_array("centre", self.centre, (self.dim,))
            check_array("products", state["products"], (self.n_planes,))
            self.products[:] = state["products"]

    @classmethod
    def _restored(cls, header, arrays, room=None):
        bundle = cls(header["dim"], header["n_parts"], header["storage"])
        bundle._room = room
        fill(bundle, header, arrays)
        return bundle

    def save(self, path: PathLike) -> None:
        """Write one `.npz` without pickled objects, all of it or nothing; raises StateError if that fails."""
        try:
            write_archive(path, FORMAT, VERSION, *contents(self))
        except (OSError, InputTypeError) as problem:
            raise StateError(f"path must name a file that can be written, got {path!r} ({problem}); choose another "
                             "path") from problem

    @classmethod
    def load(cls, path: PathLike) -> Bundle:
        """Read a file that `save` wrote; raises StateError for any other file."""
        with refusing(f"{name_of(path)}: not a bundle saved by pybundle", StateError):
            return cls._restored(*read_archive(path, FORMAT, VERSION))


def survivors(n, dropped):
    """Return the old numbers of the remaining rows when rows from the end replace dropped ones: `order[k] >= k`.

    >>> survivors(5, [1]).tolist()
    [0, 4, 2, 3]
    """
    alive = np.ones(n, dtype=bool)
    alive[dropped] = False
    n_left = int(alive.sum())
    order = np.arange(n_left)
    order[~alive[:n_left]] = n_left + np.flatnonzero(alive[n_left:])[::-1]
    return order
