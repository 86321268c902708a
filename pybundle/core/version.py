"""The version of the package; files that it writes name it."""

__version__ = "0.2.0"
