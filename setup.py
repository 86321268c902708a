"""The extension table and the compiler directives; all metadata stands in pyproject.toml.

PYBUNDLE_CHECKED=1 builds with bounds and initialisation checks.
"""

import os
import sys
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CHECKED = os.environ.get("PYBUNDLE_CHECKED") == "1"

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": CHECKED,
    "wraparound": False,
    "initializedcheck": CHECKED,
    "cdivision": not CHECKED,
    "allow_none_for_extension_args": False,     # None for a typed argument of a `def` is a TypeError, not a crash
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
LINK_FLAGS = ["-Wl,-s"] if sys.platform == "linux" and not CHECKED else []      # no symbol table: a fifth of the size
# One binary serves CPython 3.11 and later. Free-threaded builds have no stable ABI yet.
STABLE_ABI = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
MACROS = ([("PYBUNDLE_CHECKED", "1")] if CHECKED else []) + ([("Py_LIMITED_API", "0x030b0000")] if STABLE_ABI else [])
# Here the order of a sum is part of the contract: dense and CSR data give the same bits, a value is the sum it says,
# a difference is taken before the next one because it is exact.
FIXED_ORDER = {"pybundle.core._pairs", "pybundle.features._norms", "pybundle.features._rows",
               "pybundle.models.chain._token_scores",
               "pybundle.oracles._chain", "pybundle.oracles._distance_transform",
               "pybundle.oracles._graph_labeling", "pybundle.oracles._tree",
               "pybundle.prox._threshold", "pybundle.risks._compiled", "pybundle.risks._engine",
               "pybundle.risks._linear_oracle"}
SHARED = "pybundle._cyutility"      # the helpers that Cython would write into each extension: compiled once
ROOT = Path(__file__).parent
# Folders whose headers any extension may include.
INCLUDED = tuple(Path("pybundle", folder) for folder in ("bundle", "core", "features", "oracles", "solvers/block"))


def processors():
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def extensions():
    """One extension for each .pyx below pybundle/, and the one that they share."""
    yield Extension(SHARED, [SHARED.replace(".", "/") + ".c"], extra_compile_args=[] if os.name == "nt" else GNU_FLAGS,
                    extra_link_args=LINK_FLAGS, define_macros=MACROS, py_limited_api=STABLE_ABI)
    for path in sorted(ROOT.glob("pybundle/**/*.pyx")):
        source = path.relative_to(ROOT)
        folders = (path.parent, *(ROOT / folder for folder in INCLUDED))
        depends = sorted({str(header.relative_to(ROOT)) for folder in folders for header in folder.glob("*.h")})
        name = ".".join(source.with_suffix("").parts)
        flags = [flag for flag in GNU_FLAGS if flag != "-fassociative-math" or name not in FIXED_ORDER]
        yield Extension(
            name,
            [str(source)],
            include_dirs=[str(folder) for folder in INCLUDED],
            extra_compile_args=[] if os.name == "nt" else flags,
            extra_link_args=LINK_FLAGS,
            define_macros=MACROS,
            py_limited_api=STABLE_ABI,
            depends=depends,
        )


class BuildExtensions(build_ext):
    """Runs Cython when extensions are built, not when only the metadata are asked for."""

    def build_extensions(self):
        made = cythonize(list(self.extensions), compiler_directives=DIRECTIVES, force=CHECKED, nthreads=self.parallel,
                         shared_utility_qualified_name=SHARED)
        for extension, translated in zip(self.extensions, made, strict=True):
            extension.sources = translated.sources
        super().build_extensions()


if __name__ == "__main__":      # Cython's processes import this file again where they are not forked
    setup(
        ext_modules=list(extensions()),
        cmdclass={"build_ext": BuildExtensions},
        options={"build_ext": {"parallel": processors()},
                 "bdist_wheel": {"py_limited_api": "cp311"} if STABLE_ABI else {}},
    )
