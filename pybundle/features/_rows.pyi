from typing import Any

def kernel_name() -> str: ...
def __getattr__(name: str) -> Any: ...      # the rest is used inside of the package only
