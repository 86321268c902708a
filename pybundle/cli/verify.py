"""`pybundle verify`."""

from __future__ import annotations

from ..proof import load_certificate
from ..proof import verify as check
from .data import read
from .models import constant, kind_of, risk_of_estimator
from .output import print_json


def verify(arguments):
    """Recompute the claims of a certificate from the data; return 0 if all of them hold, else 1."""
    certificate = load_certificate(arguments.certificate)
    data = read(arguments)
    C = constant(arguments).get("C")
    report = check(certificate, risk_of_estimator(kind_of(arguments, data), arguments, data), arguments.exact,
                   lam=None if C is None else 1.0 / C)
    if arguments.json:
        print_json({"ok": report.ok, "fun": report.fun, "lower_bound": report.lower_bound, "gap": report.gap,
                    "evidence": report.evidence, "problem": report.problem, "believed": report.believed,
                    "checks": [{"name": name, "ok": ok, "text": text} for name, ok, text in report.checks]})
    else:
        print(f"{arguments.certificate} on {data.describe()}")
        print(report)
    return 0 if report.ok else 1
