"""Train the compiled model and the same model in Python, and compare all numbers bit for bit."""

import arborist
import numpy as np

import pybundle as pb
from pybundle.core.protocols import Decodings


class Twin(pb.models.BatchOracle):
    """arborist.pyx in Python."""

    norms, fingerprint = None, 1

    def __init__(self, arcs, heads):
        self.arcs, self.heads = arcs, heads
        self.n_examples, self.dim, self.sizes = len(heads), arcs.shape[3], np.full(len(heads), 64)

    def _decode(self, rows, weights, loss):
        labellings, values = [], []
        for i in rows:
            n = self.heads.shape[1]
            scores = np.zeros((n, n))
            for h in range(n):
                for m in range(1, n):
                    if m != h:
                        total = 0.0
                        for k in range(self.dim):
                            total += float(weights[k]) * float(self.arcs[i, h, m, k])
                        scores[h, m] = total + (self.heads[i, m] != h)
            found, value = pb.oracles.max_arborescence(scores)
            for m in range(1, n):
                value -= scores[self.heads[i, m], m]
            labellings.append(found)
            values.append(value)
        values = np.array(values)
        return Decodings(np.array(labellings), values, values)

    def _add_planes(self, rows, labellings, scales, slope):
        total = 0.0
        for i, found, scale in zip(rows, labellings, scales, strict=True):
            truth, loss = self.heads[i], 0.0
            for m in range(1, len(truth)):
                if found[m] != truth[m]:
                    loss += 1.0
                    slope += scale * self.arcs[i, found[m], m]
                    slope += scale * -self.arcs[i, truth[m], m]
            total += scale * loss
        return total

    def _losses(self, rows, labellings):
        return (np.asarray(labellings)[:, 1:] != self.heads[rows, 1:]).sum(axis=1).astype(float)


class Model:
    def __init__(self, arcs, heads):
        self.given, self.dim = (arcs, heads), arcs.shape[3]

    def oracle(self, X, Y):
        return Twin(*self.given)


def make(n=20, n_nodes=5, d=3, seed=0):
    rng = np.random.default_rng(seed)
    arcs, w = rng.normal(size=(n, n_nodes, n_nodes, d)), rng.normal(size=d)
    noise = rng.normal(size=(n, n_nodes, n_nodes))
    heads = np.array([pb.oracles.max_arborescence(arcs[i] @ w + noise[i])[0] for i in range(n)])
    return arcs, heads.astype(np.int32)


def main():
    arcs, heads = make()
    for method in ("prox-bcfw", "oca"):
        options = dict(lam=0.5, tol=1e-4, method=method)
        compiled = arborist.train(arcs, heads, n_jobs=2, **options)
        rows = range(len(heads))
        python = pb.minimize(pb.risks.Structured(Model(arcs, heads), rows, rows), **options)
        print(method, compiled.nit, "iterations,", " ".join(x.hex() for x in compiled.x.tolist()))
        assert compiled.success and compiled.certified, compiled
        assert compiled.x.tolist() == python.x.tolist() and compiled.lower_bound == python.lower_bound
        for row in ("primal", "best_primal", "lower_bound"):
            assert np.array_equal(compiled.history[row], python.history[row]), row
    print("Cython and Python: same trace, to the last bit")


if __name__ == "__main__":
    main()
