"""Check a certificate against the data (`pybundle verify`)."""

import shlex

from ..core.exceptions import ParameterError
from ..proof import load_certificate
from ..proof import verify as check
from .arguments import make_parser
from .data import OPTIONS, read
from .models import constant, kind_of, prepared
from .output import print_json

STATED = (*OPTIONS, "format", "model", "no_intercept", "scale", "hash_bits", "min_count", "token_weights",
          "scheme", "repair", "no_relations", "no_punctuation", "groups")
"""Options that define the risk; a certificate of `train` holds them."""


def verify(arguments):
    """Recompute the claims of a certificate from the data; return 0 if all of them hold, else 1."""
    certificate = load_certificate(arguments.certificate)
    if certificate.options:
        _take(arguments, certificate.options)
    data = read(arguments)
    C = constant(arguments).get("C")
    report = check(certificate, prepared(kind_of(arguments, data), arguments, data)[1], arguments.exact,
                   lam=None if C is None else 1.0 / C)
    if arguments.json:
        print_json({"ok": report.ok, "fun": report.fun, "lower_bound": report.lower_bound, "gap": report.gap,
                    "evidence": report.evidence, "problem": report.problem, "believed": report.believed,
                    "options": certificate.options,
                    "checks": [{"name": name, "ok": ok, "text": text} for name, ok, text in report.checks]})
    else:
        print(f"{arguments.certificate} on {data.describe()}, {shlex.join(certificate.options)}".rstrip(", "))
        print(report)
    return 0 if report.ok else 1


def stated(arguments, kind, data):
    """Return the options of a training that define its risk, as they are written on a command line."""
    given = {name: getattr(arguments, name) for name in STATED} | {"model": kind, "format": data.columns.format}
    return tuple(_written(name, value) for name, value in given.items() if value)


def _written(name, value):
    text = ",".join(value) if isinstance(value, list) else value
    return f"--{name.replace('_', '-')}" + ("" if value is True else f"={text}")


def _take(arguments, options):
    """Add the options of a certificate to the arguments; raise ParameterError if a different option was given."""
    known = {_written(name, True) for name in STATED}
    parsed = make_parser().parse_args(["verify", "-", "--certificate=-", *(
        option for option in options if option.partition("=")[0] in known)])
    for name in STATED:
        given = getattr(arguments, name)
        if given and name == "groups":          # the file of groups may be renamed
            continue
        if given and _written(name, given) not in options:
            raise ParameterError(f"{_written(name, given)} is no option of the certificate, which was made with "
                                 f"{shlex.join(options)}; leave it out")
        setattr(arguments, name, getattr(parsed, name))
