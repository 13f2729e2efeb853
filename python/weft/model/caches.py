"""What a cache holds of a problem: the share of its data that comes from memory.

A cache that replaces what was unused for longest holds nothing of data that exceed it and are read in turns. It does
this set by set. A set serves the pages of one colour, and holds as many of them as it has ways. Pages lie anywhere in
physical memory, so the number of other pages of a page's colour follows Poisson's distribution, and the page stays in
the cache if they are fewer than the ways (Kessler and Hill, Page placement algorithms for large real-indexed caches,
1992).
"""

from __future__ import annotations

from scipy.special import gammainc

WAYS = 16  # of last-level caches; more ways make the change from cache to memory more abrupt
# A step of maxwell and an iteration of poisson read all their data before they come back to the first. A step of flow
# is made of many solves and products that come back to parts of the data of any size up to all.
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
