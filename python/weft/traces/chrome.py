"""Streaming reader of Chrome trace events, the JSON that Perfetto opens. weft, Kineto and rocprof write dialects of it.

The file is never held in memory as a whole, and the objects of an event live only until the next event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from weft.traces.head import open_text

Event = dict[str, object]
Shape = TypeVar("Shape")


class Span(msgspec.Struct, gc=False):
    """The fields of an event that readers use. A reader adds `args`; other fields are skipped, not stored."""

    ph: Any = None
    cat: Any = ""
    name: Any = msgspec.UNSET
    pid: Any = msgspec.UNSET
    tid: Any = msgspec.UNSET
    ts: Any = None
    dur: Any = None

    def check(self) -> None:
        """Raises KeyError if the event has no name, process or thread."""
        for field in ("name", "pid", "tid"):
            if getattr(self, field) is msgspec.UNSET:
                raise KeyError(field)


_WINDOW = 1 << 20  # characters
_GAP = re.compile(r"[\s,]*")
_BETWEEN = re.compile(r"\}\s*,\s*\{")
_SPACE = re.compile(r"\s*")


class Events(Generic[Shape]):
    """Iterates over the objects in the array `traceEvents`, or in the outermost array of the file.

    Each becomes a `Shape`: a dict, or a struct such as `Span`, which is several times as fast. `header` has the other
    values of the file once the iteration has ended. Numbers with a fraction are returned as text, so that no
    nanosecond is lost. Raises ValueError if the file is not such JSON or ends early.
    """

    def __init__(self, path: Path, shape: type[Shape], key: str = "traceEvents") -> None:
        self.path, self.shape, self.key = path, shape, key
        self._fast = msgspec.json.Decoder(list[shape], float_hook=str)  # type: ignore[valid-type]
        self.header: dict[str, object] = {}
        self.count = 0
        self._decode, self._in_bulk = json.JSONDecoder(parse_float=str).raw_decode, True
        self._text, self._at, self._done = "", 0, False
        self._file = open_text(path)

    def __iter__(self) -> Iterator[Shape]:
        with self._file:
            self._skip(_SPACE)
            found = False
            if self._peek() == "[":
                found = True
                yield from self._array()
            elif self._peek() == "{":
                self._at += 1
                while self._skip(_GAP) and self._peek() != "}":
                    name = self._value()
                    self._skip(_SPACE)
                    if not isinstance(name, str) or self._peek() != ":":
                        raise self._error("not a valid JSON object")
                    self._at += 1
                    self._skip(_SPACE)
                    if name == self.key and self._peek() == "[":
                        found = True
                        yield from self._array()
                    else:
                        self.header[name] = self._value()
                if self._peek() != "}":
                    raise self._error(f"the JSON ends early, after event {self.count}; was the file cut short?")
            if not found:
                names = ", ".join(f"'{n}'" for n in list(self.header)[:12]) or "nothing"
                raise self._error(f"the JSON has no array '{self.key}'; it has {names}")

    def _array(self) -> Iterator[Shape]:
        self._at += 1
        while True:
            self._skip(_GAP)
            if self._peek() == "]":
                self._at += 1
                return
            many = self._many()
            self.count += len(many)
            yield from many
            event = self._value()
            if not isinstance(event, dict):
                raise self._error(f"event {self.count} is {json.dumps(event)[:40]}, not an object")
            try:
                one = msgspec.convert(event, self.shape)
            except msgspec.ValidationError as error:
                raise self._error(f"event {self.count} cannot be read ({error})") from None
            self.count += 1
            yield one

    def _many(self) -> list[Shape]:
        """The objects up to the last one that certainly ends in the text at hand, decoded together for speed; or none.

        The cut is where '}, {' separates two objects. If it is elsewhere than between two events, what precedes it is
        not balanced and cannot be decoded.
        """
        end = self._text.rfind("}", self._at, len(self._text) - 1) if self._in_bulk else -1
        while end > self._at and not _BETWEEN.match(self._text, end):
            end = self._text.rfind("}", self._at, end)
        if end <= self._at:
            return []
        try:
            events = self._fast.decode(f"[{self._text[self._at : end + 1]}]")
        except (ValueError, RecursionError):
            self._in_bulk = False
            return []
        self._at = end + 1
        self._skip(_GAP)
        return events

    def _value(self) -> object:
        while True:
            try:
                value, end = self._decode(self._text, self._at)
                if end < len(self._text) or not self._more():
                    self._at = end
                    return value
            except json.JSONDecodeError as error:
                if not self._more():
                    reason = (
                        f"the JSON ends early or is damaged after event {self.count} ({error.msg}); was it cut short?"
                    )
                    raise self._error(reason) from None
            except RecursionError:
                raise self._error(f"the JSON nests too deeply after event {self.count}") from None
            except ValueError as error:  # a number with thousands of digits
                raise self._error(f"a value after event {self.count} cannot be read ({error})") from None

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        while True:
            match = pattern.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text) or not self._more():
                return self._at < len(self._text)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _more(self) -> bool:
        """Reads more text and drops used text. Doubles the window for long values to keep the cost linear."""
        chunk = self._file.read(max(_WINDOW, len(self._text) - self._at)) if not self._done else ""
        self._done = not chunk
        self._text, self._at = self._text[self._at :] + chunk, 0
        return bool(chunk)

    def _error(self, reason: str) -> ValueError:
        return ValueError(f"{self.path}: {reason}")


def arguments(event: Event) -> dict[str, object]:
    """The `args` of an event, empty if it has none. Raises ValueError if they are not an object."""
    found = event.get("args") or {}
    if not isinstance(found, dict):
        raise ValueError("'args' is not an object")
    return found


def nanoseconds(microseconds: object) -> int:
    """A time in microseconds, given as an int or as text, in whole nanoseconds (rounded down)."""
    if type(microseconds) is int:
        return microseconds * 1000
    if type(microseconds) is str:
        try:
            if microseconds[-4:-3] == "." and len(microseconds) < 24:  # as most profilers write
                return int(microseconds[:-4] + microseconds[-3:])
            value = Decimal(microseconds)
            if value.is_finite() and value.adjusted() < 19:
                return int(value.scaleb(3))
        except (ValueError, InvalidOperation):
            pass
    raise ValueError(f"{json.dumps(microseconds)[:40]} is not a time in microseconds")


def integer(value: object, default: int = -1) -> int:
    """A 64-bit integer, given as an int or as text; the default for anything else."""
    if type(value) is int:
        return value if -(2**63) <= value < 2**63 else default
    if type(value) is str and len(value) < 19:
        try:
            return int(value, 0) if value[:2] == "0x" else int(value)
        except ValueError:
            return default
    return default
