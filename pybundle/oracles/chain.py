"""Decoders of chains, with a label at every position: best labelling, k best labellings, marginals.

    score(y) = start[y_1] + sum_t unary[t, y_t] + sum_{t > 1} transition[y_{t-1}, y_t] + end[y_T]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..core.exceptions import ParameterError
from ..core.ragged import check_offsets, cut, run_shards
from ..core.types import Array, Floats
from ..core.validation import check_flag, check_integer, check_shape
from ._chain import ChainTables, k_best_items


class Marginals(NamedTuple):
    """The distribution p(y) = exp(score(y)) / Z of one chain.

    Attributes
    ----------
    log_partition : float
        log Z.
    unary : ndarray, shape (T, K)
        P(y_t = k).
    pairwise : ndarray, shape (T - 1, K, K)
        P(y_t = j, y_{t+1} = k).
    entropy : float
        -sum_y p(y) log p(y).
    """

    log_partition: float
    unary: np.ndarray
    pairwise: np.ndarray
    entropy: float


class BatchMarginals(NamedTuple):
    """The distributions of n chains with N positions in total.

    Attributes
    ----------
    log_partitions : ndarray, shape (n,)
    unary : ndarray, shape (N, K)
    pairwise : ndarray, shape (K, K)
        Sum over positions and, times `weights`, over chains.
    entropies : ndarray, shape (n,), or None
    """

    log_partitions: np.ndarray
    unary: np.ndarray
    pairwise: np.ndarray
    entropies: np.ndarray | None


def viterbi(unary: ArrayLike, transition: ArrayLike, start: ArrayLike | None = None,
            end: ArrayLike | None = None) -> tuple[Array, float]:
    """Find the labelling of largest score (Viterbi 1967).

    Parameters
    ----------
    unary : array_like, shape (T, K)
        T >= 1, any K >= 1. A score of -inf forbids the label.
    transition : array_like, shape (K, K)
        ``transition[j, k]`` is the score of label j followed by k.
    start, end : array_like, shape (K,), optional
        Scores of the first and of the last label; 0 by default.

    Returns
    -------
    labelling : ndarray of int32, shape (T,)
        The lexicographically smallest of the best (if their scores round to the same number).
    value : float
        Its score; -inf if every labelling is forbidden.

    Notes
    -----
    O(T K^2) time, O(T K) memory. Labels are vectorised; no back pointers are stored, the row of each label on the
    path is searched again.

    Examples
    --------
    >>> from pybundle.oracles import viterbi
    >>> viterbi([[1.0, 0.0], [0.0, 0.0], [0.0, 0.5]], [[2.0, 0.0], [0.0, 1.0]])
    (array([0, 0, 0], dtype=int32), 5.0)
    """
    unary, tables = _check_one(unary, transition, start, end)
    labels, values = viterbi_unchecked(unary, _whole(unary), tables)
    return labels, float(values[0])


def viterbi_batch(unary: ArrayLike, offsets: ArrayLike, transition: ArrayLike, start: ArrayLike | None = None,
                  end: ArrayLike | None = None, executor: Any = None) -> tuple[Array, Floats]:
    """Run `viterbi` on many chains.

    Parameters
    ----------
    unary : array_like, shape (N, K)
        Scores of all positions, one chain after another.
    offsets : int array, shape (n + 1,)
        Chain i has the rows ``offsets[i]:offsets[i + 1]``; none may be empty.
    transition, start, end
        As for `viterbi`, shared by all chains.
    executor : object with ``map(function, items)``, optional
        Runs shards, which depend on the data alone, so that results are bit-identical for any executor.

    Returns
    -------
    labellings : ndarray of int32, shape (N,)
    values : ndarray, shape (n,)

    Examples
    --------
    >>> from pybundle.oracles import viterbi_batch
    >>> unary, transition = [[1.0, 0.0], [0.0, 3.0], [0.0, 0.5]], [[2.0, 0.0], [0.0, 1.0]]
    >>> viterbi_batch(unary, [0, 2, 3], transition)
    (array([0, 1, 1], dtype=int32), array([4. , 0.5]))
    """
    unary, tables, offsets = _check_batch(unary, offsets, transition, start, end)
    return viterbi_unchecked(unary, offsets, tables, executor)


def viterbi_unchecked(unary: Floats, offsets: Array, tables: Any, executor: Any = None) -> tuple[Array, Floats]:
    """Run `viterbi_batch` on checked arguments, with `ChainTables`: checks take most of the time of one sentence."""
    labels, values = np.empty(len(unary), dtype=np.int32), np.empty(len(offsets) - 1)

    def shard(first, last):
        if tables.viterbi_items(unary, offsets, first, last, labels, values) >= 0:
            _refuse_infinity("unary", unary)

    run_shards(shard, np.diff(offsets) * tables.n_labels, executor)
    return labels, values


def k_best_viterbi(unary: ArrayLike, transition: ArrayLike, k: int, start: ArrayLike | None = None,
                   end: ArrayLike | None = None) -> tuple[Array, Floats]:
    """Find the k labellings of largest score, best first.

    Parameters
    ----------
    unary, transition, start, end
        As for `viterbi`.
    k : int
        Number of labellings; fewer are returned if fewer have a score above -inf.

    Returns
    -------
    labellings : ndarray of int32, shape (k', T)
        Labellings of equal score are in lexicographic order.
    values : ndarray, shape (k',)

    Notes
    -----
    O(T K (K + k log K)) time: the sorted lists of suffixes of all next labels are merged by a heap.
    O(T K k) memory.

    Examples
    --------
    >>> from pybundle.oracles import k_best_viterbi
    >>> unary, transition = [[1.0, 0.0], [0.0, 3.0]], [[2.0, 0.0], [0.0, 1.0]]
    >>> labellings, values = k_best_viterbi(unary, transition, 3)
    >>> labellings.tolist(), values.tolist()
    ([[0, 1], [1, 1], [0, 0]], [4.0, 4.0, 3.0])
    """
    unary, tables = _check_one(unary, transition, start, end)
    _refuse_infinity("unary", unary)
    k = check_integer("k", k, low=1)
    if k > np.iinfo(np.int32).max:
        raise ParameterError(f"k must be below 2^31, got {k}")
    n_labellings = tables.n_labels ** min(len(unary), 64)
    counts, labellings, values = k_best_items(unary, _whole(unary), tables, min(k, n_labellings))
    return labellings.reshape(counts[0], len(unary)), values


def forward_backward(unary: ArrayLike, transition: ArrayLike, start: ArrayLike | None = None,
                     end: ArrayLike | None = None) -> Marginals:
    """Compute log partition, marginals and entropy of p(y) proportional to exp(score(y)).

    Parameters
    ----------
    unary, transition, start, end
        As for `viterbi`; at least one labelling must be allowed.

    Returns
    -------
    Marginals
        Named tuple of `log_partition`, `unary`, `pairwise`, `entropy`.

    Notes
    -----
    If the scores of neighbouring positions spread by at most 300, scaled probabilities are used (Rabiner 1989, V.A):
    K exponentials and 3 K^2 multiplications a position, small relative error of every marginal. Otherwise, or if
    transitions are forbidden, logarithms are used: O(K^2) exponentials a position. `pairwise` takes O(T K^2) memory;
    `forward_backward_batch` returns only its sum.

    Examples
    --------
    >>> from pybundle.oracles import forward_backward
    >>> result = forward_backward([[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]])
    >>> round(result.log_partition, 12) == round(result.entropy, 12), result.unary.tolist()
    (True, [[0.5, 0.5], [0.5, 0.5]])
    """
    unary, tables = _check_one(unary, transition, start, end, marginals=True)
    T, K = unary.shape
    marginals, pairs = np.empty((T, K)), np.zeros((T - 1, K, K))
    value, entropy = np.empty(1), np.empty((1, 2))
    if tables.marginal_items(unary, _whole(unary), 0, 1, np.ones(1), marginals, value, entropy, pairs) >= 0:
        _refuse_infinity("unary", unary)
    if value[0] == -np.inf:
        raise ParameterError("every labelling is forbidden: each has a score of -inf; allow at least one")
    return Marginals(float(value[0]), marginals, pairs, float(entropy[0, 0]))


def forward_backward_batch(unary: ArrayLike, offsets: ArrayLike, transition: ArrayLike, start: ArrayLike | None = None,
                           end: ArrayLike | None = None, weights: ArrayLike | None = None, entropy: bool = False,
                           executor: Any = None) -> BatchMarginals:
    """Run `forward_backward` on many chains and sum their pairwise marginals.

    Parameters
    ----------
    unary, offsets, transition, start, end, executor
        As for `viterbi_batch`.
    weights : array_like, shape (n,), optional
        Factor of each chain in the sum of the pairwise marginals; 1 by default.
    entropy : bool, default False
        Whether to return entropies, for about a quarter more time.

    Returns
    -------
    BatchMarginals
        Named tuple of `log_partitions` (n,), `unary` (N, K), not weighted, `pairwise` (K, K), `entropies` (n,) or None.

    Raises
    ------
    ParameterError, InputTypeError
        If an argument has a wrong shape or type, weights are not finite, or every labelling of a chain is forbidden.

    Notes
    -----
    Time is that of `forward_backward`, O(N K^2), without its memory for pairs of positions.

    Examples
    --------
    >>> from pybundle.oracles import forward_backward_batch
    >>> transition = [[0.0, 0.0], [0.0, 0.0]]
    >>> result = forward_backward_batch([[0.0, 0.0]] * 3, [0, 2, 3], transition)
    >>> result.pairwise.round(12).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    unary, tables, offsets = _check_batch(unary, offsets, transition, start, end, marginals=True)
    n, (N, K) = len(offsets) - 1, unary.shape
    weights = np.ones(n) if weights is None else check_shape("weights", weights)
    if weights.shape != (n,) or not np.isfinite(weights).all():
        raise ParameterError(f"weights must be finite numbers of shape (n,) = ({n},), one for each chain, got "
                             + (f"shape {weights.shape}" if weights.shape != (n,) else "NaN or infinity"))
    check_flag("entropy", entropy)
    marginals, values, entropies = np.empty((N, K)), np.empty(n), np.empty((n, 2)) if entropy else None
    work = np.diff(offsets) * tables.n_labels
    sums = {first: np.zeros((1, K, K)) for first, _ in cut(work)}

    def shard(first, last):
        if tables.marginal_items(unary, offsets, first, last, weights, marginals, values, entropies,
                                 sums[first]) >= 0:
            _refuse_infinity("unary", unary)

    run_shards(shard, work, executor)
    forbidden = np.flatnonzero(values == -np.inf)
    if len(forbidden):
        raise ParameterError(f"every labelling of item {forbidden[0]} is forbidden: each has a score of -inf; "
                             f"allow at least one")
    pairwise = np.zeros((K, K))
    for part in sums.values():                    # in the order of the data, for bit-identical sums
        pairwise += part[0]
    return BatchMarginals(values, marginals, pairwise, entropies[:, 0].copy() if entropies is not None else None)


def _whole(unary):
    return np.array([0, len(unary)], dtype=np.int64)


def _check_batch(unary, offsets, transition, start, end, marginals=False):
    unary, tables = _check_scores(unary, transition, start, end, marginals)
    offsets = check_offsets(offsets, len(unary))
    empty = np.flatnonzero(offsets[1:] == offsets[:-1])
    if len(empty):
        i = int(empty[0])
        raise ParameterError(f"item {i} is empty (offsets[{i}] = offsets[{i + 1}] = {offsets[i]}), but a chain must "
                             f"have at least one position; leave the item out")
    return unary, tables, offsets


def _check_one(unary, transition, start, end, marginals=False):
    unary, tables = _check_scores(unary, transition, start, end, marginals)
    if len(unary) == 0:
        raise ParameterError("unary must have at least one position, got an empty chain; leave it out")
    return unary, tables


def _check_scores(unary, transition, start, end, marginals=False):
    unary = check_shape("unary", unary)
    if unary.ndim != 2 or unary.shape[1] == 0:
        raise ParameterError(f"unary must have shape (positions, labels) with at least one label, got "
                             f"{unary.shape}")
    K = unary.shape[1]
    return unary, ChainTables(_matrix(transition, K), _boundary("start", start, K), _boundary("end", end, K),
                              marginals)


def _matrix(transition, K):
    transition = check_shape("transition", transition)
    if transition.shape != (K, K):
        raise ParameterError(f"transition must have shape (K, K) = ({K}, {K}), as unary has {K} labels, got "
                             f"{transition.shape}")
    return _refuse_infinity("transition", transition)


def _boundary(name, scores, K):
    if scores is None:
        return np.zeros(K)
    scores = check_shape(name, scores)
    if scores.shape != (K,):
        raise ParameterError(f"{name} must have shape (K,) = ({K},), one score for each label, got {scores.shape}")
    return _refuse_infinity(name, scores)


def _refuse_infinity(name, scores):
    """Return the scores, none of which may be NaN or +inf; -inf forbids a label or a pair."""
    wrong = np.argwhere(~(scores < np.inf))
    if len(wrong):
        place = wrong[0].tolist()
        raise ParameterError(f"{name} must be finite or -inf, got {name}{place} = {scores[tuple(place)]}")
    return scores
