"""The record of a run: what `weft run` writes to run.json, and `weft report` and `weft model` read.

Records are dictionaries as JSON holds them; the classes below say what is in them. A number's unit is in its name;
docs/run-record.md lists every field. `schema` is the version of this format; records of weft 0.1.0 that have none are
read too.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

import weft
from weft.arrays import Values
from weft.files import whole, write_json

SCHEMA = 1  # version of the records that this version of weft writes
UNFINISHED = "unfinished.json"  # holds the case of a run that is in progress or was stopped
PLANES = "planes.npz"  # next to a record: the values of its planes
WORKLOADS = ("poisson", "maxwell", "flow", "turbulence")

# The row of one step in a table, by column; None where a value is not finite.
Row = dict[str, float | None]


class RecordError(ValueError):
    """A file that is not the record of a run, or one that this version of weft cannot read."""


class Versions(TypedDict, total=False):
    """Versions of the software that took part."""

    weft: str
    python: str
    numpy: str
    mpi: str
    mpi4py: str
    fft: str


class Device(TypedDict):
    """The device on which the kernels ran."""

    backend: str
    name: str
    architecture: str
    multiprocessors: int
    memory_bytes: int


class Caches(TypedDict):
    """The last-level caches of a node: their number, and the size of each in bytes."""

    count: int
    bytes: int


class Machine(TypedDict):
    """The machine of a run."""

    processor: str
    microarchitecture: NotRequired[str]
    processors: int
    node_processors: NotRequired[int]
    caches: NotRequired[Caches]
    system: str
    ranks: int
    ranks_per_node: int
    threads_per_rank: int
    device: Device


class Trial(TypedDict):
    """The result of one candidate of a tuner."""

    median_seconds: float
    repetitions: int
    stopped_early: bool
    failure: str


class Timing(Trial):
    """One exchange that the tuner tried."""

    exchange: str


class Tuning(TypedDict):
    """How an exchange was chosen."""

    chosen: str
    reason: str
    cached: bool
    reused: bool
    tuning_seconds: float
    timings: list[Timing]


class TransformSetting(TypedDict, total=False):
    """A setting of the Fourier transforms."""

    process_grid: str
    batch: int
    row_exchange: str
    column_exchange: str
    library: str
    forward: str
    backward: str
    overwriting: str


class TransformTiming(Trial, TransformSetting):
    """One setting of the Fourier transforms that the tuner tried."""

    race: str


class Multigrid(TypedDict, total=False):
    """The levels of a multigrid cycle, and of a flow's pressure solve."""

    orders: list[int]
    algebraic_level_unknowns: list[int]
    smoother: str
    degree: int
    largest_eigenvalues: list[float]
    precision: str
    method: str
    exchange: dict[str, Tuning]
    projection: int
    level: str


class Choices(TransformSetting, total=False):
    """What was chosen, and why: "choice: reason"."""

    geometry: str
    kernels: str
    storage: str
    threads: str
    access: str
    algorithm: str
    multigrid: Multigrid
    flux: str
    integrator: str
    convection: str
    pressure: Multigrid
    exchange: dict[str, Tuning]
    reason: str
    tuning_seconds: float
    timings: list[TransformTiming]


class Spread(TypedDict):
    """Seconds over the ranks."""

    mean_seconds: float
    max_seconds: float


class Timings(TypedDict, total=False):
    """Wall-clock seconds of the parts of a run, the slowest rank's unless their name says otherwise."""

    mesh_seconds: float
    operator_seconds: float
    right_hand_side_seconds: float
    solver_seconds: float
    initial_seconds: float
    machine_seconds: float
    solve_seconds: float
    seconds_per_iteration: float
    run_seconds: float
    steps_seconds: float
    seconds_per_step: float | None
    best_step_seconds: float | None
    mean_step_seconds: float | None
    statistics_seconds: float
    output_seconds: float
    checkpoint_seconds: float
    profiled_seconds: float
    profiled_steps: int
    breakdown: dict[str, Spread]
    routines: dict[str, Spread]
    parts: dict[str, Spread]
    phases: dict[str, dict[str, float]]


class Iterations(TypedDict):
    """Iterations of a solve, over the steps that count."""

    mean: float
    largest: int


class PathFigures(TypedDict, total=False):
    """A step with one path of the exchange."""

    seconds_per_step: float
    communication_share: float
    exchange_share: float
    exchange_seconds_per_step: float
    speed_up: float | None


class Energy(TypedDict):
    """Energy that the machine used, and the counters that could not be read."""

    joules: float | None
    parts_joules: dict[str, float]
    missing: list[str]


class Limit(TypedDict):
    """A lower bound on the time of some work, and its share of the measured time."""

    name: str  # bandwidth, arithmetic or instructions
    seconds: float
    share: float
    what: str


class Figures(TypedDict, total=False):
    """Sizes, rates and quantities derived from them."""

    mesh: str
    straight: bool
    elements: int
    order: int
    points: int
    dofs: int
    fields: int
    ranks: int
    boundaries: dict[str, str]
    elements_by_material: dict[str, int]
    elements_by_shape: dict[str, int]
    boxes: int
    grid: list[int]
    grid_points: int
    viscosity: float
    largest_wavenumber: float
    process_grid: str
    batch: int
    message_bytes: dict[str, int]
    pressure_singular: bool
    began_from: str | None
    time_step: float
    time_step_limit: float
    longest_time_step: float
    courant: float
    steps: int
    steps_done: int
    final_time: float
    profiled_steps: int
    applications_per_step: float
    iterations: int | dict[str, Iterations]  # of one solve, or of each solve of a flow by name
    converged: bool | None
    stable: bool
    unstable: str
    l2_error: float
    true_residual: float | None
    energy_norm_error: float
    relative_error: float
    no_error_because: str
    errors: dict[str, float]
    bandwidth_bytes_per_second: float
    peak_flops_per_second: float
    achieved_bytes_per_second: float
    dofs_per_second: float | None
    points_per_second: float | None
    points_per_second_per_rank: float
    grid_points_per_second: float | None
    best_grid_points_per_second: float | None
    throughput_dofs_per_second_per_rank: float
    fom_gflops: float
    gflops: float
    seconds_per_step_and_point: float
    iteration_flops: float
    iteration_bytes: float
    iteration_bytes_paper: float
    limits: list[Limit]
    limits_by_phase: dict[str, list[Limit]]
    roofline_fraction: float
    roofline_fraction_paper: float
    step_flops: float
    step_flops_done: float
    step_bytes: float
    step_bytes_sent: float
    step_messages: float
    communication_share: float | None
    exchange_share: float | None
    energy_to_solution: Energy
    joules_per_step: float | None
    memory: int
    memory_bytes: dict[str, int]
    memory_bytes_per_point: float
    memory_bytes_per_rank: int
    memory_words_per_point: float
    equation_9_bytes_per_rank: float
    resident_bytes_per_rank: int
    loads: dict[str, dict[str, float]]
    paths: dict[str, PathFigures]
    paths_note: str
    checkpoint: str
    files: list[str]
    formulas: dict[str, str]


class StoredArray(TypedDict):
    """An array in a file next to the record."""

    file: str
    array: str


class Plane(TypedDict):
    """Values on a plane through a mesh."""

    name: str
    axis: str
    at: float
    time: float | None  # None for a problem without time
    extent: list[float]
    values: Values | StoredArray  # [rows][columns], NaN outside the mesh; `read` loads what run.json only names
    outline: dict[str, list[list[float]]]  # where it cuts boundaries, by name: segments from (x, y) to (x, y)


class Spectrum(TypedDict):
    """The last spectrum of a turbulence run, by wavenumber."""

    step: int
    time: float
    wavenumbers: list[float]
    energy: list[float]
    dissipation: list[float]
    transfer: list[float] | None


class Distribution(TypedDict):
    """The distribution of a quantity over the points."""

    lower: list[float]
    upper: list[float]
    density: list[float]
    moments: list[float]
    scale: float
    skewness: float | None
    flatness: float | None
    largest: float


class Reference(TypedDict, total=False):
    """Comparison with a reference: its columns, and the largest differences relative to its largest value."""

    name: str
    time: list[float]
    energy: list[float]
    dissipation: list[float]
    largest_energy_error: float | None
    largest_dissipation_error: float | None


class Profile(TypedDict):
    """Means over time and a flow's homogeneous directions: columns by name, and the friction velocities at the ends."""

    coordinate: str
    columns: dict[str, list[float]]
    friction_velocities: list[float]


class Statistics(TypedDict, total=False):
    """The history of a time-dependent run."""

    history: list[Row]
    steps: list[Row]
    step: list[int]
    time: list[float]
    electric_energy: list[float]
    magnetic_energy: list[float]
    error: dict[str, list[float]]
    exact: dict[str, list[float]]
    planes: list[Plane]
    missing_file: str  # file with the values of planes; named if it is missing, and the planes are then omitted
    spectrum: Spectrum
    distributions: dict[str, Distribution]
    extra_bytes_per_rank: int
    reference: Reference
    profile: Profile


class Sections(TypedDict):
    """The sections that every record has."""

    case: dict[str, Any]  # docs/cases.md
    versions: Versions
    machine: Machine
    choices: Choices
    timings: Timings
    figures: Figures


SECTIONS = tuple(Sections.__annotations__)


class Record(Sections, total=False):
    """A complete record: with `residuals` for a solve, with `statistics` for a time-dependent run."""

    schema: int
    residuals: list[float]
    statistics: Statistics


def read(path: str | Path) -> Record:
    """Reads the record of a finished run, from run.json or the folder that holds it.

    Raises OSError if the file cannot be read, and RecordError if it is not a record or its version is not known.
    """
    path = Path(path)
    path = path / "run.json" if path.is_dir() else path
    if not path.exists() and path.with_name(UNFINISHED).exists():
        raise RecordError(f"{path.parent}: the run has not finished: it is in progress, or was stopped")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: not the record of a run: {error}") from None
    missing = [key for key in SECTIONS if not isinstance(content, dict) or key not in content]
    if missing:
        raise RecordError(f"{path}: not the complete record of a run: {', '.join(missing)} missing (did the run end?)")
    record = current(content, path)
    workload = record["case"].get("workload")
    if workload not in WORKLOADS:
        raise RecordError(f"{path}: record of the unknown workload {workload!r}; known: {', '.join(WORKLOADS)}")
    history = "residuals" if workload == "poisson" else "statistics"
    if history not in record:
        raise RecordError(f"{path}: not the complete record of a run: {history} missing (did the run end?)")
    _load_planes(record, path)
    return record


def write(folder: Path, record: Record) -> Path:
    """Writes run.json, with the values of the record's planes in a file next to it; returns the path of run.json."""
    content: dict[str, Any] = {"schema": SCHEMA, **record}
    if planes := record.get("statistics", {}).get("planes"):
        names = [f"plane-{number}" for number in range(1, len(planes) + 1)]
        import numpy as np

        with whole(folder / PLANES) as place:
            arrays: dict[str, Any] = {n: np.asarray(p["values"]) for n, p in zip(names, planes, strict=True)}
            np.savez_compressed(place, **arrays)
        stored = [{**p, "values": StoredArray(file=PLANES, array=n)} for n, p in zip(names, planes, strict=True)]
        content["statistics"] = {**record["statistics"], "planes": stored}
    write_json(folder / "run.json", content)
    return folder / "run.json"


def _load_planes(record: Record, path: Path) -> None:
    """Reads the values of the planes; older records have them in JSON, with null outside the mesh."""
    import numpy as np

    found: list[Plane] = []
    for plane in record.get("statistics", {}).get("planes", []):
        values: Any = plane["values"]
        file = path.with_name(values["file"]) if isinstance(values, dict) else path
        try:
            if file is not path:
                with np.load(file) as stored:
                    values = stored[values["array"]]
            found.append({**plane, "values": np.asarray(values, np.float32)})
        except FileNotFoundError:
            record["statistics"]["missing_file"] = file.name
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise RecordError(f"{file}: not the planes of {path.name}: {error}") from None
    if "planes" in record.get("statistics", {}):
        record["statistics"]["planes"] = found


def is_record(content: object) -> bool:
    """Whether JSON content is the record of a run, rather than a trace or another file."""
    return isinstance(content, dict) and isinstance(content.get("case"), dict) and "timings" in content


def current(content: dict[str, Any], path: Path) -> Record:
    """Converts a record to the form that this version writes. Raises RecordError for one of a newer version."""
    schema = content.get("schema", 0)
    if not isinstance(schema, int) or schema > SCHEMA:
        by = content["versions"].get("weft", "?") if isinstance(content.get("versions"), dict) else "?"
        raise RecordError(
            f"{path}: record with schema {schema}, written by weft {by}; weft {weft.__version__} reads schemas up to "
            f"{SCHEMA}: install a newer weft"
        )
    return cast(Record, _from_0(content) if schema == 0 else content)


def _from_0(content: dict[str, Any]) -> dict[str, Any]:
    """Converts a record of weft 0.1.0 from the time before records had a schema."""
    content = {**content, "schema": SCHEMA}
    choices, timings = content.get("choices"), content.get("timings")
    if isinstance(choices, dict) and isinstance(choices.get("exchange"), str):  # exchanges were not tuned yet
        tuning = Tuning(
            chosen=choices["exchange"],
            reason="not recorded",
            cached=False,
            reused=False,
            tuning_seconds=0.0,
            timings=[],
        )
        content["choices"] = {**choices, "exchange": {"all": tuning}}
    turbulence = content["case"].get("workload") == "turbulence" if isinstance(content.get("case"), dict) else False
    if turbulence and isinstance(timings, dict) and "parts" not in timings and "breakdown" in timings:
        # The breakdown was that of GESTS's Table 3.
        content["timings"] = {k: v for k, v in timings.items() if k != "breakdown"} | {"parts": timings["breakdown"]}
    return content
