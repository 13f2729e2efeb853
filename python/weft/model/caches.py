"""The share of a problem's data that comes from memory rather than from a cache.

A cache that replaces the least recently used line keeps nothing of data that exceed it and are read cyclically. This
holds for each set. A set serves the pages of one colour, and holds as many of them as it has ways. Pages lie anywhere
in physical memory, so the number of other pages with a page's colour follows a Poisson distribution, and the page stays
in the cache if they are fewer than the ways (Kessler and Hill, Page placement algorithms for large real-indexed caches,
1992).
"""

from __future__ import annotations

from scipy.special import gammainc

WAYS = 16  # ways of a last-level cache; more ways make the change from cache to memory more abrupt
# A step of maxwell and an iteration of poisson read all their data before they read any of it again. A step of flow has
# many solves and products, which read parts of the data of any size again.
IN_PARTS = ("flow",)


def missing_share(workload: str, working_set: float, cache_bytes: float) -> float:
    """The share of the data of a workload that comes from memory; 1 if the cache is not known."""
    if cache_bytes <= 0:
        return 1.0
    size = working_set / cache_bytes
    share = float(gammainc(WAYS, WAYS * size))  # the chance of WAYS other pages or more
    if workload in IN_PARTS:  # the mean over parts of all sizes
        share -= float(gammainc(WAYS + 1, WAYS * size)) / size
    return share
