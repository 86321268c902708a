"""The version of the package; every file that the package writes names the version."""

__version__ = "0.2.0"
