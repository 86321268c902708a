from Cython.Build import cythonize
from setuptools import Extension, setup

# fused products and sums would round otherwise than the twin in compare.py
setup(py_modules=[], ext_modules=cythonize([Extension("arborist", ["arborist.pyx"],
                                                      extra_compile_args=["-O2", "-ffp-contract=off"])]))
