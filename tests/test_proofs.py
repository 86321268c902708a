"""Every claim of a certificate holds in exact arithmetic: a sample of what asv_benchmarks/reproduce/proofs.py runs.

The full run found bounds above the minimum (log-losses of planes met at large scores, multipliers whose sums had
drifted from 1), values whose rounding nothing counted, and valid log-losses that were called not convex.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from reference import exact, problems, proofs

import pybundle as pb

KNOWN = (145, 151, 183, 191, 276, 313, 339, 344, 383, 394, 502, 575, 595, 4793, 5238, 5702, 6135, 6161, 6283, 903403)
"""Problems at which bounds, values or refusals were wrong once."""
CHUNKS = [range(20), KNOWN]


@pytest.mark.parametrize("chunk", CHUNKS, ids=lambda chunk: f"{chunk[0]}-{chunk[-1]}")
def test_claims_hold(chunk):
    failed = [f"problem {index}, {row.risk}, {row.words}: {row.details}" for index in chunk
              for row in proofs.attack(0, index) if any(row.counts[kind] for kind in proofs.FAILURES)]
    assert not failed, "\n".join(failed)


def test_minimisers_are_exact():
    """Two contradicting trees: 2 log 2 at 0. One row 2 with the hinge: w = 1/2 while lam <= 4, else 2 / lam."""
    arcs = np.eye(4)
    trees = exact.dependency([arcs, arcs], [np.array([-1, 0, 1]), np.array([-1, 2, 0])], smooth=True)
    found = trees.optimum(1e-12, [1e-3, -1e-3, 2e-3, 0.0])
    assert found.distance < Fraction(1, 10**30) and float(found.high) == 2.0 * math.log(2.0)
    assert 0 <= found.high - found.low < Fraction(1, 10**30)
    row = exact.binary(np.array([[2.0]]), [1])
    assert row.optimum(0.5, [0.4]) == ([Fraction(1, 2)], 0, Fraction(1, 16), Fraction(1, 16))
    assert row.optimum(8.0, [0.4]) == ([Fraction(1, 4)], 0, Fraction(3, 4), Fraction(3, 4))


def test_false_claims_are_noticed():
    """One unit in the last place beyond what is true."""
    risk, lam = pb.risks.MulticlassHinge(np.eye(3) / 3.0, [0, 1, 2]), 0.1
    twin = exact.multiclass(np.eye(3) / 3.0, [0, 1, 2], 3)
    problem = problems.Problem("", risk, twin, (), 1.0, lams=[lam])
    result = pb.minimize(risk, lam=lam, tol=1e-12)
    optimum = twin.optimum(lam, result.x)
    least = float(optimum.high)
    centre, shift = np.array([float(v) for v in optimum.w]), np.eye(risk.dim)[0]

    def failures(**forged):
        row = proofs.Row("", "", "")
        proofs.judge(problem, lam, [proofs.Claim(pb.Result(dict(result) | forged), lam, row, 1e-12)])
        return {kind for kind in proofs.FAILURES if row.counts[kind]}

    assert failures() == failures(ball=(centre, 1e-15)) == set()
    assert failures(lower_bound=np.nextafter(least, 2.0 * least)) == {"bound"}
    assert failures(fun=result.fun * (1.0 - 1e-9), gap=0.0) == {"value"}
    assert failures(ball=(centre + shift, 1.0 - 1e-14)) == {"ball"}
    assert failures(ball=(centre + shift, 1.0 + 1e-14)) == set()
