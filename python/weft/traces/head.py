"""The beginning of a file, from which its format is detected."""

from __future__ import annotations

import gzip
import io
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import cast

_LENGTH = 1 << 16


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
        line = self.text.lstrip().split("\n", 1)[0][:60]
        packed = "gzipped, " if self.compressed else ""
        if line.isprintable() and "\ufffd" not in line:
            return f"the file is {packed}text that begins with {line!r}"
        return f"the file is {packed}binary and begins with {self.data[:16].hex(' ')}"


def open_text(path: Path) -> io.TextIOWrapper:
    """Opens a text file, gzipped or not, for reading as UTF-8."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    stream = gzip.open(path) if packed else path.open("rb")  # noqa: SIM115
    return io.TextIOWrapper(cast(io.BufferedReader, stream), encoding="utf-8-sig")


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
