"""The beginning of a file, from which its format is detected."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LENGTH = 1 << 16
_HARMLESS = 1 << 26  # bytes that a gzip file may always expand to
_MOST_EXPANSION = 200  # gzip reaches 1032 with zeros, traces 10 to 50


@dataclass(frozen=True)
class Head:
    """The first 64 KiB of a file, decompressed if it is gzipped."""

    path: Path
    data: bytes
    compressed: bool

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", errors="replace").removeprefix("\ufeff")

    def is_json(self) -> bool:
        """Whether the file begins like a JSON object or array."""
        return self.text.lstrip()[:1] in ("{", "[")

    def describe(self) -> str:
        """A description of the beginning of the file, for messages."""
        if not self.data:
            return "the file is empty"
        if re.match(r'\s*\{\s*"schema"\s*:\s*"\d+\.\d', self.text):
            return (
                "the file is an execution trace of PyTorch, whose operators have no times: give the profiler's trace "
                "of the run, or join both into a .et file with chakra_trace_link and chakra_converter"
            )
        line = self.text.lstrip().split("\n", 1)[0][:60]
        packed = "gzipped, " if self.compressed else ""
        if line.isprintable() and "\ufffd" not in line:
            return f"the file is {packed}text that begins with {line!r}"
        return f"the file is {packed}binary and begins with {self.data[:16].hex(' ')}"


class _Unpacked(io.RawIOBase):
    """A gzipped file that raises an error if it expands without end."""

    def __init__(self, path: Path) -> None:
        self._file = gzip.open(path)  # noqa: SIM115
        self._path, self._size, self._count = path, path.stat().st_size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read1(len(buffer))
        buffer[: len(data)] = data
        self._count += len(data)
        if self._count > _HARMLESS and self._count > _MOST_EXPANSION * self._size:
            raise ValueError(
                f"{self._path}: the gzip file expands to more than {_MOST_EXPANSION} times its {self._size} bytes, "
                "which no trace does; unpack it first if it is one"
            )
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def open_unpacked(path: Path) -> io.BufferedReader:
    """Opens a file for reading, decompressing it if it is gzipped. Reading raises ValueError for a gzip bomb."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return io.BufferedReader(_Unpacked(path), 1 << 20) if packed else path.open("rb")


def open_text(path: Path) -> io.TextIOWrapper:
    """Opens a text file, gzipped or not, for reading as UTF-8."""
    return io.TextIOWrapper(open_unpacked(path), encoding="utf-8-sig")


def look(path: str | Path) -> Head:
    """The head of a file. Raises OSError if the file cannot be opened, and ValueError if it is damaged there."""
    path = Path(path)
    outer = path.parent if path.parent.is_file() else path  # the name of a run inside an archive
    with outer.open("rb") as file:
        data = file.read(_LENGTH)
    if data[:2] != b"\x1f\x8b":
        return Head(path, data, False)
    try:
        with gzip.open(outer) as packed:
            return Head(path, packed.read(_LENGTH), True)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        pass
    unpacked = b""
    try:  # damaged further on, but what precedes the damage still identifies the format
        unpacked = zlib.decompressobj(31).decompress(data, _LENGTH)
    except zlib.error as error:
        raise ValueError(f"{path}: the gzip file is damaged at its beginning ({error})") from None
    return Head(path, unpacked, True)
