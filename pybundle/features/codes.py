"""Descriptors made of codes 0..255 at every pixel: local binary patterns, and windows of indicators of the codes."""

import numpy as np

from ..core.checksum import checksum
from ..core.exceptions import InputTypeError, ParameterError
from ..core.ragged import Ragged, array_of, check_items
from ..core.validation import check_count, check_finite, check_integer, integer_array, real_numbers
from ._codes import CodeTemplates
from ._rows import Rows, RowSums, sum_rows
from .boxes import check_boxes, check_shape
from .examples import Examples


def lbp_maps(images, n_maps=1, margin=0):
    """Local binary patterns of images at every pixel and several scales.

    The code of a pixel has a bit for each of its eight neighbours, set if the neighbour is at least as bright.
    Map s compares means of blocks of 2^s x 2^s pixels, neighbours one block away; a block is named by its upper left
    pixel. Codes are taken at every pixel, so that the map of a window is the window of the map (Ojala et al. 1996;
    the pyramid of a patch as in Uricar, Franc, Hlavac 2012, is every 2^s-th entry of map s from the patch's corner).

    Parameters
    ----------
    images : array_like, shape (H, W) or (n, H, W)
    n_maps : int
        Scales s = 0..n_maps - 1.
    margin : int
        Rows and columns added on every side; border pixels are repeated outwards.

    Returns
    -------
    ndarray of uint8, shape (n_maps, H + 2 margin, W + 2 margin), or (n, ...)

    Examples
    --------
    >>> from pybundle.features import lbp_maps
    >>> lbp_maps([[0, 0, 0], [0, 5, 9], [0, 0, 0]])[0, 1].tolist()
    [255, 8, 8]
    """
    images = check_finite("images", real_numbers("images must be arrays of grey values", images))
    if images.ndim not in (2, 3) or 0 in images.shape[-2:]:
        raise ParameterError(f"images must have shape (H, W) or (n, H, W), got {images.shape}")
    margin = check_integer("margin", margin, low=0, high=LARGEST)
    stack = images[None] if images.ndim == 2 else images
    height, width = stack.shape[1] + 2 * margin, stack.shape[2] + 2 * margin
    n_maps = check_integer("n_maps", n_maps, low=1)
    if n_maps > max(height, width).bit_length():
        raise ParameterError(f"n_maps must leave blocks of 2^(n_maps - 1) pixels within {height} x {width} with the "
                             f"margin, got {n_maps}; {max(height, width).bit_length()} is the most")
    codes = np.zeros((len(stack), n_maps, height, width), dtype=np.uint8)
    for first in range(0, len(stack), 32):              # few images at a time, so that their sums stay in the cache
        for s in range(n_maps):
            _patterns(stack[first:first + 32], 1 << s, margin, codes[first:first + 32, s])
    return codes[0] if images.ndim == 2 else codes


def _patterns(stack, block, margin, codes):
    """Set in codes (n, height, width) the bits of the patterns that compare blocks of `block` x `block` pixels."""
    height, width = codes.shape[1:]
    # pad by the margin and a block; behind the image also by the rest of a block that begins at its last pixel
    room = (margin + block, margin + 2 * block - 1)
    sums = np.pad(stack, ((0, 0), room, room), mode="edge")
    for axis in (1, 2):
        sums = sum(np.take(sums, np.arange(k, sums.shape[axis] - block + 1 + k), axis) for k in range(block))
    centre = sums[:, block:block + height, block:block + width]
    for bit, (y, x) in enumerate(NEIGHBOURS):
        y, x = block * (1 + y), block * (1 + x)
        codes |= (sums[:, y:y + height, x:x + width] >= centre).view(np.uint8) << np.uint8(bit)


LARGEST = 1 << 10
"""Largest number of rows and columns of a window, and largest margin; larger numbers are refused as mistakes."""
NEIGHBOURS = ((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1))
"""(row, column) of the neighbour of bit 0..7."""


class CodeWindows:
    """Indicator features of the codes in a window around a position: feature (cell, code) is 1 if the cell has it.

    An image is a stack of maps of codes, as `lbp_maps` makes them; map s is looked at in steps of 2^s pixels.

    Parameters
    ----------
    windows : array_like of int, shape (n_maps, 2) or (n_landmarks, n_maps, 2)
        Rows and columns of the window in each map; 0 rows leave a map out.
    margin : int
        Margin of the maps, large enough for windows at the edges of the search boxes.

    Notes
    -----
    Images are kept as codes, one byte a pixel and map: 2287 images of 40 x 40 with margin 8 and 3 maps take 22 MB,
    where rows of indicators would take hundreds of times as much.
    """

    n_codes = 256

    def __init__(self, windows, margin=0):
        windows = integer_array("windows", windows)
        if windows.ndim not in (2, 3) or windows.shape[-1] != 2 or windows.size == 0 or windows.min() < 0 \
                or windows.max() > LARGEST:
            raise ParameterError(f"windows must hold rows and columns 0..{LARGEST} with shape (n_maps, 2) or "
                                 f"(n_landmarks, n_maps, 2), got shape {windows.shape}")
        self.windows, self.margin = windows.astype(np.int64), check_integer("margin", margin, low=0, high=LARGEST)
        self.n_maps = windows.shape[-2]

    def cells(self, n_landmarks):
        """Return for every landmark an int array (n_cells, 3): map, row and column from the position."""
        n_landmarks = check_integer("n_landmarks", n_landmarks, low=1, high=LARGEST)
        if self.windows.ndim == 3 and len(self.windows) != n_landmarks:
            raise ParameterError(f"windows must be given for {n_landmarks} landmarks, got {len(self.windows)}")
        windows = np.broadcast_to(self.windows, (n_landmarks, self.n_maps, 2))
        found = []
        for sizes in windows:
            cells = [np.empty((0, 3), dtype=np.int64)]
            for s, (rows, columns) in enumerate(sizes.tolist()):
                step = 1 << s
                # a block is numbered by its upper left pixel, and the window is centred at the position
                y, x = (step * np.arange(count) - (step * count - 1) // 2 for count in (rows, columns))
                grid = np.stack(np.meshgrid([s], y, x, indexing="ij"), axis=-1).reshape(-1, 3)
                cells.append(grid)
            found.append(np.concatenate(cells))
        return found

    def sizes(self, n_landmarks):
        """Number of weights of every landmark, shape (n_landmarks,)."""
        return np.array([self.n_codes * len(cells) for cells in self.cells(n_landmarks)])

    def bind(self, X, shape, boxes):
        """Bind the windows to maps X (n, n_maps, H + 2 margin, W + 2 margin), uint8, not copied if contiguous."""
        shape, margin = check_shape(shape), self.margin
        boxes = check_boxes(boxes, shape)
        wanted = (self.n_maps, shape[0] + 2 * margin, shape[1] + 2 * margin)
        if not isinstance(X, np.ndarray):
            X = [array_of(x, f"X[{i}]") for i, x in enumerate(check_items(X))]
            for i, x in enumerate(X):
                if x.shape != wanted:
                    raise ParameterError(f"X[{i}] must have shape (n_maps, H + 2 margin, W + 2 margin) = {wanted}, "
                                         f"got {x.shape}")
            X = np.stack(X)
        if X.dtype != np.uint8:
            raise InputTypeError(f"X must hold codes of dtype uint8, got {X.dtype}; see pb.features.lbp_maps")
        if X.shape[1:] != wanted:
            raise ParameterError(f"X must have shape (n, n_maps, H + 2 margin, W + 2 margin) = (n, {wanted[0]}, "
                                 f"{wanted[1]}, {wanted[2]}), got {X.shape}")
        X = np.ascontiguousarray(X)
        cells = self.cells(len(boxes))
        self.check(shape, boxes)
        flat = np.concatenate(cells)
        places = (flat[:, 0] * wanted[1] + flat[:, 1] + margin) * wanted[2] + flat[:, 2] + margin
        starts = np.concatenate([[0], np.cumsum([len(c) for c in cells])])
        return BoundWindows(X, starts, places, boxes, self.n_codes)

    def check(self, shape, boxes):
        """Raise ParameterError if a window, seen from some position of a box, leaves the maps."""
        shape = check_shape(shape)
        boxes, reach, worst = check_boxes(boxes, shape), 0, 0
        for j, (cells, (x, y, width, height)) in enumerate(zip(self.cells(len(boxes)), boxes, strict=True)):
            if len(cells) == 0:
                raise ParameterError(f"windows of landmark {j} must have at least one cell")
            low, high = cells[:, 1:].min(axis=0), cells[:, 1:].max(axis=0)
            out = max(-(y + low[0]), -(x + low[1]), y + height - 1 + high[0] - (shape[0] - 1),
                      x + width - 1 + high[1] - (shape[1] - 1))
            if out > self.margin:
                reach = max(reach, out)
                worst = j
        if reach:
            raise ParameterError(f"margin must be at least {reach}, got {self.margin}: a window of landmark {worst} "
                                 "leaves the maps; enlarge margin here and in lbp_maps, or shrink the search box")


class BoundWindows(CodeTemplates):
    """`CodeWindows` bound to the maps of n images: a descriptor of `Landmarks` returns an object with these methods."""

    def __init__(self, codes, starts, cells, boxes, n_codes):
        super().__init__(codes, starts, cells, boxes, n_codes)
        self.n_examples, self._codes = len(codes), codes
        self.norms = np.full(len(codes), np.sqrt(len(cells)))  # a labelling sets one indicator for each cell
        self.fingerprint = self.checksum()

    def checksum(self):
        """Recompute the fingerprint of the codes; it detects changes in place."""
        return checksum(self._codes)

    def prepare(self, W):
        """Return weights (sum of sizes,) for `maps`."""
        return np.ascontiguousarray(W)


class MapFeatures:
    """Features of single positions: an image is a matrix with a row for every pixel, row by row.

    Parameters
    ----------
    n_features : int
        Columns; every landmark has its own weight for each.

    Notes
    -----
    Rows may be float32, float64 or uint8, or CSR.
    """

    def __init__(self, n_features):
        self.n_features = check_count("n_features", n_features)

    def sizes(self, n_landmarks):
        """Number of weights of every landmark, shape (n_landmarks,)."""
        return np.full(check_integer("n_landmarks", n_landmarks, low=1, high=LARGEST), self.n_features)

    def check(self, shape, boxes):
        """Raise ParameterError if a box leaves the images."""
        check_boxes(boxes, check_shape(shape))

    def bind(self, X, shape, boxes):
        """Bind to X: an array (n, H W, n_features) or (n H W, n_features), a list of matrices, or a Ragged."""
        shape = check_shape(shape)
        return BoundFeatures(self, X, shape, check_boxes(boxes, shape))


class BoundFeatures:
    """`MapFeatures` bound to n images."""

    def __init__(self, features, X, shape, boxes):
        self._pixels = shape[0] * shape[1]
        if isinstance(X, np.ndarray):
            if X.ndim < 2 or X.shape[-1] != features.n_features:
                raise ParameterError(f"X must have {features.n_features} columns, got shape {X.shape}")
            X = X.reshape(-1, X.shape[-1])
        else:
            X = Ragged.of(X)
            wrong = np.flatnonzero(X.sizes != self._pixels)
            if len(wrong):
                raise ParameterError(f"X[{wrong[0]}] must have a row for each of the {shape[0]} x {shape[1]} pixels, "
                                     f"got {X.sizes[wrong[0]]}")
            X = X.values
        if X.shape[1] != features.n_features or X.shape[0] % self._pixels:
            raise ParameterError(f"X must have {self._pixels} rows for each image and {features.n_features} columns, "
                                 f"got shape {X.shape}")
        examples = Examples(X, name_of=lambda row: "X[{}], pixel {}".format(*divmod(row, self._pixels)))
        self.n_examples = examples.n_examples // self._pixels
        self._rows, self._width = examples.rows(len(boxes)), shape[1]
        places = [((y + np.arange(h))[:, None] * shape[1] + x + np.arange(w)).ravel() for x, y, w, h in boxes.tolist()]
        self._seen = np.unique(np.concatenate(places))
        self._where = [np.searchsorted(self._seen, place) for place in places]
        largest = examples.norms.reshape(self.n_examples, self._pixels).max(axis=1)
        self.norms = np.sqrt(len(boxes)) * largest
        self.fingerprint, self.checksum = examples.fingerprint, examples.checksum

    def prepare(self, W):
        """Return weights (sum of sizes,) packed for `maps`."""
        return self._rows.pack(W)

    def maps(self, rows, weights, out):
        """Set out (len(rows), positions of all boxes) to the scores."""
        n, L = len(rows), len(self._where)
        scores = np.empty((n * len(self._seen), L))
        self._rows.scores(weights, (rows[:, None] * self._pixels + self._seen).ravel(), scores)
        scores = scores.reshape(n, -1, L)
        first = 0
        for j, where in enumerate(self._where):
            out[:, first:first + len(where)] = scores[:, where, j]
            first += len(where)

    def add(self, rows, positions, scales, slope):
        """Add sum_ij scales[i, j] * features of image rows[i] at positions[i, j] of landmark j to the slope."""
        pixels = self._pixels_of(rows, positions)
        labels = np.broadcast_to(np.arange(positions.shape[1]), pixels.shape)
        self._rows.add(pixels.ravel(), labels.ravel(), scales.ravel(), slope)

    def planes(self, rows, positions, truth, rest):
        """Return a csr_array; row i: features of image rows[i] at positions[i] less those at truth[i], then rest[i]."""
        n, L = positions.shape[:2]
        size = L * self._rows.width
        pixels = np.stack([self._pixels_of(rows, positions), self._pixels_of(rows, truth)], axis=2)
        labels = np.broadcast_to(np.arange(L, dtype=np.int32)[:, None], pixels.shape)
        moved = np.where(pixels[..., :1] == pixels[..., 1:], 0.0, [1.0, -1.0])
        head = RowSums(self._rows, pixels.ravel(), labels.ravel(), moved.ravel(), 2 * L * np.arange(n + 1))
        if rest.shape[1] == 0:
            return sum_rows(size, head)
        behind = Rows((rest,), np.zeros(n), rest.shape[1], 1)
        tail = RowSums(behind, np.arange(n), np.zeros(n, np.int32), np.ones(n), np.arange(n + 1), size)
        return sum_rows(size + rest.shape[1], head, tail)

    def _pixels_of(self, rows, positions):
        pixels = rows[:, None] * self._pixels + positions[..., 1] * self._width + positions[..., 0]
        return pixels.astype(np.intp, copy=False)

    def add_expected(self, rows, coefs, slope):
        """Add sum_ip coefs[i, p] * features of image rows[i] at position p to the slope, p ordered as in `maps`."""
        places = np.concatenate([self._seen[where] for where in self._where])
        pixels = rows[:, None] * self._pixels + places
        labels = np.broadcast_to(np.repeat(np.arange(len(self._where)), list(map(len, self._where))), pixels.shape)
        self._rows.add(pixels.ravel(), labels.ravel(), np.ascontiguousarray(coefs).ravel(), slope)
