"""Settings shared by all tests. There is no `__init__.py` here: tests import the installed package."""

import functools
import os

from hypothesis import HealthCheck, settings

import pybundle as pb

os.environ.setdefault("MPLBACKEND", "Agg")
# no clocks: a busy machine may take long to make an example
settings.register_profile("pybundle", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pybundle")


LARGEST = 2_000_000
"""Numbers in X times classes up to which certificates of the suite are verified: some milliseconds each."""


def verified(minimize):
    """`pb.minimize` whose certificates with evidence are computed again by the verifier, on flat risks."""
    @functools.wraps(minimize)
    def checked(risk, *args, **kwargs):
        result = minimize(risk, *args, **kwargs)
        certificate, flat = result.certificate, (pb.risks.MulticlassHinge, pb.risks.BinaryHinge, pb.risks.Logistic)
        if type(risk) in flat and certificate is not None and certificate.evidence is not None \
                and risk.n_examples * risk.dim <= LARGEST:
            report = pb.verify(certificate, risk)
            assert report.ok, report
        return result
    return checked


pb.minimize = verified(pb.minimize)
