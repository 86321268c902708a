"""Base class of the groups of an online learner over tokens and labels, and the group of label pairs.

Other groups are kernels (`_kernel_group`) and features (`_feature_group`). A step changes theta_k where the gradient is
not 0, a prox only its scale. Formula (17) of Martins et al. updates the norms.
"""

import numpy as np

cdef class Group:
    """Base class; `theta` is a `LazyVectors` with a single group."""

    cdef void add_scores(self, Py_ssize_t first, Py_ssize_t count, double* S) noexcept nogil:
        pass

    cdef void measure(self, const Gradient* g, double* product, double* square) noexcept nogil:
        product[0] = square[0] = 0.0

    cdef void add_own(self, const Gradient* g, double amount, Py_ssize_t first, Py_ssize_t count,
                      double* S) noexcept nogil:
        cdef Py_ssize_t r, t, c, L = self.n_labels
        cdef double x
        for r in range(g.n_rows):
            for t in range(count):
                x = amount * self.kernel(g.tokens[r], first + t)
                for c in range(L):
                    S[t * L + c] += x * g.coefs[r * L + c]

    cdef double kernel(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        return 0.0

    cdef double square(self, const Gradient* g) noexcept nogil:
        cdef Py_ssize_t r, q, L = self.n_labels
        cdef double total = 0.0, joint
        for r in range(g.n_rows):
            for q in range(r + 1):
                joint = dot(g.coefs + r * L, g.coefs + q * L, L)
                if joint != 0.0:
                    total += (1.0 if q == r else 2.0) * joint * self.kernel(g.tokens[r], g.tokens[q])
        return total

    cdef void step(self, const Gradient* g, double amount) noexcept nogil:
        pass

    def state(self):
        """Return views of v and of its scores, if scores are stored; writing to the views does not change the scale."""
        return (self.theta.current_rows(),)

    def image(self, coefs, links):
        """Return the scores (n_labels, n) that all tokens have if theta is the slope of a plane.

        The slope is given by its coefficients of tokens, `coefs`, and of pairs of labels, `links`. A `LinkGroup`, which
        has no tokens, returns `links` unchanged.
        """
        raise NotImplementedError

    def lengths(self):
        """Return |phi(x)| of all tokens, shape (n,), or None for weights of links."""
        raise NotImplementedError

    def place(self, coefs):
        """Set theta from coefficients of tokens (n, n_labels), or of pairs of labels; call `renew` afterwards."""
        self.theta.set(coefs)

    def set_scale(self, double scale):
        """Set the scale, after v was changed through the views of `state`."""
        self.theta.scale[0], self.theta.is_zero[0] = scale, 0
        self.refresh()

    cdef int reset(self) except -1 nogil:
        return self.theta.reset(0)

    cdef int rescale(self, double factor) except -1 nogil:
        return self.theta.rescale(0, factor)

    cdef void refresh(self) noexcept nogil:
        self.theta.refresh()

    def restart(self):
        """Set theta = 0 and clear its average."""
        self.theta.set(0.0)

    def renew(self):
        """Recompute the numbers that steps only update, because every update adds a rounding error."""
        self.refresh()
        # the norm could round to 0 although theta has scores
        self.theta.is_zero[0] = not self.theta.current_rows().any()

    def all_scores(self, Py_ssize_t n):
        """Return the scores (n, n_labels) of the first n tokens."""
        out = np.zeros((n, self.n_labels))
        cdef double[:, ::1] S = out
        if n:
            with nogil:
                self.add_scores(0, n, &S[0, 0])
        return out


cdef class LinkGroup(Group):
    """Weights of neighbouring labels: theta (n_labels + 2, n_labels) holds transitions, then first and last label."""

    def __init__(self, LazyVectors theta):
        self.theta, self.n_labels = theta, <int>theta.width

    def image(self, coefs, links):
        return links

    def lengths(self):
        return None

    def all_weights(self):
        """Return theta, shape (n_labels + 2, n_labels)."""
        scale = 0.0 if self.theta.is_zero[0] else float(self.theta.scale[0])
        return scale * self.theta.current_rows()

    cdef void measure(self, const Gradient* g, double* product, double* square) noexcept nogil:
        cdef Py_ssize_t i, L = self.n_labels
        cdef const double* v
        cdef double delta = 0.0, norm = 0.0
        for i in range(L + 2):
            v = self.theta.read(i)
            if v != NULL:
                delta += dot(v, g.links + i * L, L)
            norm += dot(g.links + i * L, g.links + i * L, L)
        product[0], square[0] = delta, norm

    cdef void step(self, const Gradient* g, double amount) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self.n_labels + 2):
            self.theta.add(i, g.links + i * self.n_labels, amount)
