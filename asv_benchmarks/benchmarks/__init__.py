"""asv suites of pybundle. BLAS is held to one thread before NumPy loads it."""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

LARGE = os.environ.get("PYBUNDLE_BENCH") == "large"
