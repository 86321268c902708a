"""Settings shared by all tests. There is no `__init__.py` here: tests import the installed package."""

import os

from hypothesis import HealthCheck, settings

os.environ.setdefault("MPLBACKEND", "Agg")
# no clocks: a busy machine may take long to make an example
settings.register_profile("pybundle", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pybundle")
