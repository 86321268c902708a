"""The C interface: `pybundle.h`, and the capsule through which a host reaches its functions."""

from __future__ import annotations

from pathlib import Path

from ._api import _C_API

__all__ = ["_C_API", "get_include"]


def get_include() -> str:
    """The folder of `pybundle.h`, to compile against.

    >>> from pathlib import Path
    >>> import pybundle as pb
    >>> (Path(pb.get_include()) / "pybundle.h").exists()
    True
    """
    return str(Path(__file__).parent)
