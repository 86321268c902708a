"""Settings shared by all tests. There is no `__init__.py` here: tests import the installed package."""

import os

from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")
settings.register_profile("pybundle", derandomize=True, deadline=None)
settings.load_profile("pybundle")
