"""What the readers of protobuf formats share: reading a file whole, telling kinds apart, and small schemas.

A protobuf does not say what it is. Readers therefore look at the numbers and types of its first fields before they
decode it with Google's library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    """Classes of messages, by name, that know some of the fields of a format: by name their number and type.

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


def wire_types(fields: Mapping[str, tuple[int, str]]) -> dict[int, int]:
    """The wire type of each field, by number, of a message as `schema` takes it."""
    special = {"fixed64": FIXED64, "double": FIXED64, "int": VARINT, "uint": VARINT, "sint": VARINT, "bool": VARINT}
    return {number: special.get(type_.removeprefix("*"), BYTES) for number, type_ in fields.values()}


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
    """The fields of a message, up to the end of the data. Raises ValueError where the data are no protobuf.

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
    """Where the elements of the repeated message that makes up a file begin and end, in batches of at most BATCH.

    Other fields are skipped. Raises ValueError where the data are damaged or end early.
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


@dataclass(frozen=True)
class Column:
    """A field of many messages: of each occurrence the message it is in, its value, and where its bytes begin.

    Values are those of numbers, as int64, or the lengths of bytes. Occurrences are in the order of messages.
    """

    owner: NDArray[np.int64]
    value: NDArray[np.int64]
    at: NDArray[np.int64]

    def last(self, count: int, default: int = 0) -> NDArray[np.int64]:
        """The value in each of so many messages, the last one where there are several."""
        found = np.full(count, default, dtype=np.int64)
        found[self.owner] = self.value
        return found

    def texts(self, data: bytes, count: int) -> list[bytes]:
        """The bytes in each of so many messages, the last ones where there are several; empty where there are none."""
        found = [b""] * count
        for owner, at, length in zip(self.owner.tolist(), self.at.tolist(), self.value.tolist(), strict=True):
            found[owner] = data[at : at + length]
        return found

    def bounds(self) -> NDArray[np.int64]:
        """Where the bytes of each occurrence begin and end."""
        return np.stack((self.at, self.at + self.value), axis=1)


class Decoder:
    """Decodes fields of many messages at once, field by field over all messages, with numpy.

    This takes about 50 ns per field, where Google's library and Python need some hundreds.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        padded = data + bytes(16)
        self._bytes = np.frombuffer(padded, dtype=np.uint8)
        self._words = np.ndarray(len(data) + 8, dtype="<u8", buffer=padded, strides=(1,))  # eight bytes from each one

    def varints(self, at: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The variable-length integers at these offsets, and their lengths. Raises ValueError if one has no end."""
        word = self._words[at]
        ends = ~word & np.uint64(0x8080808080808080)
        low = ends & (~ends + np.uint64(1))
        mask = (low << np.uint64(1)) - np.uint64(1)  # all eight bytes where none of them ends the integer
        length = np.bitwise_count(mask).astype(np.int64) >> 3
        value = word & mask & np.uint64(0x7F7F7F7F7F7F7F7F)
        for keep, move, by in _SQUEEZE:
            value = ((value & move) >> by) | (value & keep)
        long = np.flatnonzero(ends == 0)
        if len(long):
            ninth, tenth = self._bytes[at[long] + 8], self._bytes[at[long] + 9]
            more = ninth >= 0x80
            if np.any(more & (tenth >= 0x80)):
                raise ValueError("an integer has more than 64 bits")
            value[long] |= (ninth & 0x7F).astype(np.uint64) << np.uint64(56)
            value[long] |= np.where(more, tenth & 1, 0).astype(np.uint64) << np.uint64(63)
            length[long] = 9 + more
        return value, length

    def columns(
        self, bounds: NDArray[np.int64], wanted: Mapping[int, int]
    ) -> tuple[dict[int, Column], NDArray[np.bool_]]:
        """The wanted fields, by number, of the messages within these bounds, and which messages have other fields.

        `wanted` gives the wire type of each field. Raises ValueError if a message is damaged.
        """
        tags = {number << 3 | type_: number for number, type_ in wanted.items()}
        parts: dict[int, list[tuple[NDArray[np.int64], ...]]] = {number: [] for number in wanted}
        strange = np.zeros(len(bounds), dtype=bool)
        owner = np.arange(len(bounds))
        at, end = bounds[:, 0], bounds[:, 1]
        while len(inside := np.flatnonzero(at < end)):
            owner, at, end = owner[inside], at[inside], end[inside]
            tag, length = self.varints(at)
            at = at + length
            type_ = tag & np.uint64(7)
            if np.any(tag < 8) or np.any((type_ > 2) & (type_ != FIXED32)):
                raise ValueError("a field has no number or an unknown type")
            if np.any(at > end):
                raise ValueError("a field reaches beyond its message")
            value, length = self.varints(at)
            fixed = np.flatnonzero(type_ & np.uint64(1))
            if len(fixed):
                four = type_[fixed] == FIXED32
                word = self._words[at[fixed]]
                value[fixed] = np.where(four, word & np.uint64(0xFFFFFFFF), word)
                length[fixed] = np.where(four, 4, 8)
            number = value.view(np.int64)
            at = at + length
            size = np.where(type_ == BYTES, number, 0)
            if np.any((size < 0) | (size > end - at)):
                raise ValueError("a field reaches beyond its message")
            known = 0
            for one in np.unique(tag).tolist():
                if one in tags:
                    mine = np.flatnonzero(tag == np.uint64(one))
                    parts[tags[one]].append((owner[mine], number[mine], at[mine]))
                    known += len(mine)
            if known < len(tag):
                strange[owner[~np.isin(tag, np.array([*tags], dtype=np.uint64))]] = True
            at = at + size
        return {number: _column(found) for number, found in parts.items()}, strange


_SQUEEZE = tuple(
    (np.uint64(keep), np.uint64(move), np.uint64(by))
    for keep, move, by in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)


def _column(parts: list[tuple[NDArray[np.int64], ...]]) -> Column:
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return Column(none, none, none)
    owner, value, at = (np.concatenate(column) for column in zip(*parts, strict=True))
    if len(parts) == 1:
        return Column(owner, value, at)
    order = np.argsort(owner, kind="stable")
    return Column(owner[order], value[order], at[order])


def text(data: bytes | str) -> str:
    """Text of a message; the library returns bytes where they are not UTF-8."""
    return data if isinstance(data, str) else data.decode("utf-8", errors="replace")
