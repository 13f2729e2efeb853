"""Functions of a user, of NumPy arrays x, y, z and perhaps t."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any


def takes_time(function: Callable[..., Any]) -> bool:
    """Whether a function depends on t: f(x, y, z, t) rather than f(x, y, z). Raises ValueError if it is neither."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # not every built-in function has one
        return True
    for places in (4, 3):
        with contextlib.suppress(TypeError):
            signature.bind(*range(places))
            return places == 4
    name = getattr(function, "__name__", "a function")
    raise ValueError(f"{name}{signature} must be a function of x, y, z and t, or of x, y and z if it is steady")
