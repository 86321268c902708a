"""Loops over sentences: trees, their planes, and marginals of arcs."""

import numpy as np

from ...core.exceptions import NumericalError

from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from ...features._compiled_oracle cimport CompiledOracle
from ...features._plane_rows cimport PlaneRows
from ...oracles._arborescence cimport FOUND, max_tree, tree_scratch
from ...oracles._matrix_tree cimport tree_marginals
from ._arcs cimport Arcs, ArcWeights, is_wrong

cdef enum:
    # in longer sentences products of errors, about words^4 2^-44, are too large for the bound on errors of marginals
    MOST_WORDS = 500


cdef int best_moves(int n, const double* S, const int32_t* heads, bint single_root, int k, double* gain,
                    int32_t* words, int32_t* new_heads) noexcept nogil:
    """Find the k best trees that differ from the tree `heads` in the head of one word; return their number.

    A word can move to any head that is not below it in the tree. The second best of all trees may differ in more words,
    but these moves cost little, and callers need different good trees rather than the best ones.
    """
    cdef int m, h, a, q, found = 0
    cdef double difference
    for m in range(1, n):
        if single_root and heads[m] == 0:
            continue
        for h in range(1 if single_root else 0, n):
            difference = S[<Py_ssize_t>h * n + m] - S[<Py_ssize_t>heads[m] * n + m]
            if h == m or h == heads[m] or (found == k and not difference > gain[k - 1]):
                continue
            a = h
            while a > 0 and a != m:
                a = heads[a]
            if a == m:
                continue
            q = found if found < k else k - 1
            found = min(found + 1, k)
            while q > 0 and gain[q - 1] < difference:
                gain[q], words[q], new_heads[q] = gain[q - 1], words[q - 1], new_heads[q - 1]
                q -= 1
            gain[q], words[q], new_heads[q] = difference, m, h
    return found


cdef int check_weights(Arcs arcs, const double[::1] w) except -1:
    if w.shape[0] != arcs.dim:
        raise ValueError(f"w must have {arcs.dim} entries, got {w.shape[0]}")
    return 0


def solve_sentences(Arcs arcs, const Py_ssize_t[::1] rows, const double[::1] w, const int32_t[::1] truth,
                    bint single_root, int32_t[::1] heads, const int64_t[::1] offsets, double[::1] values,
                    const uint8_t[::1] loss=None, moves=None, const double[::1] scales=None,
                    const int32_t[::1] labels=None):
    """Find the best trees of the sentences `rows`.

    `truth` holds the codes of true heads and relations at `starts`, and `heads` receives the found codes at `offsets`.
    `loss`, if not None, says what makes each word wrong, see `_arcs.pxd`.
    Values are relative to the truth. `moves`, int32 (len(rows), k, 2), receives the k best moves of one word as pairs
    (word, code); word 0 means that there are no more. `scales` (n_groups,) multiply the weights of groups, which are
    the templates or given by `labels`, see `ArcWeights`.
    """
    cdef int32_t[:, :, ::1] moved
    cdef int32_t* first_move = NULL
    cdef int k = 0
    cdef ArcWeights at
    check_weights(arcs, w)
    if rows.shape[0] == 0:
        return
    if moves is not None and moves.size:
        moved = moves
        k, first_move = <int>moved.shape[1], &moved[0, 0, 0]
    at = ArcWeights(&w[0], NULL, NULL)
    if scales is not None:
        at.scales = &scales[0]
    if labels is not None:
        at.labels = &labels[0]
    with nogil:
        decode_trees(arcs, rows.shape[0], &rows[0], &at, &truth[0], first(loss), single_root, &offsets[0],
                     &heads[0], &values[0], k, first_move)


cdef inline const uint8_t* first(const uint8_t[::1] loss) noexcept nogil:
    return &loss[0] if loss is not None else NULL


cdef int decode_trees(Arcs arcs, Py_ssize_t n_rows, const Py_ssize_t* rows, const ArcWeights* at, const int32_t* truth,
                      const uint8_t* loss, bint single_root, const int64_t* offsets, int32_t* heads, double* values,
                      int k, int32_t* moves) except -1 nogil:
    """Find best trees of n_rows sentences, heads[offsets[j]:offsets[j + 1]], and values relative to the truth.

    `loss` may be NULL. If k > 0, moves (n_rows, k, 2) receives the best moves of one word, (word, code).
    """
    cdef Py_ssize_t j, i
    cdef int n, m, q, count, longest = longest_of(arcs, n_rows, rows)
    cdef const int32_t* own
    cdef const uint8_t* lost = NULL
    cdef int32_t* found
    cdef double best, total, top
    # one allocation: scores, scores of the true arcs, scratch of trees and of features, codes of arcs
    cdef double* S = <double*>malloc((sizeof(double) + sizeof(int32_t)) * longest * (longest + 1) + arcs.scratch()
                                     + tree_scratch(longest))
    cdef double* gain = <double*>malloc((sizeof(double) + 2 * sizeof(int32_t)) * (k + 1))
    cdef double* tops = S + <Py_ssize_t>longest * longest
    cdef char* trees = <char*>(tops + longest)
    cdef char* room = trees + tree_scratch(longest)
    cdef int32_t* codes = <int32_t*>(room + arcs.scratch())
    cdef int32_t* words = <int32_t*>(gain + k + 1)
    cdef int32_t* new_heads = words + k + 1
    try:
        if S == NULL or gain == NULL:
            no_memory(longest)
        for j in range(n_rows):
            i = rows[j]
            n = <int>(arcs.starts[i + 1] - arcs.starts[i])
            own = truth + arcs.starts[i]
            found = heads + offsets[j]
            arcs.score(i, at, S, room)
            if loss != NULL:
                lost = loss + arcs.starts[i]
            arcs.reduce(i, at.w, own, lost, False, S, codes, tops, room)
            if max_tree(n, S, single_root, <int*>found, &best, trees) != FOUND:
                refuse(i)
            if k > 0:
                count = best_moves(n, S, found, single_root, k, gain, words, new_heads)
                for q in range(count):
                    moves[2 * (j * k + q)] = words[q]
                    moves[2 * (j * k + q) + 1] = codes[<Py_ssize_t>new_heads[q] * n + words[q]]
            total = 0.0
            for m in range(1, n):
                top = S[<Py_ssize_t>found[m] * n + m] - tops[m]
                found[m] = codes[<Py_ssize_t>found[m] * n + m]
                if found[m] != own[m]:
                    total += top
            values[j] = total
    finally:
        free(S)
        free(gain)
    return 0


cdef int longest_of(Arcs arcs, Py_ssize_t n_rows, const Py_ssize_t* rows) noexcept nogil:
    """Return the number of rows, with the root, of the longest of the sentences `rows`."""
    cdef Py_ssize_t j
    cdef int longest = 0
    for j in range(n_rows):
        longest = max(longest, <int>(arcs.starts[rows[j] + 1] - arcs.starts[rows[j]]))
    return longest


cdef int no_memory(int longest) except -1 nogil:
    with gil:
        raise MemoryError(f"no memory for a sentence of {longest - 1} words")


cdef int refuse(Py_ssize_t i) except -1 nogil:
    with gil:
        raise NumericalError(f"sentence {i} has scores beyond the range of float64; rescale the features")


def add_trees(Arcs arcs, const Py_ssize_t[::1] rows, const int32_t[::1] truth, const int32_t[::1] heads,
              const int64_t[::1] offsets, const double[::1] scales, double[::1] slope, const uint8_t[::1] loss=None):
    """slope += sum_j scales[j] psi_j(heads_j); returns sum_j scales[j] times the number of wrong words.

    A true head -1 has no features. Without `loss` no word is wrong.
    """
    cdef Py_ssize_t j, i
    cdef int n, m, R = arcs.n_relations
    cdef int32_t h, g
    cdef double total = 0.0
    with nogil:
        for j in range(rows.shape[0]):
            i = rows[j]
            n = <int>(arcs.starts[i + 1] - arcs.starts[i])
            for m in range(1, n):
                h = heads[offsets[j] + m]
                g = truth[arcs.starts[i] + m]
                if h != g and scales[j] != 0.0:
                    if loss is not None:
                        total += scales[j] * is_wrong(h, g, R, loss[arcs.starts[i] + m])
                    arcs.add_arc(i, h // R, m, h % R, scales[j], &slope[0])
                    if g >= 0:
                        arcs.add_arc(i, g // R, m, g % R, -scales[j], &slope[0])
    return total


def tree_planes(Arcs arcs, const Py_ssize_t[::1] rows, const int32_t[::1] truth, const int32_t[::1] heads,
                const int64_t[::1] offsets, const uint8_t[::1] loss=None):
    """Return the numbers of wrong words, and psi_j(heads_j) as csr_array (len(rows), dim)."""
    cdef PlaneRows out = PlaneRows(arcs.dim, rows.shape[0])
    losses_array = np.empty(rows.shape[0])
    cdef double[::1] losses = losses_array
    if rows.shape[0]:
        with nogil:
            write_trees(arcs, rows.shape[0], &rows[0], &truth[0], &offsets[0], &heads[0], first(loss), out,
                        &losses[0])
    return losses_array, out.matrix()


cdef int write_trees(Arcs arcs, Py_ssize_t n_rows, const Py_ssize_t* rows, const int32_t* truth, const int64_t* offsets,
                     const int32_t* heads, const uint8_t* loss, PlaneRows out, double* losses) except -1 nogil:
    """Write the losses of trees (numbers of wrong words), and append their slopes as rows to `out`."""
    cdef Py_ssize_t j, i
    cdef int m, R = arcs.n_relations
    cdef int32_t h, g
    for j in range(n_rows):
        i = rows[j]
        losses[j] = 0.0
        for m in range(1, <int>(arcs.starts[i + 1] - arcs.starts[i])):
            h = heads[offsets[j] + m]
            g = truth[arcs.starts[i] + m]
            if h != g:
                losses[j] += loss != NULL and is_wrong(h, g, R, loss[arcs.starts[i] + m])
                arcs.put_arc(i, h // R, m, h % R, 1.0, out)
                if g >= 0:
                    arcs.put_arc(i, g // R, m, g % R, -1.0, out)
        out.close()
    return 0


cdef class CompiledDependency(CompiledOracle):
    """Find most violated planes of the sentences of `arcs`.

    Parameters
    ----------
    arcs : Arcs
    truth : int32 array
        Codes of true heads and relations of all sentences by `arcs.starts`.
    loss : uint8 array
        What makes each word wrong, see `_arcs.pxd`; in the order of `truth`.
    single_root : bool
    batch : int
        Largest number of sentences in one call.
    """

    cdef Arcs arcs
    cdef const int32_t[::1] truth
    cdef const uint8_t[::1] loss
    cdef bint single_root

    def __init__(self, Arcs arcs, truth, loss, bint single_root, Py_ssize_t batch):
        CompiledOracle.__init__(self, arcs.dim, batch)
        self.arcs, self.truth, self.loss, self.single_root = arcs, truth, loss, single_root

    cdef int fill(self, const Py_ssize_t* rows, Py_ssize_t n) except -1 nogil:
        cdef ArcWeights at = ArcWeights(self.w, NULL, NULL)
        cdef int32_t* heads = self.room_for_labels(&self.arcs.starts[0], rows, n)
        decode_trees(self.arcs, n, rows, &at, &self.truth[0], &self.loss[0], self.single_root, &self.offsets[0], heads,
                     &self.losses[0], 0, NULL)
        return write_trees(self.arcs, n, rows, &self.truth[0], &self.offsets[0], heads, &self.loss[0], self.planes,
                           &self.losses[0])


def marginal_sentences(Arcs arcs, const Py_ssize_t[::1] rows, const double[::1] w, const int32_t[::1] truth,
                       bint single_root, const double[::1] scales, double[::1] slope, double[::1] values,
                       double[::1] entropies, const double[::1] errors):
    """Add `sum_j scales[j] E psi_j` to the slope, and set values to `log sum exp` of scores relative to the truth.

    `errors` come from `tree_errors`. For sentences whose marginals have no error bound, the best tree gets all
    probability, and the entropy is 0.
    """
    cdef Py_ssize_t j, i, square
    cdef int n, m, h, found, longest, R = arcs.n_relations
    cdef const int32_t* own
    cdef double best
    cdef double* S
    cdef double* P
    cdef double* scratch
    cdef double* tops
    cdef int* heads
    cdef int32_t* codes
    cdef char* room
    cdef uint8_t[::1] memory
    cdef ArcWeights at
    check_weights(arcs, w)
    if rows.shape[0] == 0:
        return
    at = ArcWeights(&w[0], NULL, NULL)
    longest = longest_of(arcs, rows.shape[0], &rows[0])
    square = <Py_ssize_t>longest * longest
    memory = np.empty(sizeof(double) * (4 * square + 6 * longest) + sizeof(int32_t) * square + arcs.scratch()
                      + tree_scratch(longest), np.uint8)
    S = <double*>&memory[0]
    P = S + square
    scratch = P + square
    tops = scratch + 2 * square + 4 * longest
    heads = <int*>(tops + longest)
    room = <char*>(heads + 2 * longest)
    codes = <int32_t*>(room + max(arcs.scratch(), tree_scratch(longest)))
    with nogil:
        for j in range(rows.shape[0]):
            i = rows[j]
            n = <int>(arcs.starts[i + 1] - arcs.starts[i])
            own = &truth[arcs.starts[i]]
            arcs.score(i, &at, S, room)
            arcs.reduce(i, at.w, own, NULL, True, S, codes, tops, room)
            for m in range(1, n):
                # scores relative to the truth, which has value 0
                for h in range(n):
                    S[<Py_ssize_t>h * n + m] -= tops[m]
                    if not fabs(S[<Py_ssize_t>h * n + m]) <= 1e300:
                        refuse(i)
            entropies[j] = 0.0
            found = tree_marginals(n, S, single_root, P, &values[j], scratch, errors[j], &entropies[j])
            if found == 0:
                refuse(i)
            values[j] = max(values[j], 0.0)
            if scales[j] == 0.0:
                continue
            if found == 2 or n - 1 > MOST_WORDS:
                if max_tree(n, S, single_root, heads, &best, room) != FOUND:
                    refuse(i)
                entropies[j] = 0.0
                memset(P, 0, sizeof(double) * n * n)
                for m in range(1, n):
                    P[<Py_ssize_t>heads[m] * n + m] = 1.0
            entropies[j] += arcs.add_expected(i, at.w, own, scales[j], P, errors[j], &slope[0], room)
            for h in range(n):
                for m in range(1, n):
                    P[<Py_ssize_t>h * n + m] *= scales[j]
            for m in range(1, n):
                P[<Py_ssize_t>(own[m] // R) * n + m] -= scales[j]
            arcs.add_matrix(i, P, &slope[0], room)


def most_additions(Arcs arcs, const Py_ssize_t[::1] rows):
    """Return how often the most frequent feature of templates occurs in the arcs of the sentences `rows`."""
    counts = np.zeros(arcs.dim)
    scratch = np.empty(arcs.scratch() + 8, np.uint8)
    cdef double[::1] slope = counts
    cdef uint8_t[::1] room = scratch
    cdef double[:, ::1] G
    cdef Py_ssize_t i, j, n, last = 0
    for j in range(rows.shape[0]):
        i = rows[j]
        n = arcs.starts[i + 1] - arcs.starts[i]
        if n != last:
            is_arc = 1.0 - np.eye(n)
            is_arc[:, 0] = 0.0
            G, last = is_arc, n
        with nogil:
            arcs.add_matrix(i, &G[0, 0], &slope[0], &room[0])
            arcs.add_expected(i, NULL, NULL, 1.0, &G[0, 0], 0.0, &slope[0], &room[0])
    return int(counts.max())
