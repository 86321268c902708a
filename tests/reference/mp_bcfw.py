"""The package's variant of MP-BCFW [Shah, Kolmogorov, Lampert 2015] step by step in dense NumPy, for multiclass data.

It is not the algorithm of the paper. There

1.  a plane leaves a working set after 10 idle iterations (authors' code), here after `idle` = 4;
2.  phi_i is stored as such, so that planes with weight leave, too; here they are merged in pairs, and the merged plane
    is a candidate of later steps;
3.  every cached pass visits all blocks and all their planes, here one of ten does: the nine others visit only the
    blocks with several planes in use, and those planes alone;
4.  planes found by certificates do not enter the working sets, here they do.
"""

import numpy as np


class Block:
    """The planes known of an example, the truth (0, 0) first: offsets, slopes, multipliers, iteration last active."""

    def __init__(self, dim):
        self.offsets, self.slopes, self.alpha, self.last = [0.0], [np.zeros(dim)], [1.0], [0]

    def add(self, offset, slope, tick):
        """The place of a plane, which enters the working set unless it is there."""
        for q, known in enumerate(self.slopes):
            if self.offsets[q] == offset and (known == slope).all():
                self.last[q] = tick
                return q
        for column, value in ((self.offsets, offset), (self.slopes, slope), (self.alpha, 0.0), (self.last, tick)):
            column.append(value)
        return len(self.slopes) - 1

    def remove(self, q):
        for column in (self.offsets, self.slopes, self.alpha, self.last):
            del column[q]

    def point(self):
        """phi_i and B_i."""
        return np.dot(self.alpha, self.slopes), float(np.dot(self.alpha, self.offsets))

    def forget(self, before):
        """Planes idle since before a tick leave; those with weight become one, their mean, which keeps phi_i."""
        for q in range(len(self.alpha) - 1, 0, -1):
            if self.alpha[q] == 0.0 and self.last[q] < before:
                self.remove(q)
        while len(old := [q for q in range(1, len(self.alpha)) if self.alpha[q] > 0.0 and self.last[q] < before]) > 1:
            i, j = sorted(old, key=lambda q: self.alpha[q])[:2]
            share = self.alpha[i] / (self.alpha[i] + self.alpha[j])
            self.slopes[i] = share * self.slopes[i] + (1.0 - share) * self.slopes[j]
            self.offsets[i] = share * self.offsets[i] + (1.0 - share) * self.offsets[j]
            self.alpha[i] += self.alpha[j]
            self.last[i] = max(self.last[i], self.last[j])
            self.remove(j)


class MPBCFW:
    """Iterations on `X` (n, d), labels `y`, sum of hinge losses, `lam`; the order of examples comes from `rng`.

    Time is the number of steps, an oracle step counting as `cost`.
    """

    def __init__(self, X, y, n_classes, lam, rng, cost=20.0, idle=4, max_cached=1000):
        self.X, self.y, self.K, self.lam, self.rng = X, y, n_classes, lam, rng
        self.cost, self.idle, self.max_cached = cost, idle, max_cached
        self.blocks = [Block(n_classes * X.shape[1]) for _ in y]
        self.w, self.tick, self.n_cached, self.clock = np.zeros(n_classes * X.shape[1]), 0, 0, 0.0

    def oracle(self, i, w):
        """The most violated plane of example i at w, and its value."""
        W = w.reshape(self.K, -1)
        u = (W - W[self.y[i]]) @ self.X[i] + (np.arange(self.K) != self.y[i])
        k, slope = int(np.argmax(u)), np.zeros_like(W)
        slope[k] += self.X[i]
        slope[self.y[i]] -= self.X[i]
        return float(k != self.y[i]), slope.ravel(), float(u[k])

    def dual(self):
        """D = B - |phi|^2 / (2 lam)."""
        phi, B = (sum(parts) for parts in zip(*(block.point() for block in self.blocks), strict=True))
        return B - phi @ phi / (2.0 * self.lam)

    def step(self, i, target, used_only=False):
        """Towards plane `target` of block i, None for the best known one."""
        block, s = self.blocks[i], self.lam
        u = np.array([b + a @ self.w for b, a in zip(block.offsets, block.slopes, strict=True)])
        if used_only:
            u[np.array(block.alpha) == 0.0] = -np.inf
        best = int(np.argmax(u))
        block.last[best] = self.tick
        t = best if target is None else target
        phi, _ = block.point()
        gain = u[t] - sum(a * v for a, v in zip(block.alpha, u, strict=True) if a > 0.0)
        if gain <= 0.0:
            return
        gamma = min(gain * s / max(np.sum((block.slopes[t] - phi) ** 2), 1e-300), 1.0)
        block.alpha = [(1.0 - gamma) * a for a in block.alpha]
        block.alpha[t] += gamma
        self.w = self.w - (block.point()[0] - phi) / s

    def exact_pass(self):
        for i in self.rng.permutation(len(self.y)):
            offset, slope, _ = self.oracle(i, self.w)
            self.step(i, self.blocks[i].add(offset, slope, self.tick))
            self.clock += self.cost

    def cached_pass(self, used_only):
        def size(block):
            return sum(a > 0.0 for a in block.alpha) if used_only else len(block.alpha)

        rows = np.flatnonzero([size(block) > 1 for block in self.blocks])
        self.rng.shuffle(rows)
        for i in rows:
            self.step(i, None, used_only)
        self.clock += len(rows)
        self.n_cached += 1

    def iterate(self):
        """An exact pass, then cached passes as long as the last one gained more of D a second than the iteration."""
        t0, d0 = self.clock, self.dual()
        self.exact_pass()
        t1, d1 = self.clock, self.dual()
        for k in range(self.max_cached):
            self.cached_pass(used_only=k % 10 > 0)
            t, d = self.clock, self.dual()
            if (d - d1) * (t1 - t0) < (d1 - d0) * (t - t1):
                break
            t1, d1 = t, d
        self._end()

    def certify(self):
        """F at the point; the planes found enter the working sets."""
        value = 0.5 * self.lam * self.w @ self.w
        for i, block in enumerate(self.blocks):
            offset, slope, u = self.oracle(i, self.w)
            block.add(offset, slope, self.tick)
            value += u
        self._end()
        return value

    def _end(self):
        self.tick += 1
        for block in self.blocks:
            block.forget(self.tick - self.idle)
