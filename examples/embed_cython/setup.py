from Cython.Build import cythonize
from setuptools import Extension, setup

# fused products and sums would round differently from the Python model in compare.py
setup(py_modules=[], ext_modules=cythonize([Extension("arborist", ["arborist.pyx"],
                                                      extra_compile_args=["-O2", "-ffp-contract=off"])]))
