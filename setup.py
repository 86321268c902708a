"""The extension table and the compiler directives; all metadata stands in pyproject.toml.

PYBUNDLE_CHECKED=1 builds with bounds, overflow and initialisation checks.
"""

import os
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup

CHECKED = os.environ.get("PYBUNDLE_CHECKED") == "1"

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": CHECKED,
    "wraparound": False,
    "initializedcheck": CHECKED,
    "cdivision": not CHECKED,
    "freethreading_compatible": True,
}

# Sums may be reordered (GCC vectorises none otherwise), but NaN and infinity keep their meaning.
GNU_FLAGS = [
    "-O3",
    "-g0",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fassociative-math",
    "-ffp-contract=fast",
    "-Wno-psabi",
    "-Wno-unused-function",
]
MACROS = [("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")] + ([("PYBUNDLE_CHECKED", "1")] if CHECKED else [])
# Here the order of a sum is part of the contract: dense and CSR data give the same bits, a value is the sum it says,
# a difference is taken before the next one because it is exact.
FIXED_ORDER = {"pybundle.features._norms", "pybundle.features._rows", "pybundle.oracles._chain",
               "pybundle.oracles._distance_transform", "pybundle.oracles._tree", "pybundle.prox._threshold",
               "pybundle.risks._compiled", "pybundle.risks._engine", "pybundle.risks._linear_finder"}
ROOT = Path(__file__).parent
INCLUDED = (Path("pybundle", "core"), Path("pybundle", "features"))    # folders whose headers any extension may include


def extensions():
    """One extension for each .pyx below pybundle/."""
    for path in sorted(ROOT.glob("pybundle/**/*.pyx")):
        source = path.relative_to(ROOT)
        folders = (path.parent, *(ROOT / folder for folder in INCLUDED))
        depends = sorted({str(header.relative_to(ROOT)) for folder in folders for header in folder.glob("*.h")})
        name = ".".join(source.with_suffix("").parts)
        flags = [flag for flag in GNU_FLAGS if flag != "-fassociative-math" or name not in FIXED_ORDER]
        yield Extension(
            name,
            [str(source)],
            include_dirs=[np.get_include(), *map(str, INCLUDED)],
            extra_compile_args=[] if os.name == "nt" else flags,
            define_macros=MACROS,
            depends=depends,
        )


setup(
    ext_modules=cythonize(list(extensions()), compiler_directives=DIRECTIVES, force=CHECKED),
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
