"""The environment variable PYBUNDLE_KERNELS: every set of instructions proves the same optimum."""

import json
import os
import subprocess
import sys

import pytest

import pybundle as pb

PROGRAM = """
import json
import numpy as np
import pybundle as pb

rng = np.random.default_rng(0)
y = rng.integers(0, 7, 120)
X = (rng.normal(size=(7, 45))[y] + 2.0 * rng.normal(size=(120, 45)))
pixels = np.clip(40.0 * X + 128.0, 0, 255)
sentences = [X[i:i + 6] for i in range(0, 120, 6)]
words = [y[i:i + 6] for i in range(0, 120, 6)]
risks = [pb.risks.MulticlassHinge(pixels.astype(np.uint8), y, scale=1 / 255), pb.risks.MulticlassHinge(X, y),
         pb.risks.MulticlassHinge(X.astype(np.float32), y), pb.risks.Logistic(X, np.where(y > 3, 1, -1)),
         pb.risks.Structured(pb.models.Chain(7, 45), sentences, words)]
runs = [pb.minimize(risk, lam=1.0, tol=1e-5) for risk in risks]
print(json.dumps([pb.risks.kernel_name(), [(run.lower_bound, run.fun, run.certified) for run in runs]]))
"""


def run(kernels, program=PROGRAM):
    return subprocess.run([sys.executable, "-P", "-c", program], env=os.environ | {"PYBUNDLE_KERNELS": kernels},
                          capture_output=True, text=True)


@pytest.mark.slow
def test_every_set_proves_the_same_optimum():
    order = ("baseline", "avx2", "avx512")
    best = pb.risks.kernel_name()
    found = {}
    for kernels in order[:order.index(best) + 1]:
        name, runs = json.loads(run(kernels).stdout)
        assert name == kernels
        found[kernels] = runs
    for runs in found.values():
        for others in found.values():
            for (bound, _, certified), (_, value, _) in zip(runs, others, strict=True):
                assert certified and bound <= value * (1 + 1e-14) and value - bound <= 3e-5 * value


def test_an_unknown_set_is_refused_by_name():
    failed = run("avx1024", "import pybundle.risks")
    assert failed.returncode != 0 and "PYBUNDLE_KERNELS must be baseline, avx2 or avx512" in failed.stderr
    assert "got 'avx1024'" in failed.stderr
