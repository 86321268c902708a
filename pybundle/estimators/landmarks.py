"""Landmark detection in grey images."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError, StateError
from ..core.ragged import array_of
from ..core.types import Callbacks
from ..core.validation import check_finite, check_integer, real_array
from ..features import CodeWindows, lbp_maps
from ..models import Landmarks
from ..models.landmarks.oracle import positions_of, round_pixels
from ..solvers.method import Method
from .structured import StructuredEstimator

LARGEST_SIDE = 1 << 24
"""Largest side of an image in pixels; sums of a few such numbers do not overflow."""


class LandmarkDetector(StructuredEstimator):
    """Landmarks in images of one size, tied along a tree, trained to a certified gap.

        F(w) = |w|^2 / (2 C) + sum_i c_i max_y [ deviation(y_i, y) + <w, Psi(x_i, y) - Psi(x_i, y_i)> ],

    Psi being local binary patterns in a window around every landmark, and displacements between landmarks, whose
    quadratic weights stay at or above 0 (`pb.models.Landmarks`).

    X is an array (n, H, W) or a list of grey images, y an array (n, L, 2) of positions, column first.

    Parameters
    ----------
    {C}
    parents : sequence of int, optional
        Parent of every landmark, -1 for the root; by default all hang on landmark 0.
    windows : sequence of (int, int)
        Rows and columns of the window that a landmark sees, for every scale: map s looks at blocks of 2^s pixels.
    box_margin : int
        Pixels by which the search box of a landmark exceeds its positions in the training images.
    yardstick : pair of lists of landmarks, optional
        The deviation is measured against the distance between the centres of these groups; in pixels without.
    unit : float
        Loss of a mean deviation as long as the yardstick; 100 counts per cent.
    descriptor : pb.features.CodeWindows or MapFeatures, optional
        Features of your own; X is then as it takes it, and `shape` must be given.
    shape : (int, int), optional
        Rows and columns of the images, with `descriptor`.
    {parameters}

    Attributes
    ----------
    coef_ : ndarray, shape (dim,)
    shape_ : ndarray, shape (2,)
    boxes_ : ndarray, shape (L, 4)
        Search boxes: x, y, width, height.
    anchors_, spreads_ : ndarray, shape (L, 2)
        Means and standard deviations of displacements from the parent.
    {certificate}

    Notes
    -----
    `predict` returns positions (n, L, 2), whole pixels; `score` is minus the mean deviation from the pixel
    nearest to the true position.

    Examples
    --------
    >>> import numpy as np
    >>> import pybundle as pb
    >>> rng = np.random.default_rng(0)
    >>> left = rng.integers(3, 7, (30, 2))      # of two bright pixels, near each other
    >>> Y = np.stack([left, left + rng.integers(4, 7, (30, 2))], axis=1)
    >>> X = np.zeros((30, 16, 16), dtype=np.uint8)
    >>> for image, points in zip(X, Y):
    ...     image[points[:, 1], points[:, 0]] = 250
    >>> detector = pb.LandmarkDetector(C=10.0, windows=[(3, 3)], tol=1e-2)
    >>> detector = detector.fit(X[:20], Y[:20])
    >>> detector.predict(X[20:]).shape, detector.score(X[20:], Y[20:]) > -1.0
    ((10, 2, 2), True)
    """

    def __init__(self, C: float = 1.0, *, parents: ArrayLike | None = None, windows: Any = ((9, 9),),
                 box_margin: int = 2, yardstick: Any = None, unit: float = 1.0, descriptor: Any = None,
                 shape: tuple[int, int] | None = None, tol: float = 0.001, atol: float | None = None,
                 method: str | Method = "auto", max_iter: int | None = None, time_limit: float | None = None,
                 n_jobs: int | None = None, random_state: Any = None, warm_start: Any = False, verbose: int = 0,
                 callback: Callbacks = None) -> None:
        self._take_arguments(locals())

    def _survey(self, X, y, weights):
        """Return the landmarks, and the shape of the images."""
        if self.descriptor is None:
            return y, _images(X).shape[1:]
        if self.shape is None:
            raise ParameterError("shape must be given with descriptor, (rows, columns) of the images")
        return y, self.shape

    def _learn(self, surveys):
        shape = surveys[0][1]
        for _, other in surveys:
            if tuple(other) != tuple(shape):
                raise ParameterError(f"X must hold images of one size, got {tuple(shape)} and {tuple(other)}")
        y = [points for block, _ in surveys for points in block]
        model = Landmarks.from_examples(shape, self._parents(len(np.asarray(y[0]))), y, self._descriptor(),
                                        yardstick=self.yardstick, unit=self.unit,
                                        margin=check_integer("box_margin", self.box_margin, low=0))
        return {"shape_": np.array(model.shape), "boxes_": model.boxes, "anchors_": model.anchors,
                "spreads_": model.spreads}

    def _encode_pairs(self, X, y, fitted):
        return X if self.descriptor is not None else self._maps(_images(X)), y

    def _check_state(self):
        for name in ("shape_", "boxes_"):
            values = getattr(self, name)
            if values.dtype.kind != "i" or not 0 <= values.min() <= values.max() < LARGEST_SIDE:
                raise StateError(f"{name} must be pixels 0..{LARGEST_SIDE - 1}")
        super()._check_state()

    def _parents(self, n_landmarks):
        return [-1] + [0] * (n_landmarks - 1) if self.parents is None else self.parents

    def _descriptor(self):
        if self.descriptor is not None:
            return self.descriptor
        windows = np.asarray(self.windows)
        if windows.ndim != 2 or windows.shape[1] != 2 or windows.dtype.kind not in "iu" or windows.min() < 0:
            raise ParameterError(f"windows must be pairs (rows, columns) >= 0, got {self.windows!r}")
        # how far a window at a border pixel reaches beyond the image
        reach = max((int(size) << s) // 2 + (1 << s) for s, sizes in enumerate(windows.tolist()) for size in sizes)
        return CodeWindows(windows, reach)

    def _make_model(self, fitted):
        return Landmarks(tuple(fitted.shape_.tolist()), self._parents(len(fitted.boxes_)), self._descriptor(),
                         boxes=fitted.boxes_, anchors=fitted.anchors_, spreads=fitted.spreads_,
                         yardstick=self.yardstick, unit=self.unit)

    def _encode(self, X):
        if self.descriptor is not None:
            return X
        images = _images(X)
        if images.shape[1:] != tuple(self.shape_):
            raise ParameterError(f"X must hold images of shape {tuple(self.shape_.tolist())}, as in the fit, got "
                                 f"{images.shape[1:]}")
        return self._maps(images)

    def _maps(self, images):
        descriptor = self._descriptor()
        return lbp_maps(images, descriptor.n_maps, descriptor.margin)

    def _predict(self, model, x):
        return np.asarray(self._labels(model, x))

    def _labels(self, model, x):
        return model.decode_batch(self.coef_, x)

    def _count(self, X, y):
        model, found = self.model_, self.predict(X)
        points = positions_of(y, model.n_landmarks)
        losses = model.deviation(round_pixels(points), found, model.weights_of_loss(points))
        return -losses, np.ones(len(losses))


def _images(X):
    arrays = [array_of(x, f"X[{i}]") for i, x in enumerate(X)]
    try:
        images = real_array(np.stack(arrays))
    except (TypeError, ValueError) as problem:
        raise ParameterError(f"X must hold grey images of one size: {problem}") from problem
    if images.ndim != 3:
        raise ParameterError(f"X must hold grey images, shape (n, H, W), got {images.shape}")
    return check_finite("X", images)
