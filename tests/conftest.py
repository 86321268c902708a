"""Settings shared by all tests. There is no `__init__.py` here: tests import the installed package."""

import functools
import multiprocessing
import os
import sys

from hypothesis import HealthCheck, settings

import pybundle as pb

os.environ.setdefault("MPLBACKEND", "Agg")
if "forkserver" in multiprocessing.get_all_start_methods():
    # worker processes of Dask import its modules once for all of them
    os.environ.setdefault("DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD", "forkserver")
# no clocks: a busy machine may take long to make an example
settings.register_profile("pybundle", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pybundle")


LARGEST = 2_000_000
"""Numbers in X times classes up to which certificates of the suite are verified: some milliseconds each."""


def verified(certificate_of):
    """What makes certificates in `Driver`, followed by the verifier where the risk is flat and there is evidence."""
    @functools.wraps(certificate_of)
    def checked(risk, *rest):
        certificate = certificate_of(risk, *rest)
        flat = pb.risks.MulticlassHinge, pb.risks.BinaryHinge, pb.risks.Logistic
        if type(risk) in flat and certificate.evidence is not None and risk.n_examples * risk.dim <= LARGEST:
            report = pb.verify(certificate, risk)
            assert report.ok, report
        return certificate
    return checked


driver = sys.modules["pybundle.solvers.driver"]
driver.certificate_of = verified(driver.certificate_of)
