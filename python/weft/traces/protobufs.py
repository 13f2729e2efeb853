"""Common parts of the readers of protobuf formats: reading a whole file, distinguishing formats, and small schemas.

A protobuf does not name its format. Readers therefore look at the numbers and types of its first fields before they
decode it with Google's library.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from weft.traces.head import open_unpacked

Value = int | bytes
Field = tuple[int, int, Value]  # number, wire type, value
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
BATCH = 1 << 16  # messages that are decoded at once
LARGEST = 2**31 - 1  # bytes; the limit of protobuf itself

_TYPES = {
    "int": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "uint": descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
    "sint": descriptor_pb2.FieldDescriptorProto.TYPE_SINT64,
    "fixed64": descriptor_pb2.FieldDescriptorProto.TYPE_FIXED64,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "double": descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
}


def schema(package: str, messages: dict[str, dict[str, tuple[int, str]]]) -> dict[str, Any]:
    """Classes of messages, by name, for some of the fields of a format, which are given as name: (number, type).

    A type is one of int, uint, sint, fixed64, bool, double and bytes, or the name of a message; a star before it makes
    a list. Text is declared as bytes, because files contain text that is not UTF-8. Unknown fields are skipped.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, (number, type_) in fields.items():
            plain = type_.removeprefix("*")
            added = message.field.add(name=field, number=number)
            added.label = added.LABEL_REPEATED if type_ != plain else added.LABEL_OPTIONAL
            if plain in _TYPES:
                added.type = _TYPES[plain]
            else:
                added.type, added.type_name = added.TYPE_MESSAGE, f".{package}.{plain}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{n}")) for n in messages}


def content(path: Path) -> bytes:
    """A file, decompressed if it is gzipped. Raises ValueError if it is larger than a protobuf may be."""
    with open_unpacked(path) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"{path}: larger than 2 GiB, which no protobuf message may be")
    return data


def parse(path: Path, message: Any, data: bytes, what: str) -> Any:
    """A message of this class from its bytes. Raises ValueError if they are damaged or cut short."""
    parsed = message()
    try:
        parsed.ParseFromString(data)
    except DecodeError as error:
        raise ValueError(f"{path}: {what} that is damaged or cut short ({error})") from None
    return parsed


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A variable-length integer at an offset, and the offset after it. Raises IndexError at the end of the data."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("an integer has more than 64 bits")


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message, up to the end of the data. Raises ValueError if the data are not a protobuf.

    The last field may be cut short: bytes are then shorter than they should be, and a number is left out.
    """
    at = 0
    while at < len(data):
        try:
            tag, at = varint(data, at)
            number, type_ = tag >> 3, tag & 7
            if number == 0 or type_ not in (VARINT, FIXED64, BYTES, FIXED32):
                raise ValueError(f"field {number} of wire type {type_}")
            if type_ == VARINT:
                value, at = varint(data, at)
                yield number, type_, value
                continue
            length, at = varint(data, at) if type_ == BYTES else (8 if type_ == FIXED64 else 4, at)
        except IndexError:
            return
        yield number, type_, data[at : at + length]
        at += length


def elements(path: Path, data: bytes, number: int, what: str) -> Iterator[NDArray[np.int64]]:
    """The bounds of the elements of the repeated message that makes up a file, in batches of at most BATCH.

    Other fields are skipped. Raises ValueError if the data are damaged or end early.
    """
    at, count, size, tag = 0, 0, len(data), number << 3 | BYTES
    found: list[int] = []
    try:
        while at < size:
            if data[at] == tag:  # the common case, without calls
                length, at = data[at + 1], at + 2
                if length > 0x7F:
                    length, at = varint(data, at - 1)
                if at + length > size:
                    raise IndexError
                found += (at, at + length)
                count += 1
                if len(found) == 2 * BATCH:
                    yield np.array(found, dtype=np.int64).reshape(-1, 2)
                    found = []
            else:
                field, at = varint(data, at)
                if field & 7 == VARINT:
                    length, (_, at) = 0, varint(data, at)
                elif field & 7 == BYTES:
                    length, at = varint(data, at)
                elif field & 7 in (FIXED64, FIXED32):
                    length = 8 if field & 7 == FIXED64 else 4
                else:
                    raise ValueError(f"wire type {field & 7}")
                if at + length > size:
                    raise IndexError
            at += length
    except IndexError:
        raise ValueError(f"{path}: {what} that ends within element {count}; was the file cut short?") from None
    except ValueError as error:
        raise ValueError(f"{path}: {what} that is damaged after element {count} ({error})") from None
    yield np.array(found, dtype=np.int64).reshape(-1, 2)


def delimited(path: Path, data: bytes, what: str) -> Iterator[NDArray[np.int64]]:
    """The bounds of consecutive messages, each preceded by its length, in batches of at most BATCH.

    Raises ValueError if the data are damaged or end early.
    """
    at, count, size = 0, 0, len(data)
    found: list[int] = []
    try:
        while at < size:
            length, at = data[at], at + 1
            if length > 0x7F:
                length, at = varint(data, at - 1)
            if at + length > size:
                raise IndexError
            found += (at, at + length)
            at, count = at + length, count + 1
            if len(found) == 2 * BATCH:
                yield np.array(found, dtype=np.int64).reshape(-1, 2)
                found = []
    except IndexError:
        raise ValueError(f"{path}: {what} that ends within message {count}; was the file cut short?") from None
    except ValueError as error:
        raise ValueError(f"{path}: {what} that is damaged after message {count} ({error})") from None
    yield np.array(found, dtype=np.int64).reshape(-1, 2)


def text(data: bytes | str) -> str:
    """Text of a message; the library returns bytes where they are not UTF-8."""
    return data if isinstance(data, str) else data.decode("utf-8", errors="replace")
