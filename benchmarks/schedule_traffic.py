"""Counts, without MPI, the messages and bytes that a rank sends by each schedule in a periodic box of ranks.

    python benchmarks/schedule_traffic.py --ranks 4 4 4 --points 8 64

Each rank has 26 neighbours. `points` is the number of points along an edge of a rank; a face of points goes to 6
neighbours, an edge to 12 and a corner to 8, with 8 bytes per point. MPI decides what alltoallv and neighbor send; the
row of pairwise is a lower bound.
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter

import numpy as np


def traffic(shape: tuple[int, int, int], points: int) -> list[Counter[int]]:
    """For each rank, the bytes for each other rank."""
    ranks = []
    for place in itertools.product(*[range(n) for n in shape]):
        to: Counter[int] = Counter()
        for step in itertools.product((-1, 0, 1), repeat=3):
            moved = [(p + s) % n for p, s, n in zip(place, step, shape, strict=True)]
            other = int(np.ravel_multi_index(moved, shape))
            if any(step) and other != len(ranks):
                to[other] += 8 * points ** step.count(0)
        ranks.append(to)
    return ranks


def crystal(traffic: list[Counter[int]]) -> list[tuple[int, int]]:
    """For each rank, the messages and bytes it sends by the halving of cpp/weft/exchange/crystal.cpp."""
    held = [Counter(to) for to in traffic]
    sent = [(0, 0)] * len(held)
    groups = [(0, len(held))]
    while groups:
        halves, arriving = [], []
        for first, ranks in groups:
            lower = (ranks + 1) // 2
            middle = first + lower
            for rank in range(first, first + ranks):
                low = rank < middle
                partner = min(rank + lower, first + ranks - 1) if low else rank - lower
                leaving = Counter({to: n for to, n in held[rank].items() if (to < middle) != low})
                held[rank] = Counter({to: n for to, n in held[rank].items() if (to < middle) == low})
                if leaving:
                    sent[rank] = (sent[rank][0] + 1, sent[rank][1] + leaving.total())
                    arriving.append((partner, leaving))
            halves += [half for half in ((first, lower), (middle, ranks - lower)) if half[1] > 1]
        for partner, parcels in arriving:
            held[partner].update(parcels)
        groups = halves
    assert all(set(left) <= {rank} for rank, left in enumerate(held))  # everything has arrived
    return sent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs=3, default=[8, 8, 8])
    parser.add_argument("--points", type=int, nargs="+", default=[2, 8, 57])
    arguments = parser.parse_args()
    print("ranks  points  schedule   messages/rank (most)     kB/rank (most)")
    for points in arguments.points:
        wanted = traffic(tuple(arguments.ranks), points)
        rows = {"pairwise": [(len(to), to.total()) for to in wanted], "crystal": crystal(wanted)}
        for name, sent in rows.items():
            messages, size = np.array(sent).T
            print(
                f"{len(wanted):5d}  {points:6d}  {name:9s}  {messages.mean():8.1f} ({messages.max():3d})"
                f"          {size.mean() / 1e3:9.2f} ({size.max() / 1e3:.2f})"
            )


if __name__ == "__main__":
    main()
