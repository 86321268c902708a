"""Certificates: how they are saved, and how code that shares nothing with the solvers verifies them."""

from .certificate import Certificate, Labellings, Multipliers, Points, load_certificate
from .verify import Report, verify

__all__ = ["Certificate", "Labellings", "Multipliers", "Points", "Report", "load_certificate", "verify"]
