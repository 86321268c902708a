"""Certificates as files, and their verification by code that shares nothing with the solvers."""

from .certificate import Certificate, Labellings, Points, load_certificate
from .verify import Report, verify

__all__ = ["Certificate", "Labellings", "Points", "Report", "load_certificate", "verify"]
