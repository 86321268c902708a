from typing import Any

from numpy.typing import ArrayLike

from ..core.types import Array

def max_arborescence(scores: ArrayLike, single_root: bool = False) -> tuple[Array, float]: ...
def __getattr__(name: str) -> Any: ...      # other names are used inside of the package only
