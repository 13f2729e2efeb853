"""Runs on every rank under mpiexec: transforms of given shapes, and what all ranks found."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from worker_loop import answer_cases

import weft.fft

comm = MPI.COMM_WORLD


def run(case: dict) -> dict[str, object]:
    shape, variables = tuple(case["shape"]), case["variables"]
    single = case["dtype"] == "float32"
    plan = weft.fft.Plan(
        shape, comm, dtype=case["dtype"], process_grid=case["grid"], batch=case["batch"], norm=case["norm"],
        modes_x=case["modes_x"], exchange=case["exchange"], variables=variables,
    )  # fmt: skip
    field = np.random.default_rng(case["seed"]).standard_normal((variables, *shape)).astype(case["dtype"])
    coefficients = np.fft.rfftn(field.astype("f8"), axes=(1, 2, 3), norm=case["norm"])[..., : plan_modes(case)]
    mine = (slice(None), *plan.physical_slices)
    found = plan.forward(np.ascontiguousarray(field[mine]))
    expected = coefficients[(slice(None), *plan.spectral_slices)]
    if expected.shape != found.shape:
        return {"wrong": f"shape {found.shape}, expected {expected.shape}"}
    # Backward of coefficients that are no real field's: also NumPy's answer.
    any_spectrum = np.random.default_rng(case["seed"] + 1).standard_normal((2, *coefficients.shape))
    full = np.zeros((variables, shape[0], shape[1], shape[2] // 2 + 1), complex)
    full[..., : plan_modes(case)] = any_spectrum[0] + 1j * any_spectrum[1]
    given = np.ascontiguousarray(full[(slice(None), *plan.spectral_slices)]).astype(plan.spectral_dtype)
    kept = given.copy()
    back = plan.backward(given)
    expected_back = np.fft.irfftn(full, shape, axes=(1, 2, 3), norm=case["norm"])[mine]
    tolerance = 2e-5 if single else 1e-13

    def error(a: np.ndarray, b: np.ndarray, scale: np.ndarray) -> float:
        return float(np.abs(a - b).max(initial=0) / np.sqrt((np.abs(scale) ** 2).mean()) / tolerance)

    forward = error(found, expected, coefficients)
    again = plan.backward(found, overwrite=True)
    same = case["modes_x"] is None  # nothing was dropped
    return {
        "wrong": "" if np.array_equal(given, kept) else "backward changed its input",
        "forward": forward,
        "backward": error(back, expected_back, expected_back) if expected_back.size else 0.0,
        "round_trip": error(again, field[mine], field) if same else 0.0,
        "points": int(np.prod(plan.physical_shape)),
        "modes": int(np.prod(plan.spectral_shape)),
        "grid": plan.process_grid,
        "tuning": plan.tuning,
    }


def plan_modes(case: dict) -> int:
    return case["modes_x"] or case["shape"][2] // 2 + 1


answer_cases(run, comm)
