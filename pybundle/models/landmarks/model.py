"""Landmarks in images: scores of the appearance at each landmark, and of the relative positions along a tree.

    <w, Psi(x, y)> = sum_j <w_j, f(x, y_j)> - sum over edges (i, j) of a_x u^2 + b_x u + a_y v^2 + b_y v,

(u, v) = (y_j - y_i - anchor_j) / spread_j is the displacement of landmark j from the position that landmark i predicts,
in units of its spread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...core.exceptions import InputTypeError, ParameterError
from ...core.types import Array, Data, Floats
from ...core.validation import check_flag, check_number, check_vector, real_numbers
from ...features.boxes import check_boxes, check_shape
from ...oracles._tree import GridTree
from ...oracles.tree import check_parents
from ..base import StructuredModel
from ..batch_oracle import BatchOracle
from .oracle import LandmarksOracle, positions_of, round_pixels


class Landmarks(StructuredModel):
    """Positions (x, y) of L landmarks in images of one size; pairs of landmarks are tied along a tree.

    An example is an image as the descriptor wants it, a labelling an array (L, 2) of whole pixels, column first.
    True positions may be real numbers: they are rounded to the nearest pixel. The loss is

        loss(y, y') = unit / (L size(y)) sum_j |y_j - y'_j|,

    with distances in pixels and size(y) the length of the yardstick, so that it does not depend on the scale.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns of the images.
    parents : array_like of int, shape (L,)
        Parent of every landmark, -1 for the root.
    descriptor : pb.features.CodeWindows or pb.features.MapFeatures
        Appearance: indicators of codes in windows around a position, or any features of the position.
    boxes : array_like of int, shape (L, 4), optional
        Search box (x_0, y_0, width, height) of every landmark; the whole image without.
    anchors : array_like, shape (L, 2), optional
        Expected displacement (x, y) from the parent, 0 without. The row of the root is not used.
    spreads : array_like, shape (L, 2), optional
        Unit of the displacement from the anchor, 1 without; about its standard deviation is good.
    yardstick : pair of lists of landmarks, optional
        size(y) is the distance between the centres of the two groups; 1 pixel without.
    unit : float, default 1
        Loss of a mean deviation as long as the yardstick; 100 counts per cent.
    nonneg : bool, default True
        Keep the curvatures a_x, a_y at or above 0. Decoding is exact for any sign.

    Attributes
    ----------
    dim : int
        Weights of the landmarks one after another as the descriptor orders them, then a_x, b_x, a_y, b_y of every
        landmark but the root, in the order of landmarks.

    Notes
    -----
    Decoding: scores of all positions, then max-sum with distance transforms, O(positions) an edge (Felzenszwalb,
    Huttenlocher 2005). Loss and features as in the landmark detector of Uricar, Franc, Hlavac 2012. The log-loss
    (`loss="logistic"` of `pb.risks.Structured`) has marginals in O(positions (rows + columns)) an edge; it leaves the
    deviation out.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> rng = np.random.default_rng(0)
    >>> left = rng.integers(3, 7, (20, 2))      # of two landmarks, near each other
    >>> Y = np.stack([left, left + rng.integers(4, 7, (20, 2))], axis=1)
    >>> images = rng.integers(0, 255, (20, 16, 16)).astype(np.uint8)
    >>> maps = pb.features.lbp_maps(images, margin=3)
    >>> features = pb.features.CodeWindows([[5, 5]], 3)
    >>> model = pb.models.Landmarks.from_examples((16, 16), [-1, 0], Y, features)
    >>> result = pb.minimize(pb.risks.Structured(model, maps, Y), lam=0.1)
    >>> model.decode(result.x, maps[0]).shape, result.success
    ((2, 2), True)
    """

    shape: tuple[int, int]
    parents: Array
    boxes: Array
    anchors: Array
    spreads: Array
    yardstick: Any

    def __init__(self, shape: tuple[int, int], parents: ArrayLike, descriptor: Any, *, boxes: ArrayLike | None = None,
                 anchors: ArrayLike | None = None, spreads: ArrayLike | None = None, yardstick: Any = None,
                 unit: float = 1.0, nonneg: bool = True) -> None:
        self.shape = check_shape(shape)
        self.parents, self._order = check_parents(parents)
        L = len(self.parents)
        if isinstance(descriptor, type) or not all(callable(getattr(descriptor, name, None))
                                                   for name in ("bind", "check", "sizes")):
            raise InputTypeError("descriptor must be a pb.features.CodeWindows or MapFeatures, got "
                                 f"{descriptor!r:.60}")
        self.descriptor = descriptor
        rows, columns = self.shape
        self.boxes = check_boxes([(0, 0, columns, rows)] * L if boxes is None else boxes, self.shape, L)
        descriptor.check(self.shape, self.boxes)
        self.anchors = _check_pairs("anchors", anchors, 0.0, L)
        self.spreads = _check_pairs("spreads", spreads, 1.0, L)
        if not (self.spreads > 0.0).all():
            raise ParameterError(f"spreads must be positive, got {self.spreads.min():g}")
        self.yardstick = None if yardstick is None else _check_yardstick(yardstick, L)
        self.unit: float = check_number("unit", unit, low=0.0, strict=True)
        self.n_landmarks = L
        self.children: Array = np.flatnonzero(self.parents >= 0)
        self.n_appearance: int = int(np.sum(descriptor.sizes(L)))
        self.dim: int = self.n_appearance + 4 * len(self.children)
        self.nonneg = None
        check_flag("nonneg", nonneg)
        if nonneg and len(self.children):
            self.nonneg = np.zeros(self.dim, dtype=bool)
            self.nonneg[self.n_appearance:].reshape(-1, 4)[:, [0, 2]] = True

    @classmethod
    def from_examples(cls, shape: tuple[int, int], parents: ArrayLike, Y: Data, descriptor: Any, *, margin: float = 1,
                      **options: Any) -> Landmarks:
        """Build a model with boxes, anchors and spreads from known positions.

        Parameters
        ----------
        Y : sequence of array_like, shape (L, 2)
            True positions; boxes are their smallest ones, `margin` pixels wider on every side, anchors the means and
            spreads the standard deviations of displacements, at least half a pixel.
        options
            Further parameters of `Landmarks`.
        """
        shape = check_shape(shape)
        parents, _ = check_parents(parents)
        points = positions_of(Y, len(parents))
        pixels = np.floor(points + 0.5).astype(int)
        outside = ((pixels < 0) | (pixels >= shape[::-1])).any(axis=2)
        if outside.any():
            i, j = np.unravel_index(int(np.argmax(outside)), outside.shape)
            raise ParameterError(f"Y[{i}][{j}] must lie in the image, column 0..{shape[1] - 1} and row "
                                 f"0..{shape[0] - 1}, got ({points[i, j, 0]:g}, {points[i, j, 1]:g}); a position "
                                 "has its column first")
        low = np.maximum(pixels.min(axis=0) - margin, 0)
        high = np.minimum(pixels.max(axis=0) + margin, (shape[1] - 1, shape[0] - 1))
        moves = points - points[:, np.maximum(parents, 0)]
        return cls(shape, parents, descriptor, boxes=np.hstack([low, high - low + 1]), anchors=moves.mean(axis=0),
                   spreads=np.maximum(moves.std(axis=0), 0.5), **options)

    def joint_feature(self, x: Any, y: Any) -> Floats:
        bound = self.descriptor.bind(_one(x), self.shape, self.boxes)
        positions = self.check_positions(positions_of([y], self.n_landmarks))
        feature = np.zeros(self.dim)
        bound.add(np.zeros(1, dtype=np.intp), positions, np.ones((1, self.n_landmarks)), feature[:self.n_appearance])
        feature[self.n_appearance:] = self.deformation(positions)[0]
        return feature

    def loss(self, y: Any, y_hat: Any) -> float:
        points, guess = (positions_of([z], self.n_landmarks, name) for z, name in ((y, "y"), (y_hat, "y_hat")))
        return float(self.deviation(round_pixels(points), round_pixels(guess), self.weights_of_loss(points))[0])

    def decode(self, w: Array, x: Any) -> Array:
        return self.decode_batch(w, _one(x))[0]

    def loss_augmented_decode(self, w: Array, x: Any, y: Any) -> Array:
        return self._decode(w, _one(x), [y], True)[0]

    def oracle(self, X: Data, Y: Data) -> BatchOracle:
        return LandmarksOracle(self, X, Y)

    def decode_batch(self, w: Array, X: Data) -> Array:
        """Return the best positions in all images of X (as `oracle` takes them), shape (n, L, 2)."""
        n = len(X)
        return self._decode(w, X, np.broadcast_to(self.boxes[:, :2], (n, self.n_landmarks, 2)), False)

    def _decode(self, w, X, Y, loss):
        oracle, w = LandmarksOracle(self, X, Y, known=loss), check_vector("w", w, self.dim)
        return oracle.solve_batch(np.arange(oracle.n_examples), oracle.prepare(w), loss=loss).labellings

    def weights_of_loss(self, points: Array) -> Floats:
        """Return unit / (L size(y)) of every example, from true positions (n, L, 2)."""
        n = len(points)
        sizes = np.ones(n)
        if self.yardstick is not None:
            first, second = (points[:, group].mean(axis=1) for group in self.yardstick)
            sizes = np.linalg.norm(first - second, axis=1)
            if not (sizes > 0.0).all():
                raise ParameterError(f"yardstick must have a positive length, but in Y[{int(np.argmin(sizes))}] the "
                                     "centres of its two groups coincide")
        return self.unit / (self.n_landmarks * sizes)

    @property
    def units_of_costs(self) -> Floats:
        """spread^2 and spread of both axes, shape (L - 1, 4)."""
        units = np.repeat(self.spreads[self.children], 2, axis=1)
        units[:, [0, 2]] **= 2
        return units

    @staticmethod
    def deviation(truth: Any, positions: Array, weights: Any) -> Floats:
        """Return the losses (n,) of whole positions (n, L, 2)."""
        return weights * np.linalg.norm(positions - truth, axis=2).sum(axis=1)

    def deformation(self, positions: Array) -> Floats:
        """Return the features (n, 4 (L - 1)) of the edges, signed so that larger weights cost more."""
        j = self.children
        u = (positions[:, j] - positions[:, self.parents[j]] - self.anchors[j]) / self.spreads[j]
        return -np.stack([u[..., 0] ** 2, u[..., 0], u[..., 1] ** 2, u[..., 1]], axis=-1).reshape(len(positions), -1)

    def tree(self, w: Array) -> GridTree:
        """Return the decoder for the deformation weights in w."""
        costs = np.zeros((self.n_landmarks, 4))
        costs[self.children] = w[self.n_appearance:].reshape(-1, 4) / self.units_of_costs
        origins = self.boxes[:, :2]
        anchors = self.anchors + origins[np.maximum(self.parents, 0)] - origins
        return GridTree(self._order, self.parents, *np.ascontiguousarray(self.boxes[:, :1:-1].T), costs, anchors)

    def check_positions(self, points: Array, name: str = "y") -> Array:
        """Return whole positions (n, L, 2) as int32; ParameterError if one is outside its search box."""
        pixels = round_pixels(points)
        low = self.boxes[:, :2]
        outside = ~((pixels >= low) & (pixels < low + self.boxes[:, 2:])).all(axis=2)
        if outside.any():
            i, j = np.unravel_index(int(np.argmax(outside)), outside.shape)
            x, y, width, height = self.boxes[j].tolist()
            raise ParameterError(f"{name}[{i}][{j}] = ({points[i, j, 0]:g}, {points[i, j, 1]:g}) must lie in the "
                                 f"search box of landmark {j}, x {x}..{x + width - 1}, y {y}..{y + height - 1}; "
                                 "enlarge the box or drop the image")
        return pixels.astype(np.int32)


def _one(x):
    return x[None] if isinstance(x, np.ndarray) else [x]


def _check_pairs(name, value, default, n_landmarks):
    if value is None:
        return np.full((n_landmarks, 2), default)
    pairs = real_numbers(f"{name} must be real numbers", value)
    if pairs.shape != (n_landmarks, 2) or not np.isfinite(pairs).all():
        raise ParameterError(f"{name} must be finite with shape (n_landmarks, 2) = ({n_landmarks}, 2), got shape "
                             f"{pairs.shape}")
    return pairs


def _check_yardstick(yardstick, n_landmarks):
    try:
        first, second = (np.asarray(group, dtype=np.intp).ravel() for group in yardstick)
    except (TypeError, ValueError) as problem:
        raise ParameterError(f"yardstick must be a pair of lists of landmarks, got {yardstick!r}") from problem
    both = np.concatenate([first, second])
    if len(first) == 0 or len(second) == 0 or both.min() < 0 or both.max() >= n_landmarks:
        raise ParameterError(f"yardstick must hold two lists of landmarks 0..{n_landmarks - 1}, got {yardstick!r}")
    return first, second
