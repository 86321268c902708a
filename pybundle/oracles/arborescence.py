"""Decoders of spanning arborescences (dependency trees): the best tree, and the marginals of arcs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.ragged import run_shards
from ..core.types import Array, Floats
from ..core.validation import check_flag, integer_array, real_numbers
from ._arborescence import as_matrix, max_arborescence, solve_trees, why_no_tree
from ._matrix_tree import solve_marginals

__all__ = ["arborescence_marginals", "arborescence_marginals_batch", "max_arborescence", "max_arborescence_batch"]


def max_arborescence_batch(scores: ArrayLike, lengths: ArrayLike, single_root: bool = False,
                           executor: Any = None) -> tuple[Array, Floats]:
    """Find the best dependency trees of many sentences.

    Parameters
    ----------
    scores : array_like, shape (sum of (lengths + 1) ** 2,)
        The matrices of `max_arborescence`, row by row, one sentence after another.
    lengths : array_like of int, shape (n_sentences,)
        Number of words of every sentence, at least 1.
    single_root : bool, default False
    executor : object with ``map(function, items)``, optional
        Runs shards of sentences; the result does not depend on it.

    Returns
    -------
    heads : ndarray of int32, shape (sum of (lengths + 1),)
        Heads of one sentence after another; each begins with the -1 of its root.
    values : ndarray, shape (n_sentences,)

    Raises
    ------
    ParameterError, InputTypeError
        As for one sentence, naming it.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.oracles import max_arborescence_batch
    >>> one, two = np.array([[0.0, 7.0], [0.0, 0.0]]), np.arange(9.0)
    >>> heads, values = max_arborescence_batch(np.concatenate([one.ravel(), two]), [1, 2])
    >>> heads.tolist(), values.tolist()
    ([-1, 0, -1, 2, 0], [7.0, 9.0])
    """
    single_root = check_flag("single_root", single_root)
    scores, lengths, starts, words = _check_batch(scores, lengths)
    heads, values = np.empty(words[-1], np.int32), np.empty(len(lengths))
    failed = []

    def solve(first, last):
        failed.append(solve_trees(scores, starts, words, single_root, heads, values, first, last))

    run_shards(solve, (lengths + 1) ** 2, executor)
    _refuse_failed(failed, scores, lengths, starts, single_root)
    return heads, values


def arborescence_marginals(scores: ArrayLike, single_root: bool = False) -> tuple[Floats, float]:
    """Compute the probability of every arc, and the log partition function, of trees with weights exp(score).

        p(tree) = exp(sum_m scores[heads[m], m] - log_partition),   marginals[h, m] = p(heads[m] = h)

    Parameters
    ----------
    scores : array_like, shape (n + 1, n + 1)
        As for `max_arborescence`.
    single_root : bool, default False

    Returns
    -------
    marginals : ndarray, shape (n + 1, n + 1)
        Columns 1..n sum to 1; column 0 and the diagonal are 0.
    log_partition : float

    Raises
    ------
    ParameterError, InputTypeError
        As for `max_arborescence`.

    Notes
    -----
    Matrix-Tree theorem (Koo et al. 2007), O(n^3): the Laplacian is factorised without subtractions (Grassmann, Taksar,
    Heyman 1985), so log Z loses no digits in sharp distributions, and errors of marginals sum to at most about
    n^4 2^-53. If weights underflow, logarithms are used.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.oracles import arborescence_marginals
    >>> marginals, log_partition = arborescence_marginals(np.zeros((3, 3)))
    >>> marginals.round(3).tolist(), round(float(np.exp(log_partition)), 6)
    ([[0.0, 0.667, 0.667], [0.0, 0.0, 0.333], [0.0, 0.333, 0.0]], 3.0)
    """
    matrix = as_matrix(scores)
    if matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise ParameterError(f"scores must have shape (n + 1, n + 1) for n >= 1 words, got {matrix.shape}")
    n = len(matrix)
    marginals, value = _marginals(matrix.ravel(), np.array([n - 1]), np.zeros(1, np.int64), np.array([0, n]),
                                  check_flag("single_root", single_root), None, "")
    return marginals.reshape(n, n), float(value[0])


def arborescence_marginals_batch(scores: ArrayLike, lengths: ArrayLike, single_root: bool = False,
                                 executor: Any = None) -> tuple[Floats, Floats]:
    """Compute the arc marginals of many sentences; arguments as for `max_arborescence_batch`.

    Returns
    -------
    marginals : ndarray, shape (sum of (lengths + 1) ** 2,)
    log_partitions : ndarray, shape (n_sentences,)

    Raises
    ------
    ParameterError, InputTypeError
        As for one sentence, naming it.

    Examples
    --------
    >>> import numpy as np
    >>> from pybundle.oracles import arborescence_marginals_batch
    >>> marginals, log_partitions = arborescence_marginals_batch(np.zeros(4 + 9), [1, 2])
    >>> np.exp(log_partitions).round(6).tolist()
    [1.0, 3.0]
    """
    single_root = check_flag("single_root", single_root)
    scores, lengths, starts, words = _check_batch(scores, lengths)
    return _marginals(scores, lengths, starts, words, single_root, executor)


def _marginals(scores, lengths, starts, words, single_root, executor, where=None):
    marginals, values = np.empty(len(scores)), np.empty(len(lengths))
    failed = []

    def solve(first, last):
        failed.append(solve_marginals(scores, starts, words, single_root, marginals, values, first, last))

    for k in np.flatnonzero(~(scores <= 1e300)):        # the kernel does not check for NaN, which comparisons ignore
        i = int(np.searchsorted(starts, k, side="right")) - 1
        h, m = divmod(int(k - starts[i]), int(lengths[i]) + 1)
        if m != 0 and h != m:
            _refuse_failed([i], scores, lengths, starts, single_root, where)
    run_shards(solve, lengths * (lengths + 1) ** 2, executor)
    _refuse_failed(failed, scores, lengths, starts, single_root, where)
    return marginals, values



def _check_batch(scores, lengths):
    """Return flat scores, lengths, the start of every matrix, and the start of the heads of every sentence."""
    lengths = integer_array("lengths", lengths)
    if lengths.ndim != 1:
        raise ParameterError(f"lengths must have shape (n_sentences,), got {lengths.shape}")
    lengths = lengths.astype(np.int64)
    wrong = np.flatnonzero((lengths < 1) | (lengths >= 30000))
    if len(wrong):
        raise ParameterError(f"lengths[{wrong[0]}] must be a number of words from 1 to 29999, got {lengths[wrong[0]]}")
    scores = real_numbers(f"scores must be a vector of real numbers, got {type(scores).__name__}", scores)
    ends = np.cumsum((lengths + 1) ** 2)
    total = int(ends[-1]) if len(ends) else 0
    if scores.shape != (total,):
        raise ParameterError(f"scores must have shape ({total},), the sum of (lengths + 1) ** 2, got {scores.shape}")
    return scores, lengths, ends - (lengths + 1) ** 2, np.concatenate([[0], np.cumsum(lengths + 1)])


def _refuse_failed(failed, scores, lengths, starts, single_root, where=None):
    """Raise the error of the first sentence that has no result."""
    i = min((i for i in failed if i >= 0), default=None)
    if i is not None:
        n = int(lengths[i]) + 1
        matrix = scores[starts[i]:starts[i] + n * n].reshape(n, n)
        raise why_no_tree(matrix, single_root, f"sentence {i}: " if where is None else where)
