"""Run the C++ host and the same problems in Python: all numbers of the SVMs are equal bit for bit, the CRF's are close.

    python compare.py ./host
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import pybundle as pb
from pybundle.core.protocols import Decodings

N, T, K, D = 25, 6, 3, 4


class Chains(pb.models.BatchOracle):
    """The model of main.cpp; it computes the same numbers in the same order."""

    norms, fingerprint = None, 1

    def __init__(self, seed):
        self.n_examples, self.dim, self.sizes = N, K * D + K * K, np.full(N, 64)
        numbers = self.numbers(seed)
        self.x = [[[next(numbers) for _ in range(D)] for _ in range(T)] for _ in range(N)]
        self.y = [[0] * T for _ in range(N)]
        for i in range(N):
            for t in range(T):
                for k in range(1, K):
                    if self.x[i][t][k] + 0.5 * next(numbers) > self.x[i][t][self.y[i][t]]:
                        self.y[i][t] = k

    @staticmethod
    def numbers(state):
        while True:
            state = (state * 1664525 + 1013904223) % 2**32
            yield (state >> 8) / 8388608.0 - 1.0

    def emit(self, w, i, t, k):
        total = 0.0
        for d in range(D):
            total += w[k * D + d] * self.x[i][t][d]
        return total

    def argmax(self, w, i, has_loss=True):
        y, best, back = self.y[i], [], []
        for t in range(T):
            best.append([0.0] * K)
            back.append([0] * K)
            for k in range(K):
                emission = (has_loss and k != y[t]) + self.emit(w, i, t, k)
                best[t][k] = emission
                for j in range(K if t else 0):
                    found = best[t - 1][j] + w[K * D + j * K + k] + emission
                    if j == 0 or found > best[t][k]:
                        best[t][k], back[t][k] = found, j
        k = max(range(K), key=lambda j: best[-1][j])
        value, truth, labelling = best[-1][k], 0.0, [0] * T
        for t in reversed(range(T)):
            labelling[t], k = k, back[t][k]
        for t in range(T):
            truth += self.emit(w, i, t, y[t])
            if t:
                truth += w[K * D + y[t - 1] * K + y[t]]
        return labelling, value - truth

    def training_error(self, w):
        """Mean loss of the labellings that w predicts."""
        w = w.tolist()
        wrong = sum(a != b for i in range(N) for a, b in zip(self.argmax(w, i, False)[0], self.y[i], strict=True))
        return wrong / N

    def _decode(self, rows, weights, loss):
        found = [self.argmax(weights.tolist(), i) for i in rows]
        values = np.array([value for _, value in found])
        return Decodings(np.array([labelling for labelling, _ in found]), values, values)

    def _add_planes(self, rows, labellings, scales, slope):
        total = 0.0
        for i, labelling, scale in zip(rows, labellings, scales, strict=True):
            y, loss = self.y[i], 0.0
            for t in range(T):
                loss += labelling[t] != y[t]
                for d in range(D if labelling[t] != y[t] else 0):
                    slope[labelling[t] * D + d] += scale * self.x[i][t][d]
                    slope[y[t] * D + d] += scale * -self.x[i][t][d]
                if t:
                    slope[K * D + labelling[t - 1] * K + labelling[t]] += scale
                    slope[K * D + y[t - 1] * K + y[t]] -= scale
            total += scale * loss
        return total

    def _losses(self, rows, labellings):
        return np.array([np.count_nonzero(labelling != self.y[i])
                         for i, labelling in zip(rows, labellings, strict=True)], dtype=float)


def likelihood(chains):
    """The risk of the CRF of crf.cpp, one part an example, with sums over labellings by pybundle."""
    X, Y = np.array(chains.x), np.array(chains.y)

    def fun(w):
        emission, transition = w[:K * D].reshape(K, D), w[K * D:].reshape(K, K)
        values, slopes = np.zeros(N), np.zeros((N, len(w)))
        for i in range(N):
            unary = X[i] @ emission.T
            found = pb.oracles.forward_backward(unary, transition)
            nodes, pairs = found.unary, found.pairwise.sum(axis=0)
            values[i] = found.log_partition - unary[range(T), Y[i]].sum() - transition[Y[i, :-1], Y[i, 1:]].sum()
            nodes[range(T), Y[i]] -= 1.0
            np.subtract.at(pairs, (Y[i, :-1], Y[i, 1:]), 1.0)
            slopes[i] = np.concatenate([(nodes.T @ X[i]).ravel(), pairs.ravel()])
        return values, slopes

    return pb.risks.Function(fun, chains.dim, N, lower_bounds=0.0, smooth=True)


class Model:
    dim = K * D + K * K

    def __init__(self, seed):
        self.seed = seed

    def oracle(self, X, Y):
        return Chains(self.seed)


def expected(errors):
    """Results of the runs of main.cpp; the warm run has its bounds after those of the first run.

    `errors` receives the training errors of the bundle machine.
    """
    first, second = (pb.risks.Structured(Model(seed), range(N), range(N)) for seed in (1, 2))
    blocks = pb.minimize(first, lam=0.5, tol=1e-4, method="prox-bcfw")
    bundle = pb.minimize(second, lam=2.0, tol=1e-4, method="oca")
    warm = pb.minimize(second, lam=1.0, tol=1e-4, method="oca", warm_start=bundle)
    bounds = np.concatenate([bundle.history["lower_bound"], warm.history["lower_bound"]])
    shogun = pb.minimize(first, lam=0.5, tol=1e-3, n_parts=4,
                         method=pb.methods.ProxBMRM(K=0.4, T=100, max_idle=10),
                         callback=lambda at: errors.append(Chains(1).training_error(at.x)))
    found = {"blocks": blocks, "bundle": bundle, "paused": blocks, "shogun": shogun}
    return {name: (result, result.history["lower_bound"]) for name, result in found.items()} | {"warm": (warm, bounds)}


def main(host):
    with tempfile.TemporaryDirectory() as folder:
        proof = Path(folder, "proof.npz")
        output = subprocess.run([host, sys.executable, proof], capture_output=True, text=True)
        sys.stderr.write(output.stderr)
        output.check_returncode()
        certificate = pb.load_certificate(proof)
    lines = {line.split()[0]: line.split()[1:] for line in output.stdout.splitlines()}
    errors = []
    for name, (result, bounds) in expected(errors).items():
        n_iter, *numbers = lines[name]
        assert result.success and result.certified, result
        assert int(n_iter) == len(bounds), (name, n_iter, len(bounds))
        assert [float.fromhex(x) for x in numbers] == [result.fun, result.lower_bound, *bounds.tolist()], name
        assert [float.fromhex(x) for x in lines[name + ".w"]] == result.x.tolist(), name
        print(name, n_iter, "iterations:", " ".join(lines[name + ".w"][:4]), "...")
    assert [float.fromhex(x) for x in lines["shogun.errors"]] == errors and "lower bound" in output.stderr
    print("C++ and Python: same trace, to the last bit")

    risk = likelihood(Chains(1))
    fun, bound = (float.fromhex(x) for x in lines["crf"][1:3])
    result, report = pb.minimize(risk, lam=0.5, tol=1e-6), pb.verify(certificate, risk, lam=0.5)
    assert bound <= result.fun and result.lower_bound <= fun <= bound + 1e-6 * fun, (bound, fun, result)
    assert report.ok and certificate.fun == fun, report
    print(f"CRF: {lines['crf'][0]} iterations, {bound:.9g} <= minimum <= {fun:.9g}, proven again in Python")


if __name__ == "__main__":
    main(*sys.argv[1:])
