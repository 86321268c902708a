from typing import Any

def kernel_name() -> str: ...
def __getattr__(name: str) -> Any: ...      # other names are used inside of the package only
