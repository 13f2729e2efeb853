"""Case files and their errors, for every workload.

A case is a tree of pydantic models. Every leaf has a default, a unit and one line of help (`option`); a key is the path
to a leaf, joined by dots (`solver.tolerance`). A field made with `named` holds any number of tables or values under
names that the case chooses (`materials.glass.epsilon`); such keys are listed with `<name>` in place of the name. An
invalid case raises CaseError, whose message gives the key, what was found, what is allowed and, for an unknown key,
the nearest known one.
"""

from __future__ import annotations

import difflib
import math
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import pydantic
from pydantic.fields import FieldInfo

from weft.errors import CaseError


class Section(pydantic.BaseModel):
    """A table of a case file."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True, validate_default=True, allow_inf_nan=False)


class Case(Section):
    """The root of a case file; `workload` is the command's name."""


C = TypeVar("C", bound=Case)


LARGEST = 2**31 - 1  # limit of integers without a limit of their own: the solvers use 32-bit integers


def option(
    default: Any,
    help: str,
    *,
    unit: str = "",
    alias: str | None = None,
    sets: str = "",
    instead_of: Sequence[str] = (),
    **limits: Any,
) -> Any:
    """A leaf of a case: its default, one line of help, its unit ("" for a pure number or a word) and its limits.

    ``sets``: the solver option that receives the value; a dotted name such as "forcing.radius" is a nested option.
    ``instead_of``: the keys that this one replaces when it is given on the command line, such as "time.end".
    """
    extra: dict[str, pydantic.JsonValue] = {"unit": unit, "sets": sets, "instead_of": list(instead_of)}
    if type(default) is int and not limits.keys() & {"le", "lt"}:
        limits["le"] = LARGEST
    return pydantic.Field(default, description=help, json_schema_extra=extra, alias=alias, **limits)


def section(model: type[Section]) -> Any:
    """A nested table, with its own defaults."""
    return pydantic.Field(default_factory=model)


def named(help: str = "", *, unit: str = "") -> Any:
    """A field `dict[str, kind]`: tables (a Section) or values under names that the case chooses; none by default."""
    return pydantic.Field(default_factory=dict, description=help, json_schema_extra={"unit": unit})


NAME = "<name>"  # placeholder, in listed keys, for a name that the case chooses


@dataclass(frozen=True)
class Option:
    """One leaf of a case, as `weft cases` prints it."""

    key: str
    default: object
    unit: str
    allowed: str
    help: str
    sets: str = ""
    instead_of: tuple[str, ...] = ()


def _section(kind: object) -> type[Section] | None:
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def _section_of(field: FieldInfo) -> type[Section] | None:
    return _section(field.annotation)


def _named_kind(field: FieldInfo) -> object:
    """What a field made with `named` holds under each name; None for other fields."""
    return typing.get_args(field.annotation)[1] if typing.get_origin(field.annotation) is dict else None


def options(model: type[Section], prefix: str = "") -> Iterator[Option]:
    """Every leaf of a case, in the order of its declaration."""
    for name, field in model.model_fields.items():
        key = prefix + (field.alias or name)
        nested = _section_of(field)
        if nested is not None:
            yield from options(nested, key + ".")
            continue
        inside = _section(_named_kind(field))
        if inside is not None:
            yield from options(inside, f"{key}.{NAME}.")
            continue
        unit = _extra(field, "unit")
        if _named_kind(field) is not None:
            words = _kind(_named_kind(field))
            yield Option(f"{key}.{NAME}", None, unit, words, field.description or "")
        else:
            text = field.description or ""
            yield Option(key, field.default, unit, allowed(field), text, _sets(field), _instead_of(field))


def _extra(field: FieldInfo, name: str) -> str:
    extra = field.json_schema_extra
    return str(extra.get(name, "")) if isinstance(extra, Mapping) else ""


def _instead_of(field: FieldInfo) -> tuple[str, ...]:
    extra = field.json_schema_extra
    found = extra.get("instead_of", ()) if isinstance(extra, Mapping) else ()
    return tuple(map(str, found)) if isinstance(found, list) else ()


def _sets(field: FieldInfo) -> str:
    return _extra(field, "sets")


def settings(table: Section, into: dict[str, Any] | None = None) -> dict[str, Any]:
    """The solver options that a table sets, by name, as keyword arguments of the solver.

    Tables under names that the case chooses are not included: call this function for each of them.
    """
    found: dict[str, Any] = {} if into is None else into
    for name, field in type(table).model_fields.items():
        value = getattr(table, name)
        if isinstance(value, Section):
            settings(value, found)
        elif _sets(field):
            *path, last = _sets(field).split(".")
            place = found
            for part in path:
                place = place.setdefault(part, {})
            place[last] = value
    return found


def allowed(field: FieldInfo) -> str:
    """What a leaf accepts, in words."""
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    found = [(word, getattr(m, name)) for m in field.metadata for name, word in words.items() if hasattr(m, name)]
    limits = [f"{word} {limit}" for word, limit in found if limit != LARGEST]
    return ", ".join([_kind(field.annotation), *limits])


def _kind(kind: object) -> str:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _kind(arguments[0])
    if origin is typing.Literal:
        return " | ".join(str(a) for a in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_kind(a) for a in arguments if a is not type(None))
    if origin is tuple:
        item = _kind(arguments[0])
        item = f"({item})" if " or " in item else item
        return f"list: {item}" if arguments[-1] is ... else f"list of {len(arguments)}: {item}"
    names: dict[object, str] = {int: "integer", float: "number", bool: "true | false", str: "text"}
    return names.get(kind, str(kind))


def load(
    model: type[C],
    source: str | None = None,
    flags: Mapping[str, object] | None = None,
    assignments: Sequence[str] = (),
) -> C:
    """Loads and validates a case.

    The values come from the defaults, the case file or named case, the flags and the `key=value` assignments; each
    overrides those before it. `source` is a path to a TOML file, or the name of a case that comes with weft. Raises
    CaseError if the case is invalid.
    """
    values = _read(model, source) if source else {}
    given = dict(flags or {})
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals:
            raise CaseError(f"--set {text}: expected key=value, as in --set order=9")
        given[key.strip()] = literal(value.strip())
    _displace(model, values, given)
    for key, entry in given.items():
        _assign(model, values, key, entry)
    try:
        return model.model_validate(_integers_as_numbers(model, values))
    except pydantic.ValidationError as error:
        raise CaseError(_explain(model, error)) from None


def named_cases(workload: str) -> dict[str, str]:
    """The cases that come with weft for a workload: name -> TOML text."""
    folder = resources.files("weft.cases") / "files" / workload
    if not folder.is_dir():
        return {}
    return {
        f.name.removesuffix(".toml"): f.read_text()
        for f in sorted(folder.iterdir(), key=lambda f: f.name)
        if f.name.endswith(".toml")
    }


def workload_name(model: type[Case]) -> str:
    """The name a workload has on the command line and under `workload` in its case files."""
    return str(model.model_fields["workload"].default)


def _read(model: type[Case], source: str) -> dict[str, Any]:
    workload = workload_name(model)
    known = named_cases(workload)
    if source in known:
        text = known[source]
    elif not source.endswith(".toml") and not Path(source).exists():
        near = _nearest(source, known)
        raise CaseError(f"--case {source}: no such case{near}; known: {', '.join(known)}, or the path of a .toml file")
    else:
        try:
            text = Path(source).read_text(encoding="utf-8-sig")  # as TOML is, in any locale; editors may add a mark
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a text file"
            raise CaseError(f"--case {source}: cannot be read: {reason}") from None
    try:
        values = tomllib.loads(text)
    except ValueError as error:  # also that of Python for integers of thousands of digits
        raise CaseError(f"{source}: not valid TOML: {error}") from None
    except RecursionError:
        raise CaseError(f"{source}: not valid TOML: lists or tables are nested too deeply") from None
    found = values.get("workload", workload)
    if found != workload:
        raise CaseError(f"{source}: key 'workload': found {found!r}, but this command runs {workload!r}")
    return values


def literal(text: str) -> object:
    """A value, parsed as in a case file; bare words are text."""
    try:
        found = tomllib.loads(f"v = {text}")
    except (ValueError, RecursionError):
        return text
    return found["v"] if len(found) == 1 else text  # several lines are not one value


def _assign(model: type[Case], values: dict[str, Any], key: str, value: Any) -> None:
    keys = [o.key for o in options(model)]
    inside = [k for k in keys if _like(key, k.split(".")[: key.count(".") + 1]) and not _like(key, k.split("."))]
    if inside:
        raise CaseError(f"case key '{key}' is a table; its keys: {', '.join(inside)}")
    if not any(_like(key, k.split(".")) for k in keys):
        raise CaseError(_unknown(key, keys))
    *path, last = key.split(".")
    for part in path:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise CaseError(f"case key '{part}': found {values!r}, expected a table")
    values[last] = value


def _displace(model: type[Case], values: dict[str, Any], given: Mapping[str, object]) -> None:
    """Removes from a case the keys that the command line replaces, such as time.end if time.steps is given."""
    known = {leaf.key: leaf for leaf in options(model)}
    for key, value in given.items():
        for other in known[key].instead_of if key in known and _says(value) else ():
            if _says(given.get(other)):
                raise CaseError(f"case keys '{key}' and '{other}' are both given on the command line; give one of them")
            *path, name = other.split(".")
            table: object = values
            for part in path:
                table = table.get(part) if isinstance(table, dict) else None
            if isinstance(table, dict):
                table.pop(name, None)


def _says(value: object) -> bool:
    """Whether a value on the command line decides anything: 0, zeros and "" leave the choice to other keys."""
    return any(value) if isinstance(value, list) else bool(value)


def _like(key: str, pattern: Sequence[str]) -> bool:
    """Whether a key matches a listed key, given as its parts."""
    parts = key.split(".")
    return len(parts) == len(pattern) and all(p == q or (q == NAME and p) for p, q in zip(parts, pattern, strict=True))


def _integers_as_numbers(model: type[Section], values: Mapping[str, object]) -> dict[str, object]:
    """Converts integers to floats and TOML lists to tuples where the model wants them: strict validation does not."""

    def convert(kind: object, value: object) -> object:
        if kind is float and type(value) is int:
            try:
                return float(value)
            except OverflowError:
                return math.inf if value > 0 else -math.inf
        if typing.get_origin(kind) is tuple and isinstance(value, list):
            kinds = [k for k in typing.get_args(kind) if k is not ...]
            return tuple(convert(kinds[min(i, len(kinds) - 1)], v) for i, v in enumerate(value))
        if typing.get_origin(kind) in (typing.Union, types.UnionType):
            for part in typing.get_args(kind):
                converted = convert(part, value)
                if type(converted) is not type(value):
                    return converted
        if typing.get_origin(kind) is typing.Annotated:
            return convert(typing.get_args(kind)[0], value)
        return value

    fields = {f.alias or n: f for n, f in model.model_fields.items()}
    result: dict[str, object] = {}
    for key, value in values.items():
        field = fields.get(key)
        nested = _section_of(field) if field else None
        kind = _named_kind(field) if field else None
        if nested is not None and isinstance(value, dict):
            result[key] = _integers_as_numbers(nested, value)
        elif kind is not None and isinstance(value, dict):
            inside = _section(kind)
            result[key] = {
                name: _integers_as_numbers(inside, item) if inside and isinstance(item, dict) else convert(kind, item)
                for name, item in value.items()
            }
        else:
            result[key] = convert(field.annotation, value) if field else value
    return result


def _nearest(word: str, known: Iterable[str]) -> str:
    # A key is also near if its last part is ("tolerance" for "solver.tolerance"), or if the name of its table is.
    known = list(known)
    tables = [table for k in known if "." in k for table in (k.rpartition(".")[0], k.partition(".")[0])]
    known = [*known, *dict.fromkeys(tables)]
    close = difflib.get_close_matches(word, known, 1, 0.6)
    if not close:
        by_leaf = {k.rsplit(".", 1)[-1]: k for k in known}
        close = [by_leaf[k] for k in difflib.get_close_matches(word.rsplit(".", 1)[-1], list(by_leaf), 1, 0.7)]
    return f"; nearest: '{close[0]}'" if close else ""


def _unknown(key: str, keys: Sequence[str]) -> str:
    # For a key under a name that the case chose (materials.glass.eps), suggest keys under the same name.
    parts = key.split(".")
    for pattern in [k.split(".") for k in keys if NAME in k]:
        at = pattern.index(NAME)
        if len(parts) > at + 1 and parts[:at] == pattern[:at]:
            keys = [*keys, ".".join([*parts[: at + 1], *pattern[at + 1 :]])]
    near = _nearest(key, keys)
    return f"unknown case key '{key}'{near or '; known: ' + ', '.join(keys)}"


def _explain(model: type[Case], error: pydantic.ValidationError) -> str:
    """The first error, in words."""
    detail = error.errors(include_url=False)[0]
    path = [str(p) for p in detail["loc"]]
    leaves = list(options(model))
    key = ".".join(path)
    if detail["type"] == "extra_forbidden":
        return _unknown(key, [o.key for o in leaves])
    # Inside a list pydantic appends the index of the bad item; the user typed the leaf.
    found = detail["input"]
    item = ""
    while path and (leaf := _leaf(path, leaves)) is None:
        index = path.pop()
        item = "" if detail["type"] == "missing" else f"item {index} is "
    if not path:
        if detail["type"] == "value_error":  # from a check of several keys
            text = str(detail["ctx"]["error"])
            return text if text.startswith("case key") else f"case key '{key}': {text}"
        return f"case key '{key}': found {found!r}, expected a table"
    assert leaf is not None
    unit = f" [{leaf.unit}]" if leaf.unit else ""
    reason = f" ({detail['ctx']['error']})" if detail["type"] == "value_error" else ""
    text = "not a number" if isinstance(found, float) and math.isnan(found) else repr(found)
    wanted = leaf.allowed
    if detail["type"] == "less_than_equal" and detail["ctx"]["le"] == LARGEST:
        wanted += f", at most {LARGEST}"
    if leaf.default is not None:
        wanted += f" (default {toml_value(leaf.default)})"
    return f"case key '{'.'.join(path)}'{unit}: found {item}{text}{reason}; allowed: {wanted}"


def _leaf(path: Sequence[str], leaves: Sequence[Option]) -> Option | None:
    """The listed option to which a path belongs; a name is one part of the path, even if it has dots."""
    for leaf in leaves:
        pattern = leaf.key.split(".")
        if len(pattern) == len(path) and all(p in (q, NAME) for p, q in zip(pattern, path, strict=True)):
            return leaf
    return None


def toml_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return "[" + ", ".join(toml_value(v) for v in value) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def to_toml(model: type[Case]) -> str:
    """A complete case file with every default, unit and line of help, as `weft cases WORKLOAD --toml` writes it."""
    lines: list[str] = []
    table = ""
    leaves = list(options(model))
    # In TOML the keys of the root come before any table, and those of a table before any other table.
    tables = list(dict.fromkeys(["", *(leaf.key.rpartition(".")[0] for leaf in leaves)]))
    for leaf in sorted(leaves, key=lambda leaf: tables.index(leaf.key.rpartition(".")[0])):
        head, _, name = leaf.key.rpartition(".")
        # Keys under a name that the case chooses are shown, not set.
        mark = "# " if NAME in leaf.key else ""
        if head != table:
            lines += ["", f"{mark}[{head}]"]
            table = head
        unit = f" [{leaf.unit}]" if leaf.unit else ""
        value = "..." if leaf.default is None else toml_value(leaf.default)
        lines.append(f"{mark}{name} = {value}  #{unit} {leaf.help} ({leaf.allowed})")
    return "\n".join(lines) + "\n"
