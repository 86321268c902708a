"""The command line: `pybundle train | predict | evaluate | verify | path | bench | demo | info`.

Exit codes: 0 done; 1 done, but a run ended before its gap reached the tolerance, or a certificate does not hold; 2 an
error, told in one line on stderr; 130 Ctrl-C; 141 nobody reads the output any more.
"""

import io
import os
import sys
import warnings
from contextlib import suppress

from ..core.exceptions import BundleError, ConvergenceWarning
from .arguments import make_parser


def main(argv=None):
    """Run a command and return its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:      # the shell has closed the stream
            setattr(sys, name, open(os.devnull, "w"))
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):  # with PYTHONUNBUFFERED the stream is raw and may write only a part of a text
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), sys.stdout.encoding, sys.stdout.errors, "", True)
    with warnings.catch_warnings():
        warnings.simplefilter("always", ConvergenceWarning)
        warnings.simplefilter("always", UserWarning)
        # the module `columns` has already compared the names of columns
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        warnings.showwarning = lambda message, *_, **__: _say(f"warning: {str(message).removeprefix('pybundle: ')}")
        try:
            arguments = make_parser().parse_args(argv)
            code = arguments.command(arguments)
            sys.stdout.flush()
            return code
        except KeyboardInterrupt:
            _say("interrupted")
            return 130
        except BrokenPipeError:
            _drop_output()
            return 141
        except MemoryError:
            _say("error: not enough memory for data of this size")
        except OSError as problem:
            of_file = problem.filename is not None and problem.strerror
            _say(f"error: {problem.filename}: {problem.strerror.lower()}" if of_file else f"error: {problem}")
            if not of_file:
                _drop_output()
        except (BundleError, ImportError, ValueError) as problem:       # scikit-learn raises ValueError
            _say(f"error: {problem}")
        return 2


SHELL = {"pass zero_based=True": "give --zero-based", "pass unlabelled=True": "give predict --unlabelled",
         "give label='first'": "give --label first", "pass keep_na=True": "give --keep-na",
         "label must name": "--label must name", "label must be one of": "--label must be one of",
         "n_features = ": "--features ", "pass comment=": "give --comment ",
         "pass multiple_roots=True": "give --multiple-roots", "pass skip_bad=True": "give --skip-bad",
         "skip_bad=True": "--skip-bad",
         "pass separator='blank'": "give --separator blank",
         "another scheme or None": "another --scheme or none"}
"""Replacements for Python names in messages that a shell user reads."""


def _drop_output():
    """Discard the rest of the output, which Python flushes at exit."""
    with suppress(OSError):         # tests replace stdout by a stream without a descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text):
    text = " ".join(str(text).split())
    for python, shell in SHELL.items():
        text = text.replace(python, shell)
    print(f"pybundle: {text}", file=sys.stderr)
