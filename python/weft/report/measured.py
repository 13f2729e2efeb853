"""The rows of the files that `weft bench` writes; the names include the units."""

from __future__ import annotations

from typing import TypedDict

from weft.record import Limit


class SweepRow(TypedDict, total=False):
    """One run of `weft bench scaling`: its size, and the quantities that its workload measures."""

    ranks: int
    order: int
    elements: int
    box: list[int]
    grid: int
    grid_points: int
    points: int
    dofs: int
    process_grid: str
    batch: int
    exchange: str
    seconds_per_step: float
    median_step_seconds: float
    seconds_per_iteration: float
    seconds_per_step_and_point: float
    points_per_second: float
    throughput_dofs_per_second_per_rank: float
    fom_gflops: float
    gflops: float
    communication_share: float
    exchange_share: float
    iterations: dict[str, float]
    phases: dict[str, float]
    parts: dict[str, float]
    memory_words_per_point: float
    memory_bytes_per_rank: int


class Fit(TypedDict):
    """A fit to the rows of one order and number of ranks; None if the rows do not determine the value."""

    order: int
    ranks: int
    half_rate_points: float | None
    half_rate_points_per_rank: float | None
    saturated_gflops: float | None
    strong_scale_limit_points_per_rank: int | None
    weak_efficiency: float | None


class Efficiency(TypedDict):
    """Parallel efficiency of one row; None if no row to compare it with was measured."""

    order: int
    elements: int
    ranks: int
    strong: float | None
    weak: float | None


class OperatorRow(TypedDict, total=False):
    """The Poisson operator at one order, with one geometry."""

    order: int
    geometry: str
    kernels: str
    threads: str
    box: list[int]
    elements: int
    dofs: int
    seconds: float
    gflops: float
    dofs_per_second: float
    elements_by_shape: dict[str, int]
    boxes: int
    access: str
    flops: float
    bytes: float
    bytes_formula: str
    bytes_paper: float
    roofline_gflops: float
    roofline_fraction: float
    limits: list[Limit]
    iterations: int
    seconds_per_iteration: float
    fom_gflops: float
    iteration_bytes: float


class Rounds(TypedDict):
    """Median and quartiles over the rounds of the slowest rank."""

    seconds: float
    seconds_low: float
    seconds_high: float
    rounds: int
    repetitions: int


class Message(Rounds):
    """A message of a ping-pong, one way."""

    where: str
    pairs: int
    memory: str
    path: str
    bytes: int
    bandwidth_bytes_per_second: float
    fastest_pair_seconds: float


class Traffic(TypedDict):
    """The messages of one exchange, and a lower bound on their time."""

    messages: int
    bytes: int
    total_messages: int
    total_bytes: int
    smallest_message_bytes: int
    median_message_bytes: int
    largest_message_bytes: int
    bound_seconds: float


class Exchange(Rounds, Traffic):
    """An operation of the exchange layer by one schedule and path."""

    ranks: int
    order: int
    fields: int
    operation: str
    choice: str
    schedule: str
    path: str
    tuned: bool
    bandwidth_bytes_per_second: float
    times_bound: float | None


class AllToAll(Rounds):
    """An all-to-all of a distributed transform by one method."""

    grid: int
    variables: int
    processes: int
    row_ranks: int
    column_ranks: int
    communicator: str
    ranks: int
    message_bytes: int
    memory: str
    method: str
    copy_seconds: float | None
    total_seconds: float
    bandwidth_bytes_per_second: float


class Transform(Rounds):
    """A distributed transform forward and backward."""

    points: int
    precision: str
    process_grid: str
    variables: int
    batch: int
    row_exchange: str
    column_exchange: str
    flops_per_second: float
    bytes: int
    bandwidth_share: float
    limits: list[Limit]
    memory_bytes: int


class Lines(TypedDict):
    """Transforms of lines that are not contiguous in memory; the keys of each dictionary are methods."""

    points: int
    precision: str
    lines: int
    steps: dict[str, Rounds]
    total_seconds: dict[str, float]
    flops_per_second: dict[str, float]
    bytes: int
    bandwidth_share: dict[str, float]
    limits: dict[str, list[Limit]]
    fastest: str
