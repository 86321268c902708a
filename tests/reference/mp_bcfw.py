"""MP-BCFW [Shah, Kolmogorov, Lampert 2015, Algorithm 3] step by step in dense NumPy, for any oracle of n examples.

Each example i has a plane (B_i, phi_i), an average of planes that the oracle returned, which begins as that of the
truth, (0, 0), and a working set W_i of such planes, which begins empty. With phi = sum_i phi_i and B = sum_i B_i the
point is w = -phi / lam, its negative entries set to 0 where weights must be >= 0. An iteration is

1   for each i of a permutation: the plane of the oracle at w enters W_i, the step on i goes towards it;
2   cached passes: for each i of a permutation, the step goes towards the plane of W_i that is best at w; planes of W_i
    that no oracle or cached step returned in the last `max_idle` iterations leave;
3   the cached passes end when the last one raised the dual less per unit of time than the iteration up to it.

A step minimises the dual between (B_i, phi_i) and the plane. If W_i has `max_planes` planes, the one idle for longest
makes room for a new one; both rules and their numbers, 10 and 100, are those of the authors' code. Time is the number
of steps, one with a call of the oracle counting as `cost`. Averages of the points after oracle steps and after cached
ones have the weights 2 / (k + 2).

`Variant` has the working sets of the default "mp-bcfw" instead, which differ in four ways:

1.  a plane leaves after 4 idle iterations;
2.  (B_i, phi_i) is stored as multipliers of planes, the truth among them; planes with multipliers do not leave but are
    merged in pairs, and the merged plane is a candidate of later steps;
3.  one of ten cached passes visits all blocks that have planes, the nine others only those with several planes in use,
    and these planes alone;
4.  planes found by certificates enter the working sets, and certificates count as iterations.
"""

import numpy as np


def multiclass(X, y, n_classes):
    """The oracle of a multiclass hinge loss: `oracle(i, w) -> offset, slope, value`."""

    def oracle(i, w):
        W = w.reshape(n_classes, -1)
        u = (W - W[y[i]]) @ X[i] + (np.arange(n_classes) != y[i])
        k, slope = int(np.argmax(u)), np.zeros_like(W)
        slope[k] += X[i]
        slope[y[i]] -= X[i]
        return float(k != y[i]), slope.ravel(), float(u[k])

    return oracle


def chain(X, Y, n_labels):
    """The oracle of chains with the Hamming loss, by enumeration; w has K rows of tokens, transitions, start, end."""

    def features(x, labels):
        W, T, start, end = (np.zeros(shape) for shape in ((n_labels, x.shape[1]), (n_labels, n_labels), n_labels,
                                                          n_labels))
        np.add.at(W, labels, x)
        np.add.at(T, (labels[:-1], labels[1:]), 1.0)
        start[labels[0]], end[labels[-1]] = 1.0, 1.0
        return np.concatenate([W.ravel(), T.ravel(), start, end])

    planes = []
    for x, y in zip(X, Y, strict=True):
        labellings = np.stack(np.meshgrid(*[np.arange(n_labels)] * len(y), indexing="ij"), -1).reshape(-1, len(y))
        truth = features(x, y)
        planes.append(((labellings != y).sum(axis=1), np.array([features(x, z) for z in labellings]) - truth))

    def oracle(i, w):
        losses, slopes = planes[i]
        best = int(np.argmax(losses + slopes @ w))
        return float(losses[best]), slopes[best], float(losses[best] + slopes[best] @ w)

    return oracle


class WorkingSet:
    """(B_i, phi_i) and W_i of an example: offsets, slopes, iteration in which a plane was last active."""

    def __init__(self, dim):
        self.phi, self.B = np.zeros(dim), 0.0
        self.offsets, self.slopes, self.last = [], [], []

    def __len__(self):
        return len(self.slopes)

    def add(self, offset, slope, tick, most):
        """The place of a plane, which enters the working set unless it is there."""
        for q, known in enumerate(self.slopes):
            if self.offsets[q] == offset and (known == slope).all():
                self.last[q] = tick
                return q
        if len(self) >= most:
            self.remove(int(np.argmin(self.last)))
        self.offsets.append(offset)
        self.slopes.append(slope)
        self.last.append(tick)
        return len(self) - 1

    def remove(self, q):
        for column in (self.offsets, self.slopes, self.last):
            del column[q]

    def values(self, w, _used_only):
        return np.array([b + a @ w for b, a in zip(self.offsets, self.slopes, strict=True)])

    def towards(self, t, gamma):
        self.phi = (1.0 - gamma) * self.phi + gamma * self.slopes[t]
        self.B = (1.0 - gamma) * self.B + gamma * self.offsets[t]

    def forget(self, before):
        for q in range(len(self) - 1, -1, -1):
            if self.last[q] < before:
                self.remove(q)


class Merged(WorkingSet):
    """Multipliers of planes, the truth first, instead of (B_i, phi_i)."""

    def __init__(self, dim):
        self.offsets, self.slopes, self.alpha, self.last = [0.0], [np.zeros(dim)], [1.0], [0]

    @property
    def phi(self):
        return np.dot(self.alpha, self.slopes)

    @property
    def B(self):
        return float(np.dot(self.alpha, self.offsets))

    def add(self, offset, slope, tick, most):
        q = super().add(offset, slope, tick, np.inf)
        self.alpha += [0.0] * (len(self) - len(self.alpha))
        return q

    def remove(self, q):
        super().remove(q)
        del self.alpha[q]

    def values(self, w, used_only):
        u = super().values(w, used_only)
        return np.where(np.array(self.alpha) > 0.0, u, -np.inf) if used_only else u

    def towards(self, t, gamma):
        self.alpha = [(1.0 - gamma) * a for a in self.alpha]
        self.alpha[t] += gamma

    def forget(self, before):
        for q in range(len(self) - 1, 0, -1):
            if self.alpha[q] == 0.0 and self.last[q] < before:
                self.remove(q)
        while len(old := [q for q in range(1, len(self)) if self.alpha[q] > 0.0 and self.last[q] < before]) > 1:
            i, j = sorted(old, key=lambda q: self.alpha[q])[:2]
            share = self.alpha[i] / (self.alpha[i] + self.alpha[j])
            self.slopes[i] = share * self.slopes[i] + (1.0 - share) * self.slopes[j]
            self.offsets[i] = share * self.offsets[i] + (1.0 - share) * self.offsets[j]
            self.alpha[i] += self.alpha[j]
            self.last[i] = max(self.last[i], self.last[j])
            self.remove(j)


class MPBCFW:
    """Iterations on n examples of an oracle; the order of examples comes from `rng`; averages only if they are used."""

    working_set = WorkingSet

    def __init__(self, oracle, n, dim, lam, rng, max_idle=10, max_planes=100, max_cached=1000, cost=20.0, nonneg=None,
                 average=False):
        self.oracle, self.n, self.lam, self.rng, self.cost = oracle, n, lam, rng, cost
        self.max_idle, self.max_planes, self.max_cached, self.nonneg = max_idle, max_planes, max_cached, nonneg
        self.blocks = [self.working_set(dim) for _ in range(n)]
        self.x, self.tick, self.n_cached, self.time = np.zeros(dim), 0, 0, 0.0
        self.has_averages = average
        self.averages, self.counts = [None, None], [0, 0]       # of (x, B) after oracle steps, after cached ones

    def project(self, x):
        return x if self.nonneg is None else np.where(self.nonneg, np.maximum(x, 0.0), x)

    @property
    def w(self):
        return self.project(self.x)

    def sums(self):
        """phi and B."""
        return sum(block.phi for block in self.blocks), sum(block.B for block in self.blocks)

    def dual_of(self, x, B):
        w = self.project(x)
        return B - 0.5 * self.lam * w @ w

    def dual(self):
        phi, B = self.sums()
        return self.dual_of(-phi / self.lam, B)

    def n_planes(self):
        return sum(map(len, self.blocks))

    def step(self, i, t, used_only=False):
        """Towards plane t of example i, None for the best one of its working set."""
        block, w = self.blocks[i], self.w
        u = block.values(w, used_only)
        if t is None:
            t = int(np.argmax(u))
            block.last[t] = self.tick
        gain, step = u[t] - block.B - block.phi @ w, block.slopes[t] - block.phi
        if gain > 0.0:
            gamma = min(gain * self.lam / max(step @ step, 1e-300), 1.0)
            block.towards(t, gamma)
            self.x = self.x - gamma * step / self.lam

    def average(self, k):
        """Count the point in the average over oracle steps, k = 0, or cached ones, k = 1."""
        if not self.has_averages:
            return
        here = np.append(self.x, sum(block.B for block in self.blocks))
        rho = 2.0 / (self.counts[k] + 2.0)
        self.averages[k] = here if self.averages[k] is None else (1.0 - rho) * self.averages[k] + rho * here
        self.counts[k] += 1

    def best_average(self):
        """The best of 10001 combinations of both averages: x, B."""
        t = np.linspace(0.0, 1.0, 10001)[:, None]
        both = t * self.averages[1] + (1.0 - t) * self.averages[0]
        w = self.project(both[:, :-1])
        best = both[np.argmax(both[:, -1] - 0.5 * self.lam * (w * w).sum(axis=1))]
        return best[:-1], best[-1]

    def exact_pass(self):
        for i in self.rng.permutation(self.n):
            offset, slope, _ = self.oracle(i, self.w)
            self.step(i, self.blocks[i].add(offset, slope, self.tick, self.max_planes))
            self.average(0)
        self.time += self.cost * self.n

    def cached_pass(self, _k):
        for i in self.rng.permutation(self.n):
            self.step(i, None)
            self.blocks[i].forget(self.tick + 1 - self.max_idle)
            self.average(1)
        self.time += self.n

    def iterate(self):
        t0, d0 = self.time, self.dual()
        self.exact_pass()
        t1, d1 = self.time, self.dual()
        for k in range(self.max_cached):
            self.cached_pass(k)
            self.n_cached += 1
            t, d = self.time, self.dual()
            if (d - d1) * (t1 - t0) < (d1 - d0) * (t - t1):
                break
            t1, d1 = t, d
        self.tick += 1

    def certify(self, w=None):
        """F at w, at the point by default."""
        w = self.w if w is None else w
        return 0.5 * self.lam * w @ w + sum(self.oracle(i, w)[2] for i in range(self.n))


class Variant(MPBCFW):
    """The default "mp-bcfw"; averages are those of the paper's algorithm only."""

    working_set = Merged

    def __init__(self, *args, max_idle=4, **named):
        super().__init__(*args, max_idle=max_idle, **named)

    def n_planes(self):
        return super().n_planes() - self.n

    def cached_pass(self, k):
        used_only = k % 10 > 0
        rows = np.flatnonzero([(sum(a > 0.0 for a in block.alpha) if used_only else len(block)) > 1
                               for block in self.blocks])
        self.rng.shuffle(rows)
        for i in rows:
            self.step(i, None, used_only)
        self.time += len(rows)

    def iterate(self):
        super().iterate()
        self.forget()

    def certify(self, w=None):
        value = super().certify(w)
        for i, block in enumerate(self.blocks):
            block.add(*self.oracle(i, self.w)[:2], self.tick, self.max_planes)
        self.tick += 1
        self.forget()
        return value

    def forget(self):
        for block in self.blocks:
            block.forget(self.tick - self.max_idle)
