"""`weft bench ratio`: one problem on several numbers of ranks and threads, the data that `weft model ratio` fits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from weft.bench.scaling import run
from weft.files import write_json
from weft.format import seconds
from weft.model.ratio import Run, notes, scaling_results
from weft.model.result import ModelError, Table
from weft.record import Iterations, Record
from weft.run.launch import cores


class RatioRow(TypedDict):
    """One run, as `weft model ratio` reads it."""

    processes: int
    threads: int
    t_total: float
    t_mpi: float
    iterations: int | dict[str, Iterations]
    dofs: int


def combinations(processes: Sequence[int], threads: Sequence[int], most: int) -> list[tuple[int, int]]:
    """The pairs of processes and threads per process with at most `most` threads in total."""
    return [(p, t) for p in processes for t in threads if p * t <= most]


def row(record: Record, processes: int, threads: int) -> RatioRow:
    """The part of a run's record that `weft model ratio` needs."""
    timings = record["timings"]
    spent = timings["breakdown"]
    return {
        "processes": processes,
        "threads": threads,
        "t_total": timings["solve_seconds"],
        "t_mpi": spent["mpi"]["mean_seconds"] if "mpi" in spent else 0.0,
        "iterations": record["figures"]["iterations"],
        "dofs": record["figures"]["dofs"],
    }


def sweep(
    processes: Sequence[int],
    threads: Sequence[int],
    output: Path,
    *,
    repeats: int,
    oversubscribe: bool,
    assignments: Sequence[str],
    time_limit: int,
) -> list[RatioRow]:
    """Runs every combination `repeats` times, in turn so that drift affects all alike, and writes ratio.json.

    Raises RuntimeError if a run fails, or if no combination fits the cores.
    """
    everything = combinations(processes, threads, max(processes) * max(threads))
    chosen = everything if oversubscribe else combinations(processes, threads, cores())
    if not chosen:
        raise RuntimeError(f"every combination has more threads than the {cores()} cores here: ask for fewer")
    left_out = [pair for pair in everything if pair not in chosen]
    if left_out:
        told = ", ".join(f"{p} x {t}" for p, t in left_out)
        print(f"weft: left out, more threads than {cores()} cores: {told} (--oversubscribe runs them)", flush=True)
    rows: list[RatioRow] = []
    path = output / "ratio.json"
    print("processes  threads  time of the solve  in MPI, mean", flush=True)
    for _ in range(repeats):
        for count, each in chosen:
            record = run("poisson", count, assignments, time_limit, threads=each)
            rows.append(row(record, count, each))
            last = rows[-1]
            print(f"{count:9}  {each:7}  {seconds(last['t_total']):>17}  {seconds(last['t_mpi']):>12}", flush=True)
            content = {"machine": record["machine"], "case": record["case"], "rows": rows}
            write_json(path, content)
    jobs = [Run(r["processes"], r["threads"], r["t_total"], r["t_mpi"]) for r in rows]
    try:
        print("\n" + Table("CPU cores per GPU, Eqs. 5 and 6", scaling_results(jobs), notes(jobs)).console())
    except ModelError as error:
        print(f"\nno fit: {error}")
    print(f"wrote {path}")
    return rows
