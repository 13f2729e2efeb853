"""The messages of the crystal router, which takes ceil(log2 P) steps and halves every group of ranks in each.

A rank sends the parcels for the other half to one partner there (cpp/weft/exchange/crystal.cpp, docs/exchange.md).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def steps(source: Ints, target: Ints, size: Floats, ranks: int) -> Iterator[tuple[Ints, Ints, Floats]]:
    """The parcels that move in each step: their sending ranks, receiving ranks, and sizes.

    Parcel k goes from rank source[k] to rank target[k]. A rank sends all its parcels of a step in one message.
    """
    holder = np.array(source)
    first, count = (
        np.zeros_like(holder),
        np.full_like(holder, ranks),
    )  # bounds of the group that contains holder and target
    for _ in range(max(0, (ranks - 1).bit_length())):
        lower = (count + 1) // 2  # the lower half is the larger one
        middle = first + lower
        low, down = holder < middle, target < middle
        moves = (low != down) & (count > 1)
        partner = np.where(low, np.minimum(holder + lower, first + count - 1), holder - lower)
        yield holder[moves], partner[moves], size[moves]
        holder = np.where(moves, partner, holder)
        first, count = np.where(down, first, middle), np.where(down, lower, count - lower)
    if (holder != target).any():
        raise AssertionError("a parcel has not arrived after the last step")
