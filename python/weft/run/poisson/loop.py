"""`weft run poisson`: sets up the problem, measures the machine, solves, and collects the figures.

The record in its result becomes run.json: `case`, `versions`, `machine`, `choices`, `timings`, `figures`, `residuals`,
with units in the names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from mpi4py import MPI

from weft.arrays import DeviceArray
from weft.cases.poisson import PoissonCase
from weft.record import Record
from weft.run.elements import moved_by_user_code
from weft.run.machine import MEASURING, rates
from weft.run.poisson import output
from weft.run.poisson.figures import finish, sizes
from weft.run.poisson.own import OwnProblem
from weft.run.poisson.problem import (
    cycled,
    error,
    iterations_at_most,
    make_mesh,
    make_operator,
    right_hand_side,
)
from weft.run.record import Display, Result, Stopwatch, open_record

if TYPE_CHECKING:
    from weft.poisson import CgResult, Poisson


def run(case: PoissonCase, display: Display) -> Result:
    """Runs a case on all ranks. (collective)

    The record's `figures["converged"]` is False if a solve did not reach its tolerance, which its result reports as a
    problem, and None for the benchmark.
    """
    comm = MPI.COMM_WORLD
    clock = Stopwatch(comm)
    with clock("mesh_seconds"):
        display.phase("mesh: reading and distributing" if case.mesh.file else "mesh: generating")
        mesh = make_mesh(case, comm)
    if note := moved_by_user_code(case, mesh):
        display.warn(note)
    with clock("operator_seconds"):
        display.phase("operator: numbering, exchange pattern, geometric factors")
        own = OwnProblem(case, mesh) if case.own_problem else None
        operator = own.make_operator() if own else make_operator(case, mesh)
    with clock("right_hand_side_seconds"):
        b = own.right_hand_side(operator) if own else right_hand_side(case, operator)
    record = open_record(case, operator.device, clock, operator.choices, sizes(mesh, operator, case))
    record["residuals"] = []
    display.header(record)
    display.phase(MEASURING)
    with clock("machine_seconds"):
        record["figures"].update(rates(operator.device, case.precision, comm))
    display.phase("solving")
    result = solve(case, operator, b, display.progress(iterations_at_most(case), progress_line), comm)
    finish(record, case, operator, result, comm)
    difference = error(case, operator, own, result.x)
    if difference is not None:
        record["figures"]["l2_error"] = difference
    display.result(record)
    output.write(case, operator, result.x, own, record, display)
    return Result(record, problem=not_converged(case, record))


def not_converged(case: PoissonCase, record: Record) -> str:
    """The message for a solve that did not reach its tolerance, else ""."""
    if record["figures"]["converged"] is not False:
        return ""
    residuals, true = record["residuals"], record["figures"]["true_residual"]
    if true is not None:  # the recurrence reached the tolerance
        return (
            f"not converged: |b - A x| / |b| = {true:.3e}, tolerance {case.solver.tolerance:g}: the residual of the "
            f"recurrence reached it after {record['figures']['iterations']} iterations, but rounding in "
            f"{case.precision} precision keeps the true one above (raise --tolerance"
            + (", or use --precision double)" if case.precision == "single" else ")")
        )
    return (
        f"not converged: |r| / |b| = {residuals[-1] / residuals[0]:.3e} after "
        f"{record['figures']['iterations']} iterations, tolerance {case.solver.tolerance:g} "
        "(raise solver.max_iterations, or use --preconditioner multigrid)"
    )


def solve(
    case: PoissonCase, operator: Poisson, b: DeviceArray, progress: Callable[[int, float], None], comm: MPI.Intracomm
) -> CgResult:
    """The timed solve, after the case's warm-up. (collective)

    Progress is shown only if the warm-up predicts a long solve: in a short one, calls into Python between iterations
    would distort the time.
    """
    if cycled(case):
        return solve_cycled(case, operator, b, progress)
    cg = partial(operator.cg, b, preconditioner=case.solver.preconditioner, algorithm=case.solver.algorithm)
    long = case.solver.warmup == 0
    if case.solver.warmup > 0:
        result = cg(iterations=case.solver.warmup)
        long = comm.bcast(result.seconds / case.solver.warmup * iterations_at_most(case)) > 5.0
    shown = progress if long else None
    if case.solver.tolerance > 0.0:
        return cg(tolerance=case.solver.tolerance, max_iterations=case.solver.max_iterations, progress=shown)
    return cg(iterations=case.solver.iterations, progress=shown)


def solve_cycled(
    case: PoissonCase, operator: Poisson, b: DeviceArray, progress: Callable[[int, float], None]
) -> CgResult:
    """The timed solve with multigrid, or with its smoother alone; the levels are set up before timing. (collective)"""
    chosen = case.solver
    orders = (case.order,) if chosen.preconditioner == "chebyshev" else tuple(chosen.levels) or None
    multigrid = partial(
        operator.multigrid,
        b,
        method=chosen.method,
        restart=chosen.restart,
        orders=orders,
        smoother="chebyshev-jacobi" if chosen.preconditioner == "chebyshev" else chosen.smoother,
        degree=chosen.degree,
        precision=chosen.cycle_precision,
    )
    if chosen.warmup > 0:
        multigrid(tolerance=0.5, max_iterations=chosen.warmup)
    return multigrid(tolerance=chosen.tolerance, max_iterations=chosen.max_iterations, progress=progress)


def progress_line(iteration: int, total: int, residual: float) -> str:
    """One line of progress of a solve."""
    return f"iteration {iteration} of at most {total}, |r| = {residual:.3e}"
