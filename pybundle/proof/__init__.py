"""Save certificates, and verify them by code that shares nothing with the solvers."""

from .certificate import Certificate, Labellings, Multipliers, Points, load_certificate
from .verify import Report, verify

__all__ = ["Certificate", "Labellings", "Multipliers", "Points", "Report", "load_certificate", "verify"]
