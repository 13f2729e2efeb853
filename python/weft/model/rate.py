"""The rate of a link, from the copies or messages that went over it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.model.result import bootstrap

MOST_COPIES = 300  # that a link's rate is fitted to, taken evenly over the trace


def link_bandwidth(copies: Sequence[tuple[float, float]]) -> float:
    """Rate of a link (byte/s) from (bytes, seconds) of copies; infinite without copies.

    The slope of seconds over bytes by least squares relative to the time, where sizes differ; else total over total.
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
    """The 95 % bootstrap range of `link_bandwidth`, from at most MOST_COPIES copies taken evenly."""
    sample = [c for c in copies if c[1] > 0]
    if len(sample) < 2:
        return (link_bandwidth(sample),) * 2
    chosen = np.linspace(0, len(sample) - 1, min(len(sample), MOST_COPIES)).astype(int)
    return bootstrap([sample[i] for i in chosen], link_bandwidth)
