"""Beginnings and ends of slices in batches of Perfetto's packets, by columns, and their pairs."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from weft.traces.protobuf_columns import Decoder, Texts, combinations

BEGIN, END = 1, 2  # types of track events
CLEARED = 1  # flag of a packet: incremental state is cleared

# Fields, with their wire types, of packets that only begin or end a slice, and of their contents. Users and processes
# of writers, lost-packet flags, flows and source locations are ignored.
_PACKET = {3: 0, 8: 0, 10: 0, 11: 2, 13: 0, 42: 0, 58: 0, 79: 0, 87: 0}
_EVENT = {3: 0, 4: 2, 9: 0, 10: 0, 11: 0, 22: 2, 23: 2, 34: 0, 36: 0, 42: 0, 47: 1, 48: 1}
_ANNOTATION = {1: 0, 3: 0, 4: 0, 10: 2}


class Slices:
    """Columns of a batch of packets. The rows of packets that are more than a beginning or an end are void.

    Plain packets have a time and an event, and both have only the fields listed above.
    """

    def __init__(self, decoder: Decoder, bounds: NDArray[np.int64], texts: Texts) -> None:
        count, data = len(bounds), decoder.data
        packet, strange = decoder.columns(bounds, _PACKET)
        inner = packet[11]
        event, other = decoder.columns(inner.bounds(), _EVENT)
        owner = inner.owner

        def of_packets(values: NDArray[np.int64]) -> NDArray[np.int64]:
            full = np.zeros(count, dtype=np.int64)
            full[owner] = values
            return full

        self.type = of_packets(event[9].last(len(owner)))
        plain = (self.type == BEGIN) | (self.type == END)
        plain &= ~strange & (np.bincount(packet[8].owner, minlength=count) > 0)
        plain &= np.bincount(owner, minlength=count) == 1
        plain[owner[other]] = False
        plain[packet[13].owner[packet[13].value & CLEARED != 0]] = False
        self.plain = plain
        self.time = packet[8].last(count)
        self.sequence = packet[10].last(count)
        self.clock = packet[58].last(count)
        self.track = of_packets(event[11].last(len(owner)))
        self.name_iid = of_packets(event[10].last(len(owner)))
        self.category_iid = of_packets(event[3].first(len(owner)))
        self.name = of_packets(texts.numbers(event[23], data, len(owner)))
        self.category = of_packets(texts.numbers(event[22], data, len(owner)))
        details, number = event[4], len(event[4].owner)
        annotation, _ = decoder.columns(details.bounds(), _ANNOTATION)
        self.detail_of = owner[details.owner]  # the packet
        self.detail_iid = annotation[1].last(number)
        self.detail_name = texts.numbers(annotation[10], data, number)
        unsigned = annotation[3].last(number)
        self.detail_value = np.where(unsigned != 0, unsigned, annotation[4].last(number))

    def kinds(self, index: NDArray[np.int64]) -> tuple[list[tuple[int, int, int, int]], NDArray[np.intp]]:
        """The distinct combinations of category and name (interned, or in the packet), and their index per packet."""
        first, which = combinations(
            self.category_iid[index], self.category[index], self.name_iid[index], self.name[index]
        )
        rows = index[first]
        columns = (self.category_iid[rows], self.category[rows], self.name_iid[rows], self.name[rows])
        return list(zip(*(c.tolist() for c in columns), strict=True)), which


@dataclass(frozen=True)
class Marks:
    """Beginnings (1) and ends (-1) of slices in the order of the file; 0 is neither."""

    step: NDArray[np.int8]
    track: NDArray[np.int64]
    time: NDArray[np.int64]
    kind: NDArray[np.int32]
    bytes: NDArray[np.int64]
    correlation: NDArray[np.int64]

    @classmethod
    def void(cls, count: int) -> Marks:
        return cls(
            np.zeros(count, np.int8), np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int32),
            np.full(count, -1, np.int64), np.full(count, -1, np.int64),
        )  # fmt: skip

    def __getitem__(self, index: slice | NDArray[np.integer] | NDArray[np.bool_]) -> Marks:
        return Marks(*(getattr(self, f.name)[index] for f in fields(self)))


def paired(marks: Marks) -> tuple[Marks, NDArray[np.int64], int]:
    """The slices of one track: beginnings, times of ends (-1 if missing), and the number of ends without a beginning.

    An end belongs to the last beginning that is still open.
    """
    depth = np.cumsum(marks.step, dtype=np.int64)
    lowest = np.minimum.accumulate(np.concatenate(([0], depth)))[:-1]
    stray = depth < lowest
    marks = marks[~stray]
    depth = np.cumsum(marks.step, dtype=np.int64)
    level = np.where(marks.step > 0, depth, depth + 1)
    order = np.argsort(level, kind="stable")  # on each level, a beginning, its end, the next beginning, ...
    begins = np.flatnonzero(marks.step[order] > 0)
    after = np.minimum(begins + 1, len(order) - 1)
    ended = (marks.step[order[after]] < 0) & (level[order[after]] == level[order[begins]])
    ends = np.where(ended, marks.time[order[after]], -1)
    return marks[order[begins]], ends, int(np.count_nonzero(stray))
