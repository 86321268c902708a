"""Certificates: how they are saved, and how code that shares nothing with the solvers verifies them."""

from .certificate import Certificate, load_certificate
from .evidence import Labellings, Multipliers, Points
from .verify import Report, verify

__all__ = ["Certificate", "Labellings", "Multipliers", "Points", "Report", "load_certificate", "verify"]
