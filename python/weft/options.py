"""Keyword arguments of Python functions that are members of the extension's option structs, which check them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Made = TypeVar("Made", bound=Callable[..., Any])


class _Shown(str):
    """The text of a struct default, for signatures; the struct itself would live until the interpreter exits."""

    __repr__ = str.__str__


def by_name(options: Any, *, hidden: Iterable[str] = ()) -> Callable[[Made], Made]:
    """Decorates a function whose ``**options`` are members of a struct: help and editors show them with their defaults.

    ``hidden``: members that the function fills from arguments of its own.
    """

    def decorate(function: Made) -> Made:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        taken, default = {p.name for p in own} | set(hidden), options()
        members = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_plain(getattr(default, name)))
            for name in options.fields
            if name not in taken
        ]
        function.__signature__ = signature.replace(parameters=[*own, *members])  # type: ignore[attr-defined]
        return function

    return decorate


def _plain(value: object) -> object:
    return _Shown(repr(value)) if hasattr(value, "fields") else value
