# The extension's types are not described here: the public modules of weft annotate what they hand out.
from typing import Any

def __getattr__(name: str) -> Any: ...
