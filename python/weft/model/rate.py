"""The bandwidth of a link, fitted to the copies or messages that it carried."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.model.result import bootstrap

MOST_COPIES = 300  # sampled evenly over the trace to fit the bandwidth of a link


def link_bandwidth(copies: Sequence[tuple[float, float]]) -> float:
    """The bandwidth of a link (byte/s), from (bytes, seconds) of copies; infinite without copies.

    If the sizes differ, this is the slope of a least-squares fit of seconds over bytes with relative errors; otherwise,
    total bytes over total time.
    """
    sample = [c for c in copies if c[1] > 0]
    if not sample:
        return np.inf
    data, seconds = np.array(sample).T
    overall = float(data.sum() / seconds.sum())
    if data.max() < 4 * data.min():
        return overall
    weight = 1 / seconds
    rows = np.column_stack([weight, data * weight])
    offset, slope = np.linalg.lstsq(rows, np.ones(len(data)), rcond=None)[0]
    return float(1 / slope) if slope > 0 and offset >= 0 else overall


def link_bandwidth_range(copies: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The 95 % bootstrap range of `link_bandwidth`, from at most MOST_COPIES evenly sampled copies."""
    sample = [c for c in copies if c[1] > 0]
    if len(sample) < 2:
        return (link_bandwidth(sample),) * 2
    chosen = np.linspace(0, len(sample) - 1, min(len(sample), MOST_COPIES)).astype(int)
    return bootstrap([sample[i] for i in chosen], link_bandwidth)
