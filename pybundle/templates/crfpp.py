"""Read templates from files in the format of CRF++."""

from __future__ import annotations

from ..core.archive import name_of
from ..core.exceptions import ParameterError
from ..core.types import Source
from ..datasets.lines import naming_line, numbered_lines
from .templates import Templates, parsed


def read_crfpp(path: Source) -> Templates:
    """Reads templates of features from a file in the format of CRF++.

    A line that begins with ``U`` is a template, a line ``B`` stands for the weights of neighbouring labels, which
    chains always have; empty lines, and lines that begin with ``#``, are comments.

    Parameters
    ----------
    path : str, path or file
        UTF-8, plain or packed by gzip, bzip2 or xz.

    Returns
    -------
    Templates

    Raises
    ------
    ParameterError
        If a line is none of these, or its macros cannot be read; if ``B`` has features; if there is no ``B``. The
        error names file and line.

    Notes
    -----
    Beside ``%x`` all functions of `Templates` may be used. CRF++ has no weights of the first and the last label, which
    `start=False, end=False` of `ChainCRF` leaves out. A template that occurs twice counts once.

    Examples
    --------
    >>> import io
    >>> import pybundle as pb
    >>> pb.templates.read_crfpp(io.StringIO("U00:%x[-1,0]/%x[0,0]\\nB\\n"))
    Templates(['U00:%x[-1,0]/%x[0,0]'])
    """
    name, lines, transitions = name_of(path), [], None
    for number, line in numbered_lines(path):
        text = line.rstrip("\r\n")
        with naming_line(path, number, line):
            if text.startswith("U"):
                parsed(text)
                lines.append(text)
            elif text.startswith("B"):
                if "%" in text:
                    raise ParameterError("features of pairs of labels are not on offer; write B alone, and the "
                                         "features on a line that begins with U")
                if transitions is not None:
                    raise ParameterError(f"line {transitions} has the weights of neighbouring labels already; take "
                                         "one of the lines out")
                transitions = number
            elif text.strip() and not text.startswith("#"):
                raise ParameterError("a line must begin with U, B or #; write a template as U00:%x[0,0]")
    if not lines:
        raise ParameterError(f"{name} holds no template; write a line such as U00:%x[0,0]")
    if transitions is None:
        raise ParameterError(f"{name} has no line B, but chains have weights of neighbouring labels; add the line B")
    return Templates(lines)
